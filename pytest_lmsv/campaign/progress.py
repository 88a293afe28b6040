"""What a session is doing at this moment, for the live line: one small file per worker.

With xdist the runs happen in other processes than the terminal, so the state travels by file.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

FOLDER = "live"


@dataclass(frozen=True, slots=True)
class Doing:
    """One run in progress."""

    model: str
    iteration: str
    stack: str
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    since: float = 0.0
    """Seconds since the epoch at which the run began."""

    def line(self, now: float | None = None) -> str:
        """Return the line that a person reads."""
        parts = [f"lmsv {self.model}-{self.iteration}: {self.stack}"]
        if self.step is not None:
            parts.append(f"step {self.step}/{self.steps}" if self.steps else f"step {self.step}")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.6g}")
        seconds = (now or time.time()) - self.since
        parts.append(f"{seconds:.0f} s" if seconds >= 1 else "starts")
        return " ".join(parts)


class Reporter:
    """Writes this process's state; a state that did not change is not written again."""

    def __init__(self, campaign: Path, worker: str, say: Callable[[str], None] = print) -> None:
        self.say = say
        """Tells a person something in the middle of a run."""
        self._path = campaign / FOLDER / f"{worker}.json"
        self._doing: Doing | None = None

    def begin(self, model: str, iteration: str, stack: str, steps: int) -> None:
        """Say that a run begins."""
        self._write(Doing(model, iteration, stack, steps=steps, since=time.time()))

    def step(self, step: int | None, loss: float | None) -> None:
        """Say how far the run is."""
        if self._doing is not None and (step, loss) != (self._doing.step, self._doing.loss):
            self._write(replace(self._doing, step=step, loss=loss))

    def end(self) -> None:
        """Say that nothing runs any more."""
        self._doing = None
        self._path.unlink(missing_ok=True)

    def _write(self, doing: Doing) -> None:
        self._doing = doing
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Not synced to disk: a lost state costs nothing, a sync costs milliseconds of every run.
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(asdict(doing)), encoding="utf-8")
        temporary.replace(self._path)


def states(campaign: Path) -> Iterator[tuple[str, Doing]]:
    """Yield each worker's name and what it is doing."""
    for path in sorted((campaign / FOLDER).glob("*.json")):
        try:
            yield path.stem, Doing(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            continue  # the run has just ended
