"""The step records of one rank, kept small: a long log has millions.

Most records of a log differ in nothing but the step and three figures. Those are kept in arrays,
chunk by chunk; the others as they are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pytest_lmsv.logs.columns import Column, Pairs, PairsBuilder, column, progression
from pytest_lmsv.logs.metrics import StepRecord

FIGURES = ("loss", "grad_norm", "time_ms")
_SMALL = 64
_LARGE = 4096


@dataclass(slots=True)
class _Chunk:
    """Records with ascending steps that differ in nothing but the step and the figures."""

    steps: range | array[int]
    like: StepRecord
    columns: dict[str, Column]

    def record(self, place: int) -> StepRecord:
        figures = {name: found[place] for name, found in self.columns.items()}
        return self.like.with_figures(self.steps[place], figures)

    def takes(self, other: _Chunk) -> bool:
        """Add what comes right after it, if it is of the same kind."""
        last = self.steps[-1]
        if len(self.steps) > _LARGE or len(other.steps) > _LARGE // 8 or self.like != other.like:
            return False
        mine = {name: found.decimals for name, found in self.columns.items()}
        if mine != {name: found.decimals for name, found in other.columns.items()}:
            return False
        steps = other.steps
        if isinstance(self.steps, range) and isinstance(steps, range):
            stride = self.steps.step if len(steps) == 1 else steps.step
            if len(self.steps) > 1 and self.steps.step != stride:
                return False
            if steps[0] != last + stride:
                return False
            self.steps = range(self.steps[0], steps[-1] + stride, stride)
        elif isinstance(self.steps, array):
            self.steps.extend(steps)
        else:
            return False
        for name, found in self.columns.items():
            found.values.extend(other.columns[name].values)
        return True


class Steps:
    """Step records by step; what was put last counts."""

    def __init__(self) -> None:
        self.first: int | None = None
        """The step that was put first."""
        self.highest = -1
        self._chunks: list[_Chunk] = []
        self._starts: list[int] = []
        self._loose: dict[int, StepRecord] = {}
        self._recent = 0
        self._hidden = 0
        """Loose records that stand in place of one in a chunk."""

    def __len__(self) -> int:
        kept = sum(len(chunk.steps) for chunk in self._chunks)
        return kept + len(self._loose) - self._hidden

    def get(self, step: int) -> StepRecord | None:
        if step > self.highest:
            return None
        return self._loose.get(step) or self._kept(step)

    def put(self, record: StepRecord) -> None:
        step = record.step
        if self.first is None:
            self.first = step
        if step not in self._loose and self._kept(step) is not None:
            self._hidden += 1
        self._loose[step] = record
        self.highest = max(self.highest, step)
        self._recent += 1
        if self._recent >= _LARGE:
            self._pack()

    def add(self, steps: range | array[int], like: StepRecord, columns: dict[str, Column]) -> None:
        """Records with ascending *steps*, all beyond the ``highest``."""
        chunk = _Chunk(steps, like, columns)
        if len(steps) < _SMALL:
            last = self._chunks[-1] if self._chunks else None
            if last is None or last.steps[-1] != self.highest or not last.takes(chunk):
                for place in range(len(steps)):
                    self.put(chunk.record(place))
        else:
            self._pack()
            self._append(chunk)
        if self.first is None:
            self.first = steps[0]
        self.highest = steps[-1]

    def has_copies(
        self, steps: range | array[int], like: StepRecord, columns: Mapping[str, Column]
    ) -> bool:
        """Whether all of these records, with ascending steps, are known as they are."""
        if not self._loose.keys().isdisjoint(steps):
            return all(
                self.get(step)
                == like.with_figures(step, {name: found[at] for name, found in columns.items()})
                for at, step in enumerate(steps)
            )
        done = 0
        while done < len(steps):
            at = bisect_right(self._starts, steps[done]) - 1
            chunk = self._chunks[at] if at >= 0 else None
            place = -1 if chunk is None else _place(chunk.steps, steps[done])
            if chunk is None or place < 0 or chunk.like != like:
                return False
            count = min(len(chunk.steps) - place, len(steps) - done)
            if list(chunk.steps[place : place + count]) != list(steps[done : done + count]):
                return False
            for name, mine in chunk.columns.items():
                theirs = columns[name].cut(done, done + count)
                mine = mine.cut(place, place + count)
                same = mine == theirs if mine.decimals == theirs.decimals else (
                    list(mine) == list(theirs))  # fmt: skip
                if not same:
                    return False
            done += count
        return True

    # -- what it holds, in the order of the steps -----------------------------------------------

    def likes(self) -> Iterator[StepRecord]:
        """One record of each kind."""
        return chain((chunk.like for chunk in self._chunks), self._loose.values())

    def count(self, name: str) -> int:
        """How many records have the figure *name*."""
        if not self._hidden:
            kept = sum(len(chunk.steps) for chunk in self._chunks if name in chunk.columns)
            return kept + sum(getattr(one, name) is not None for one in self._loose.values())
        return len(self.curve(name))

    def numbers(self) -> Sequence[int]:
        """The steps."""
        pieces = [steps for steps, _ in self._pieces()]
        if len(pieces) == 1:
            return pieces[0]
        if pieces and pieces[-1][-1] - pieces[0][0] == sum(map(len, pieces)) - 1:
            return range(pieces[0][0], pieces[-1][-1] + 1)  # ascending, and none is missing
        found = array("q")
        for piece in pieces:
            found.extend(piece)
        return found

    def curve(self, name: str) -> Pairs:
        """Step and figure *name* of the records that have it."""
        found = PairsBuilder()
        for steps, piece in self._pieces():
            if not isinstance(piece, _Chunk):
                for one in piece:
                    value = getattr(one, name)
                    if value is not None:
                        found.add(one.step, value)
            elif (values := piece.columns.get(name)) is not None:
                start = 0 if len(values) == len(steps) else _place(piece.steps, steps[0])
                found.extend(steps, values, start)
        return found.pairs()

    def nan_losses(self) -> Iterator[int]:
        """The steps whose loss is missing because it was NaN."""
        for steps, piece in self._pieces():
            if not isinstance(piece, _Chunk):
                yield from (one.step for one in piece if one.nan_loss)
            elif "loss" not in piece.columns:
                places = (_place(piece.steps, step) for step in steps)
                yield from (piece.steps[at] for at in places if piece.record(at).nan_loss)

    def _pieces(self) -> Iterator[tuple[Sequence[int], _Chunk | list[StepRecord]]]:
        """Ascending and disjoint: steps of a chunk, or loose records."""
        loose = sorted(self._loose)
        done = 0
        for chunk in self._chunks:
            start = 0
            while start < len(chunk.steps):
                before = bisect_right(loose, chunk.steps[start] - 1, done)
                if before > done:
                    yield loose[done:before], [self._loose[step] for step in loose[done:before]]
                    done = before
                if done == len(loose) or loose[done] > chunk.steps[-1]:
                    yield chunk.steps[start:], chunk
                    break
                stop = bisect_right(chunk.steps, loose[done] - 1)
                if stop > start:
                    yield chunk.steps[start:stop], chunk
                start = bisect_right(chunk.steps, loose[done])
                yield loose[done : done + 1], [self._loose[loose[done]]]
                done += 1
        if done < len(loose):
            yield loose[done:], [self._loose[step] for step in loose[done:]]

    # -- chunks ---------------------------------------------------------------------------------

    def _kept(self, step: int) -> StepRecord | None:
        at = bisect_right(self._starts, step) - 1
        if at < 0:
            return None
        place = _place(self._chunks[at].steps, step)
        return None if place < 0 else self._chunks[at].record(place)

    def _append(self, chunk: _Chunk) -> None:
        last = self._chunks[-1] if self._chunks else None
        if last is None or not last.takes(chunk):
            self._chunks.append(chunk)
            self._starts.append(chunk.steps[0])

    def _pack(self) -> None:
        """Loose records beyond the chunks become a chunk: those of the most frequent kind."""
        self._recent = 0
        edge = self._chunks[-1].steps[-1] if self._chunks else -1
        steps = sorted(step for step in self._loose if step > edge)
        if not steps:
            return
        kinds = {step: _kind(self._loose[step]) for step in steps}
        kind, number = Counter(kinds.values()).most_common(1)[0]
        if number < _SMALL:
            return
        records = [self._loose.pop(step) for step in steps if kinds[step] == kind]
        self._append(
            _Chunk(
                progression([one.step for one in records]),
                kind[0],
                {name: column([getattr(one, name) for one in records], None) for name in kind[1]},
            )
        )


def _kind(record: StepRecord) -> tuple[StepRecord, tuple[str, ...]]:
    """All of a record but its step and figures, and which of the figures it has."""
    names = tuple(name for name in FIGURES if getattr(record, name) is not None)
    return record.with_figures(0, {}), names


def _place(steps: Sequence[int], step: int) -> int:
    """Where *step* stands in ascending *steps*, or -1."""
    at = bisect_left(steps, step)
    return at if at < len(steps) and steps[at] == step else -1
