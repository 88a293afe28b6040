"""The counts of a campaign (DESIGN 5.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_lmsv.records import IterationRecord


@dataclass(frozen=True)
class Counts:
    """Environment problems and no-effect attempts are counted apart and never lower a rate."""

    iterations: int
    valid: int
    invalid: int
    no_effect: int
    environment: int
    msa_ok: int
    issues: int

    @property
    def valid_rate(self) -> float | None:
        """valid / (valid + invalid): Task6's PTA rate."""
        tried = self.valid + self.invalid
        return self.valid / tried if tried else None

    @property
    def msa_rate(self) -> float | None:
        """MSA ok / valid."""
        return self.msa_ok / self.valid if self.valid else None

    def sentence(self, compare: str = "MSA") -> str:
        """Return the counts in words; *compare* is the name of the compare side."""
        return (
            f"{self.valid} valid, {self.invalid} invalid, {self.no_effect} without effect, "
            f"{self.environment} not testable; {compare} ran {self.msa_ok} of {self.valid}; "
            f"{self.issues} with issues"
        )


def count(records: Iterable[IterationRecord]) -> Counts:
    """Return the counts of *records*, finished iterations of one campaign or one model."""
    iterations = valid = invalid = no_effect = environment = msa_ok = issues = 0
    for record in records:
        iterations += 1
        invalid += sum(attempt.verdict == "invalid" for attempt in record.attempts)
        no_effect += sum(attempt.verdict == "no effect" for attempt in record.attempts)
        environment += record.status == "ENVIRONMENT"
        run = record.baseline_run
        if run is None or run.outcome != "ok" or record.status == "ENVIRONMENT":
            continue
        valid += 1
        msa_ok += record.compare_run is not None and record.compare_run.outcome == "ok"
        issues += has_issue(record)
    return Counts(iterations, valid, invalid, no_effect, environment, msa_ok, issues)


def has_issue(record: IterationRecord) -> bool:
    """Return whether *record* has an NG, an MSA error or a known bug."""
    failed = record.compare_run is not None and record.compare_run.outcome != "ok"
    return failed or any(verdict.result == "NG" for verdict in record.verdicts)
