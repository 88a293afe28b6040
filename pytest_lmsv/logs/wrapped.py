"""Records that a terminal wrapped over several lines, and those that were cut."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pytest_lmsv.logs.metrics import RECORD, StepRecord, peak_memory, step_records

_MOST_LINES = 16
PARTIAL = re.compile(r"(?<![\w])iteration\s{1,12}\d{0,12}\s{0,12}(?:/\s{0,12}\d{0,12})?\Z")
"""A record that was wrapped between its step and the number of steps."""
_PLAIN = re.compile(r"[\s\w():./+-]{0,200}\Z")
_OTHER = re.compile(r"\S{0,80}(?:Error|Exception)\b|Traceback|\[(?:Rank|INFO|WARNING|ERROR)\b")
_FINAL = "numberofnaniterations"
_LAST_FIELD = "number of nan iterations:"
_LAST = re.compile(rf"{_LAST_FIELD}\s{{0,8}}\d{{1,9}}\s?\|")


@dataclass(slots=True)
class _Open:
    """A record that may go on in the next line of its rank."""

    text: str
    ended: bool
    """Whether the last piece has its line end."""
    memory: bool = False
    pieces: int = 1


@dataclass(slots=True)
class Found:
    """What a line completed."""

    records: list[StepRecord] = field(default_factory=list)
    memory: float | None = None
    cut: str | None = None
    """The beginning of a record that is not whole and is not read."""
    rank: int | None = None
    """Of which rank, by its prefix."""


class Wrapped:
    """Joins the pieces of step records and memory reports, rank by rank."""

    def __init__(self) -> None:
        self._open: dict[int | None, _Open] = {}
        self._last_keys: set[str] = set()
        """Last fields of the whole records so far: a record that ends so is whole."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def ranks(self) -> list[int | None]:
        return list(self._open)

    def begin(self, text: str, ended: bool, rank: int | None, start: re.Match[str]) -> Found:
        """A line in which step records begin, at *start*; *ended*: it has its line end."""
        found = self.close(rank)
        if "allocated" in text:
            found.memory = peak_memory(text)
        records = step_records(text, start)
        last = records[-1] if records else None
        for record in records[:-1]:
            self._take(record, found)
        if last is not None and last.closed and ended and self._whole(last):
            self._take(last, found)
        elif last is not None or found.memory is None:
            while (following := RECORD.search(text, start.end())) is not None:
                start = following
            self._open[rank] = _Open(text[start.start() :], ended)
        return found

    def begin_head(self, text: str, rank: int | None) -> Found:
        """A line that ends between the step and the number of steps."""
        found = self.close(rank)
        self._open[rank] = _Open(text, ended=True)
        return found

    def begin_memory(self, text: str, ended: bool, rank: int | None) -> None:
        """A memory report whose last field is missing."""
        self._open[rank] = _Open(text, ended, memory=True)

    def go_on(self, text: str, ended: bool, rank: int | None) -> tuple[bool, Found]:
        """Whether *text* is the next piece of the open record of *rank*, and what it completed."""
        if rank is None and rank not in self._open and len(self._open) == 1:
            (rank,) = self._open  # a launcher's prefix stands only before the first piece
        held = self._open.get(rank)
        if held is None:
            return False, Found()
        if not self._fits(held, text):
            return False, self.close(rank)
        if text.strip() and held.text.endswith(text):
            return True, Found()  # a line that a tee doubled
        held.text += text
        held.pieces += 1
        held.ended = ended
        found = Found(rank=rank)
        if held.memory:
            if "max reserved" in held.text:
                del self._open[rank]
                found.memory = peak_memory(held.text)
            return True, found
        records = step_records(held.text)
        if records and records[-1].closed and ended and self._whole(records[-1]):
            del self._open[rank]
            for record in records:
                self._take(record, found)
        return True, found

    def close(self, rank: int | None) -> Found:
        """The open record of *rank* ends here."""
        held = self._open.pop(rank, None)
        found = Found(rank=rank)
        if held is None:
            return found
        if held.memory:  # without a line end, the last figure may lack digits
            text = held.text if held.ended else held.text[: held.text.rfind("|") + 1]
            found.memory = peak_memory(text)
            return found
        records = step_records(held.text)
        if not records and "consumed" not in held.text and "elapsed" not in held.text:
            return found  # "iteration 3/10" of another message
        record = records[-1] if records else None
        if record is not None and self._acceptable(record, held.ended):
            self._take(record, found)
        else:
            found.cut = held.text.strip()[:300]
        return found

    def _whole(self, record: StepRecord) -> bool:
        return record.last_key == _FINAL or record.last_key in self._last_keys

    def _acceptable(self, record: StepRecord, ended: bool) -> bool:
        if record.closed:
            # No line end and no known last field: more may come.
            return self._whole(record) or (ended and not (self._last_keys and record.loss is None))
        if not ended:
            return False
        if self._last_keys:
            return record.last_key in self._last_keys
        return not record.last_key.endswith("(ms)")

    def _take(self, record: StepRecord, found: Found) -> None:
        found.records.append(record)
        if record.closed or not self._last_keys:
            self._last_keys.add(record.last_key)

    @staticmethod
    def _fits(held: _Open, text: str) -> bool:
        if held.pieces >= _MOST_LINES or len(held.text) > 8192 or _OTHER.match(text):
            return False
        if ("|" in text and (":" in text or held.memory)) or not text.strip(" |\t"):
            return True
        # Without a separator: the middle of a field that the line before left open.
        return not held.text.rstrip().endswith("|") and bool(_PLAIN.match(text))


def split_whole(text: str) -> tuple[str, str]:
    """Megatron's records in *text*, and what another rank glued to the last one."""
    last = _LAST.match(text, max(text.rfind(_LAST_FIELD), 0))
    if last is None or RECORD.search(text, last.end()):
        return text, ""
    return text[: last.end()], text[last.end() :]
