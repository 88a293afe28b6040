"""Follows one growing log: how far the run is, for the live line and the silence limit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.logs.metrics import RECORD, other_step, step_records
from pytest_lmsv.logs.prefixes import strip
from pytest_lmsv.logs.text import searcher, without_colours

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
        self._search = searcher((b"iteration", b"loss"))

    def update(self) -> Progress | None:
        """The present state; None while there is no output. An incomplete last line waits."""
        try:
            size = self._path.stat().st_size
        except OSError:
            return self._progress
        if size < self._offset:  # the file was begun afresh
            self._offset, self._rest, self._progress = 0, b"", None
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
        data = without_colours(data)
        old = self._progress
        step = old.step if old else None
        steps = old.steps if old else None
        loss = old.loss if old else None
        last_line = old.last_line if old else ""
        position = 0
        for hit in self._search(data):
            if hit < position:
                continue
            start = max(data.rfind(b"\n", position, hit), data.rfind(b"\r", position, hit)) + 1
            stop = data.find(b"\n", hit)
            position = len(data) if stop < 0 else stop + 1
            text = data[max(start, hit - 4096) : position][:16384].decode("utf-8", "replace")
            records = step_records(text) if RECORD.search(text) else []
            other = other_step(text) if not records else None
            for record in [*records, *([other] if other else [])]:
                step, steps = record.step, record.steps or steps
                loss = record.loss if record.loss is not None else loss
        for raw in reversed(data[-8192:].replace(b"\r", b"\n").split(b"\n")):
            text = strip(raw.decode("utf-8", "replace")).text.strip()
            if text:
                last_line = text[:300]
                break
        self._progress = Progress(step, steps, loss, last_line, self._offset)
