"""One run in a log file: a file that was appended to holds several."""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_lmsv.logs.candidate import Candidate
from pytest_lmsv.logs.errors import Collector
from pytest_lmsv.logs.metrics import Footer, StepRecord
from pytest_lmsv.logs.steps import Steps


@dataclass(slots=True)
class Run:
    """One run in a file: a file that was appended to holds several."""

    collector: Collector
    certain: bool = True
    """Begun by a launcher, not only by what a rank prints at its start."""
    records: dict[int | None, Steps] = field(default_factory=dict)
    """Step records by the rank whose prefix they had."""
    progress: dict[int | None, int] = field(default_factory=dict)
    """Order of the last sign of progress of each rank."""
    records_at: list[int] = field(default_factory=list)
    """Orders of the last few records of a step that was new."""
    highest: int = -1
    memory: float | None = None
    mean_times: dict[int, float] = field(default_factory=dict)
    """Mean step time of an epoch, by its last step."""
    footers: list[tuple[int, Footer]] = field(default_factory=list)
    trainer_steps: dict[str, int] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    """Ranks that msrun says it started."""
    world_size: int | None = None
    inference: bool = False
    cut: str | None = None
    ended: bool = False
    _bars: dict[tuple[int | None, int], tuple[int, int]] = field(default_factory=dict)
    _epoch: int = 0
    _before: int = 0

    def steps_of(self, rank: int | None) -> Steps:
        """The step records of *rank*."""
        found = self.records.get(rank)
        if found is None:
            found = self.records[rank] = Steps()
        return found

    def is_only_an_echo(self) -> bool:
        """Nothing came of it: a rank's buffered output, printed when the process ended."""
        return not (self.certain or self.records or self.collector.candidates or self.footers)

    def advance(self, key: int | None, done: int, total: int, order: int) -> None:
        """A progress bar. One that moved once after an error is none: tqdm prints its last state
        when the process ends."""
        most, moved = self._bars.get((key, total), (0, 0))
        if done > most:
            self._bars[key, total] = (done, order)
            if done == total or moved:
                self.progress[key] = max(
                    self.progress.get(key, 0), order if done == total else moved
                )

    def over_epochs(self, epoch: int, record: StepRecord) -> StepRecord:
        """The record with its step counted over the epochs."""
        if epoch > self._epoch:
            self._epoch, self._before = epoch, max(self.highest, 0) if self._epoch else 0
        return record._replace(step=record.step + self._before)


def survived(entry: Candidate, run: Run, launcher_failed: bool) -> str | None:
    """Progress of the same rank after the error: it was none."""
    if entry.type == "MissingWeights":
        return None
    for key, order in run.progress.items():
        if order <= entry.order:
            continue
        if key == entry.key:
            return "followed by progress of the same rank"
        if None in (key, entry.key) and not launcher_failed:
            return "followed by progress"
    return None


def barely(entry: Candidate, run: Run) -> bool:
    """Progress after it in a step or two only: another rank's, where lines have no rank."""
    after = [order for order in run.records_at if order > entry.order]
    return entry.kind == "exception" and entry.key is None and len(after) <= 2
