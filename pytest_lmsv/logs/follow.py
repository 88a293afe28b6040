"""Follows one growing log: how far the run is, for the live line and the silence limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.logs.metrics import StepRecord, other_step, step_records
from pytest_lmsv.logs.prefixes import strip
from pytest_lmsv.logs.text import without_colours

_MOST = 4 << 20
"""No update reads more: a run that floods its log is followed at its end."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a growing log said last. ``size`` (bytes) grows with any output."""

    step: int | None
    steps: int | None
    loss: float | None
    last_line: str
    size: int


class Follower:
    """Reads what was added to a log since the last update; cheap enough for twice a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._progress: Progress | None = None
        self._tail = b""

    def update(self) -> Progress | None:
        """The present state; None while there is no output. An incomplete last line waits."""
        try:
            size = self._path.stat().st_size
        except OSError:
            return self._progress
        if size < self._offset:  # the file was begun afresh
            self._offset, self._rest, self._tail, self._progress = 0, b"", b"", None
        if size == self._offset:
            return self._progress
        with self._path.open("rb", buffering=0) as stream:
            if size - self._offset > _MOST:
                self._offset, self._rest = size - _MOST, b""
            stream.seek(self._offset)
            data = stream.read(size - self._offset)
        self._offset += len(data)
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._rest = data[end:][-_MOST:]
        self._take(data[:end])
        return self._progress

    def _take(self, data: bytes) -> None:
        old = self._progress
        step = old.step if old else None
        steps = old.steps if old else None
        loss = old.loss if old else None
        last_line = old.last_line if old else ""
        if data:
            data = self._tail + without_colours(data)
            self._tail = b""
            for found, place in _records(data):
                if not self._tail:
                    self._tail = data[place:][:8192]
                    step, steps = found.step, found.steps or steps
                if found.loss is not None or found.nan_loss:
                    loss = math.nan if found.loss is None else found.loss
                    break
            last_line = _last_line(data) or last_line
        self._progress = Progress(step, steps, loss, last_line, self._offset)


def _records(data: bytes) -> Iterator[tuple[StepRecord, int]]:
    """The last step records, the last one first, and where each begins. More of one may follow:
    it may be wrapped over several lines."""
    end = len(data)
    for _ in range(500):
        at = max(data.rfind(b"iteration", 0, end), data.rfind(b"step", 0, end))
        if at < 0:
            return
        start = max(data.rfind(b"\n", 0, at) + 1, at - 40)
        text = data[start : at + 4096].decode("utf-8", "replace")
        records = step_records(text.replace("\n", "").replace("\r", "")) if "|" in text else []
        other = None if records else other_step(text.split("\n")[0])
        record = records[0] if records else other[1] if other else None
        if record is not None:
            yield record, start
        end = min(at, start) if record is not None else at


def _last_line(data: bytes) -> str:
    for raw in reversed(data[-8192:].replace(b"\r", b"\n").split(b"\n")):
        text = strip(raw.decode("utf-8", "replace")).text.strip()
        if text:
            return text[:300]
    return ""
