"""What decides whether a test passes (DESIGN 5.4, 5.5): the gate, and the bugs that are known."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.place import iteration_folder, now_at
from pytest_lmsv.fixtures import KnownBug as KnownBugHappened
from pytest_lmsv.fixtures import VerdictError
from pytest_lmsv.judge.covering import covers
from pytest_lmsv.judge.findings import MUTATION, UNCOMPARED, Finding, first_line
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import IterationRecord, RunRecord, Verdict
from pytest_lmsv.settings import repeated


@dataclass
class Judgement:
    """One iteration's verdicts, and the checks that a test makes of them."""

    campaign: Campaign
    record: IterationRecord
    expected: tuple[KnownBug, ...]
    _failed: list[str] = field(default_factory=list)

    def verdict(self, name: str) -> Verdict:
        """Return the verdict called *name*: accuracy, memory, performance, output, drift."""
        return next(verdict for verdict in self.record.verdicts if verdict.name == name)

    @property
    def accuracy(self) -> Verdict:
        """Of the losses."""
        return self.verdict("accuracy")

    @property
    def memory(self) -> Verdict:
        """Of the peaks of memory."""
        return self.verdict("memory")

    @property
    def performance(self) -> Verdict:
        """Of the times."""
        return self.verdict("performance")

    @property
    def output(self) -> Verdict:
        """Of what an inference made."""
        return self.verdict("output")

    @property
    def drift(self) -> Verdict:
        """Of every step: losses, gradients, and what an inference made."""
        return self.verdict("drift")

    def check(self, name: str, holds: bool) -> None:
        """Remember that *name* does not hold; nothing is raised before :meth:`conclude`."""
        if not holds:
            self._failed.append(name)

    def conclude(self) -> None:
        """End the test by what was checked.

        Raises KnownBug where expected bugs cover every failed check of the gate, VerdictError
        where they do not.
        """
        failing = self.failing()
        if not failing:
            return
        covering = [self._covering(finding) for finding in failing]
        text = first_line(failing, self.record.verdicts, self.campaign.labels)
        if all(bug is not None for bug in covering):
            names = sorted({bug.id for bug in covering if bug is not None})
            raise KnownBugHappened(f"{', '.join(names)}: {text}")
        raise VerdictError("\n".join([text, *self.details()]))

    @property
    def lost_edits(self) -> tuple[Finding, ...]:
        """The edits that show in the baseline's echo and not in the compare side's."""
        return tuple(f for f in self.campaign.findings(self.record) if f.name == MUTATION)

    def failing(self) -> tuple[Finding, ...]:
        """Return the findings of the gate among the failed checks."""
        asked = {*self._failed, UNCOMPARED}  # what can't be compared passes no test
        return tuple(f for f in self.campaign.failing(self.record) if f.name in asked)

    def details(self) -> list[str]:
        """Return the lines under the first one: the mutation, the figures, how to repeat."""
        record, labels = self.record, self.campaign.labels
        assert record.mutation is not None
        lines = ["mutation:"]
        lines += [f"  {edit.path}: {edit.old!r} -> {edit.new!r}" for edit in record.mutation.edits]
        for run, label in zip((record.baseline_run, record.compare_run), labels, strict=True):
            if run is not None:
                log = now_at(self.campaign.folder, Path(run.logs[0])) if run.logs else None
                lines += [f"{label} log: {log}" if log else f"{label}: no log"]
        lines += _error_lines(record.compare_run)
        lines.append(f"repeat: {self.repeat()}")
        return lines

    def repeat(self) -> str:
        """Return the command that runs and judges this iteration's mutation again."""
        folder = iteration_folder(self.campaign.folder, self.record.model, self.record.iteration)
        words = [f"--lmsv-replay={folder / 'mutation.json'}", *repeated(self.campaign.settings)]
        return f"pytest {shlex.join(words)}"

    def _covering(self, finding: Finding) -> KnownBug | None:
        return next((bug for bug in self.expected if covers(bug, finding)), None)


def _error_lines(run: RunRecord | None) -> list[str]:
    if run is None or run.error is None or not run.error.line:
        return []
    place = f", line {run.error.line_number}" if run.error.line_number else ""
    return [f"root error{place}: {run.error.line}"]
