"""Bugs: the findings of a campaign that have the same cause, and fail their tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_lmsv.judge.findings import Finding
from pytest_lmsv.judge.signature import Signature, signature
from pytest_lmsv.records import IterationRecord

Told = tuple[IterationRecord, Sequence[Finding]]
"""An iteration, and its findings that are in the gate."""
SYSTEMATIC_OF = 4
"""With fewer judged iterations nothing is said about what is common to most."""


@dataclass(frozen=True)
class Bug:
    """Findings of one model with one signature; the smallest mutation stands for all."""

    model: str
    signature: Signature
    seen: tuple[tuple[IterationRecord, Finding], ...]
    systematic: bool

    @property
    def dimension(self) -> str:
        """What is wrong: ``run``, ``mutation``, ``loss`` or a verdict's name."""
        return self.seen[0][1].name

    @property
    def smallest(self) -> tuple[IterationRecord, Finding]:
        """The iteration with the fewest edits, the first of several."""
        return min(self.seen, key=lambda item: (_edits(item[0]), item[0].iteration))

    @property
    def iterations(self) -> tuple[tuple[str, int], ...]:
        """Where it was seen, each once."""
        return tuple(dict.fromkeys((record.model, record.iteration) for record, _ in self.seen))


def bugs(told: Sequence[Told]) -> tuple[Bug, ...]:
    """Return the bugs that *told* shows, in the order in which they were first seen.

    A verdict that is NG in more than half of a model's judged iterations is one bug, whatever was
    mutated: its keys say nothing.
    """
    often = _systematic(record for record, _ in told)
    groups: dict[tuple[str, str], list[tuple[IterationRecord, Finding]]] = {}
    named: dict[tuple[str, str], tuple[Signature, bool]] = {}
    for record, findings in told:
        for finding in findings:
            systematic = (record.model, finding.name) in often
            sign = signature(finding, record, systematic)
            key = (record.model, sign.id)
            named[key] = (sign, systematic)
            groups.setdefault(key, []).append((record, finding))
    return tuple(
        Bug(key[0], named[key][0], tuple(seen), named[key][1]) for key, seen in groups.items()
    )


def _systematic(records: Iterable[IterationRecord]) -> set[tuple[str, str]]:
    judged: dict[tuple[str, str], list[bool]] = {}
    for record in records:
        for verdict in record.verdicts:
            if verdict.result != "N/A":
                judged.setdefault((record.model, verdict.name), []).append(verdict.result == "NG")
    return {
        key
        for key, found in judged.items()
        if len(found) >= SYSTEMATIC_OF and 2 * sum(found) > len(found)
    }


def _edits(record: IterationRecord) -> int:
    return len(record.mutation.edits) if record.mutation else 0
