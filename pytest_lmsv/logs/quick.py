"""Step records that look like one before: read many at a time, without a closer look.

A log may hold millions. Once the usual way has read one, a pattern is made of it: the same text but
for its numbers, which must have the same format. What the pattern matches, the usual way would read
as the same figures; a line that differs in anything else is left to the usual way.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from pytest_lmsv.logs.columns import Column, column, progression
from pytest_lmsv.logs.metrics import RECORD, StepRecord, meaning_of
from pytest_lmsv.logs.steps import FIGURES

_MOST_LOOKS = 4
_LONGEST = 2048
_MANY = 32
_NUMBER = re.compile(
    r" {0,20}[0-9]{1,12}(?:\.(?P<decimals>[0-9]{1,12}))?(?P<exponent>E[-+][0-9]{2})?"
    r"(?P<after> {0,4})"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[-T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,12})?")
_NOT_A_RECORD = ("allocated", "Traceback", "\r", "\n", "\x1b", "\0")
_FIGURE_OF = {"norm": "grad_norm", "time": "time_ms"}


@dataclass(frozen=True, slots=True)
class Look:
    """How a record looks."""

    pattern: re.Pattern[bytes]
    """Of a whole line with its end. Groups: the step, then the ``figures``."""
    figures: tuple[str, ...]
    decimals: tuple[int | None, ...]
    """Of each figure: how many decimals it has, None where it has an exponent."""
    like: StepRecord
    """A record of this look; all but the step and the figures is the same in each."""
    rank: int | None
    """Of the line's own prefix."""
    prefixed: bool


@dataclass(slots=True)
class Batch:
    """Whole records of one look, one after another. Before each stands an empty text."""

    look: Look
    parts: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.parts) // self._width

    @property
    def _width(self) -> int:
        return 2 + len(self.look.figures)

    def steps(self) -> range | array[int]:
        """A range where they are evenly spaced and ascending."""
        return progression(list(map(int, self.parts[1 :: self._width])))

    def columns(self) -> dict[str, Column]:
        """The figures of all records."""
        width = self._width
        return {
            name: column(list(map(float, self.parts[place::width])), decimals)
            for place, (name, decimals) in enumerate(
                zip(self.look.figures, self.look.decimals, strict=True), 2
            )
        }

    def records(self) -> Iterator[StepRecord]:
        """One by one."""
        width = self._width
        for at in range(0, len(self.parts), width):
            values = map(float, self.parts[at + 2 : at + width])
            figures = dict(zip(self.look.figures, values, strict=True))
            yield self.look.like.with_figures(int(self.parts[at + 1]), figures)

    def without_doubles(self) -> Batch:
        """Without records that say what the one before says: a tee doubled each line."""
        width = self._width
        rows = list(zip(*(self.parts[place::width] for place in range(width)), strict=True))
        kept = rows[:1] + [row for before, row in pairwise(rows) if row != before]
        return Batch(self.look, [part for row in kept for part in row])


class Quick:
    """Reads lines that look as one that was learnt, or not at all."""

    def __init__(self) -> None:
        self._looks: list[Look] = []
        self._rest = self._wait = 0

    def learn(self, text: str, record: StepRecord, rank: int | None, *, prefixed: bool) -> None:
        """*record* was read in *text*, the whole line.

        Learning costs as much as reading some hundred records: it gets rare where it does not pay.
        """
        if self._rest:
            self._rest -= 1
            return
        self._wait = self._rest = min(2 * self._wait + 1, 255)
        look = look_of(text, record, rank, prefixed=prefixed)
        if look is not None and look not in self._looks:
            self._looks = [look, *self._looks[: _MOST_LOOKS - 1]]

    def read(self, block: bytes, start: int) -> tuple[Batch | None, int]:
        """The records in the lines from *start* on, and where they end; *start* begins a line."""
        for place, look in enumerate(self._looks):
            found = look.pattern.match(block, start)
            if found is None:
                continue
            if place:
                self._looks.insert(0, self._looks.pop(place))
            batch = Batch(look, [b"", *found.groups()])
            end = found.end()
            if (found := look.pattern.match(block, end)) is not None:
                batch.parts += [b"", *found.groups()]
                end = _read_on(block, found.end(), batch)
                if len(batch) >= _MANY:
                    self._wait = self._rest = 0
            return batch, end
        return None, start


