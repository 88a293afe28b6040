"""Long rows of figures, kept small: a log may hold millions of steps."""

from __future__ import annotations

import json
import math
import operator
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import overload

from pytest_lmsv.wording import finite

_PIECE = 4096


@dataclass(slots=True)
class Column:
    """Numbers of one kind. *decimals*: all have so many, and single precision tells them apart."""

    values: array[float]
    decimals: int | None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: int) -> float:
        value = self.values[place]
        return value if self.decimals is None else round(value, self.decimals)

    def __iter__(self) -> Iterator[float]:
        if self.decimals is None:
            return iter(self.values)
        decimals = self.decimals
        return (round(value, decimals) for value in self.values)

    def cut(self, start: int, stop: int) -> Column:
        return Column(self.values[start:stop], self.decimals)


def column(values: Sequence[float], decimals: int | None) -> Column:
    """The smallest column that gives back exactly *values*.

    *decimals*: with how many they were printed, none of them negative; None where that is not
    known. Single precision holds six significant digits: `round` then gives the very number again.
    """
    if decimals is not None and values and max(values) < 10.0 ** (6 - decimals):
        return Column(array("f", values), decimals)
    return Column(array("d", values), None)


def progression(steps: list[int]) -> range | array[int]:
    """*steps* as a range where they are evenly spaced and ascending."""
    stride = steps[1] - steps[0] if len(steps) > 1 else 1
    if stride > 0:
        even = range(steps[0], steps[0] + stride * len(steps), stride)
        if even[-1] == steps[-1] and list(even) == steps:
            return even
    return array("q", steps)


def json_pairs(pairs: Iterable[tuple[int, float]]) -> str:
    """Pairs as JSON arrays with commas between."""
    return json.dumps([[step, finite(value)] for step, value in pairs], allow_nan=False)[1:-1]


def ascending(steps: Sequence[int]) -> bool:
    """Whether each step is above the one before."""
    return isinstance(steps, range) or all(map(operator.lt, steps, islice(steps, 1, None)))


class Pairs(Sequence[tuple[int, float]]):
    """Pairs of step and figure, made when they are asked for."""

    def __init__(self, pieces: Sequence[tuple[Sequence[int], Sequence[float] | Column]]) -> None:
        self._pieces = pieces
        self._ends: list[int] = []
        length = 0
        for steps, _ in pieces:
            length += len(steps)
            self._ends.append(length)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[tuple[int, float]]:
        for steps, values in self._pieces:
            yield from zip(steps, values, strict=True)

    def texts(self) -> Iterator[str]:
        """The pairs as JSON arrays with commas between, some thousand at a time.

        A piece with a number that is not finite is left to `json_pairs`.
        """
        for steps, values in self._pieces:
            decimals = values.decimals if isinstance(values, Column) else None
            raw = values.values if isinstance(values, Column) else values
            # Single precision prints its decimals as they were read.
            number = "%r" if decimals is None else f"%.{decimals}f"
            for start in range(0, len(steps), _PIECE):
                numbers = raw[start : start + _PIECE]
                rows = zip(steps[start : start + _PIECE], numbers, strict=True)
                if decimals is None and not all(map(math.isfinite, numbers)):
                    yield json_pairs(rows)
                    continue
                text = ", ".join([f"[%d, {number}]"] * len(numbers))
                yield text % tuple(chain.from_iterable(rows))

    @overload
    def __getitem__(self, place: int) -> tuple[int, float]: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[tuple[int, float], ...]: ...
    def __getitem__(self, place: int | slice) -> tuple[int, float] | tuple[tuple[int, float], ...]:
        if isinstance(place, slice):
            return tuple(self[at] for at in range(*place.indices(len(self))))
        at = place + len(self) if place < 0 else place
        if not 0 <= at < len(self):
            raise IndexError(place)
        piece = bisect_right(self._ends, at)
        steps, values = self._pieces[piece]
        inside = at - (self._ends[piece - 1] if piece else 0)
        return steps[inside], values[inside]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(len(self))

    def __repr__(self) -> str:
        return f"<{len(self)} steps>"


class PairsBuilder:
    """Makes `Pairs`: gathers single ones, takes long columns as they are."""

    def __init__(self) -> None:
        self._pieces: list[tuple[Sequence[int], Sequence[float] | Column]] = []
        self._steps = array("q")
        self._values = array("d")

    def add(self, step: int, value: float) -> None:
        self._steps.append(step)
        self._values.append(value)

    def extend(self, steps: Sequence[int], values: Column, start: int) -> None:
        """*values* from *start* on, one for each of *steps*."""
        whole = len(steps) == len(values)
        if len(steps) < 64:
            for place, step in enumerate(steps, start):
                self.add(step, values[place])
            return
        self._flush()
        self._pieces.append((steps, values if whole else values.cut(start, start + len(steps))))

    def pairs(self) -> Pairs:
        self._flush()
        return Pairs(self._pieces)

    def _flush(self) -> None:
        if self._steps:
            self._pieces.append((self._steps, self._values))
            self._steps, self._values = array("q"), array("d")