def _read_on(block: bytes, end: int, batch: Batch) -> int:
    """Take the records from *end* on; where they end.

    The pattern has one line end, so what lies between two matches is empty in a run of records.
    """
    pattern, width = batch.look.pattern, 2 + len(batch.look.figures)
    span = _LONGEST  # grows while there is nothing but records
    while (stop := block.rfind(b"\n", end, end + span) + 1) > end:
        parts = pattern.split(block[end:stop])
        between = parts[::width]
        if between.count(b"") == len(between):
            batch.parts += parts[:-1]
            end = stop
            span *= 4
            continue
        whole = next(place for place, text in enumerate(between) if text)
        batch.parts += parts[: whole * width]
        for _ in range(whole):
            end = block.index(b"\n", end) + 1
        break
    return end


def look_of(text: str, record: StepRecord, rank: int | None, *, prefixed: bool) -> Look | None:
    """The look of *record*, read in the line *text*; None where it has no plain one."""
    start = RECORD.search(text)
    if (
        start is None
        or len(text) > _LONGEST
        or not text.isascii()
        or not record.closed
        or any(part in text for part in _NOT_A_RECORD)
        or RECORD.search(text, start.end())
    ):
        return None
    head, *fields = text.split("|")
    if len(head) < start.end():
        return None
    space = len(text[: start.start(1)].rstrip(" "))
    pieces = [
        _with_any_time(text[: start.start()]),
        re.escape(text[start.start() : space]),
        " {0,12}([0-9]{1,12})",
        re.escape(text[start.end(1) : len(head)]),
    ]
    figures: list[str] = []
    decimals: list[int | None] = []
    for part in fields[:-1]:
        key, colon, value = part.rpartition(":")
        meaning, name = meaning_of(key) if colon else (None, "")
        number = None if meaning in {"skipped", "nan"} else _NUMBER.fullmatch(value)
        figure = _FIGURE_OF.get(meaning or "")
        if name == record.loss_key and meaning is not None and meaning.isdigit():
            figure = "loss"
        if figure is None:
            pieces.append(re.escape("|" + part) if number is None else _like(key, number))
            continue
        if number is None or figure in figures or name.endswith(("(s)", "(sec)")):
            return None  # seconds: the usual way makes milliseconds of them
        figures.append(figure)
        decimals.append(None if number["exponent"] else len(number["decimals"] or ""))
        pieces.append(_like(key, number, captured=True))
    if {name for name in FIGURES if getattr(record, name) is not None} != set(figures):
        return None
    pieces.append(re.escape("|" + fields[-1]) + "\r?\n")
    pattern = re.compile("".join(pieces).encode("ascii"))
    like = record.with_figures(0, {})
    return Look(pattern, tuple(figures), tuple(decimals), like, rank, prefixed)


def _like(key: str, number: re.Match[str], *, captured: bool = False) -> str:
    """A pattern of the field *key* with any number in the format of *number*."""
    digits = "[0-9]{1,12}"
    if number["decimals"]:
        digits += rf"\.[0-9]{{{len(number['decimals'])}}}"
    if number["exponent"]:
        digits += "E[-+][0-9]{2}"
    if captured:
        digits = f"({digits})"
    return re.escape(f"|{key}:") + " {0,20}" + digits + " " * len(number["after"])


def _with_any_time(head: str) -> str:
    """A pattern of *head* in which a time of day may be another one in the same format."""
    pieces = []
    end = 0
    for time in _TIME.finditer(head):
        pieces += [re.escape(head[end : time.start()]), re.sub(r"\d", "[0-9]", time[0])]
        end = time.end()
    return "".join([*pieces, re.escape(head[end:])])
