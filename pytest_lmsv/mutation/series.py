"""All draws of one campaign and model by number; each prefers what those before it did not try."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.space import Space
from pytest_lmsv.mutation.strategy import Preference, drawn_by, moved_between, strategy
from pytest_lmsv.mutation.usage import Name, Usage, names
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Documents, Edit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_TRIES = 64
_PREFERRING = 32
"""Tries that prefer what was not drawn yet; where all repeat a mutation, the rest are free."""
_COMPARED = 2000
"""Iterations up to here are compared with the ones before them."""


class Series:
    """All draws of one campaign and model. A draw differs from those before it where it can.

    Before it are the first attempts of earlier iterations (for a chain, where they started from
    other documents, instead what the documents show of them) and the earlier attempts of its own
    iteration. They cost half a millisecond each and depend on nothing but their number, so that a
    draw still does not need how the runs before it ended.
    """

    def __init__(
        self,
        model: str,
        space: Space,
        seed: int,
        count: int,
        only_fitting_checkpoint: bool,
        base: Documents | None = None,
    ) -> None:
        self._preference = Preference()
        self._decode = decoder(
            strategy(space, count, base, only_fitting_checkpoint, self._preference)
        )
        self.drawn_by = drawn_by(space)
        self._keys = space.drawn(only_fitting_checkpoint=only_fitting_checkpoint)
        self._model, self._space, self._seed, self._count = model, space, seed, count
        self._firsts: list[tuple[Edit, ...]] = []
        self._names: list[_Names] = []  # of the firsts
        self._distinct: set[_Names] = set()
        self._used = Usage(self._keys)  # by the firsts
        self._chained = base is not None
        self._compared = 0 if self._chained else _COMPARED
        self._moved: _Names = ()
        if base is not None:
            away = moved_between(self._keys, base, space.documents)
            self._moved = tuple((path, pointer.canonical(value)) for path, value in away.items())

    def edits(self, iteration: int, attempt: int) -> tuple[Edit, ...]:
        """The edits of one attempt, sorted by path."""
        self._fill(iteration)
        compared = 1 <= iteration <= len(self._firsts)
        if compared and attempt == 1:
            return self._firsts[iteration - 1]
        used = Usage(self._keys) if compared or self._chained else None
        before = self._names[:iteration] if compared else [self._moved]
        if used is not None:
            for drawn in before:
                used.add(drawn)
        seen = set(before)
        for earlier in range(2 if compared else 1, attempt):
            drawn = names(self._pick(iteration, earlier, seen, used))
            seen.add(drawn)
            if used is not None:
                used.add(drawn)
        return self._pick(iteration, attempt, seen, used)

    def _fill(self, iteration: int) -> None:
        """Draw the first attempts up to *iteration*, none further than one that had to repeat."""
        while len(self._firsts) < min(iteration, self._compared):
            edits = self._pick(len(self._firsts) + 1, 1, self._distinct, self._used)
            drawn = names(edits)
            self._firsts.append(edits)
            self._names.append(drawn)
            self._used.add(drawn)
            if drawn in self._distinct:
                self._compared = len(self._firsts)
            self._distinct.add(drawn)

    def _pick(
        self, iteration: int, attempt: int, seen: set[_Names], used: Usage | None
    ) -> tuple[Edit, ...]:
        """The first draw that is not in *seen*; where all are, the first one."""
        fallback: tuple[Edit, ...] | None = None
        for n in range(_TRIES):
            self._preference.usage = used if n < _PREFERRING else None
            name = json.dumps([self._model, self._seed, iteration, attempt, n])
            stream = hashlib.shake_256(name.encode()).digest(1024 + 64 * self._count)
            edits = self._decode(stream)
            if edits is None:
                continue
            drawn = names(edits)
            if drawn not in seen:
                return edits
            fallback = fallback or edits
            if used is not None:
                used.add(drawn)  # else a value with no new mutation left is preferred for ever
        if fallback is None:
            raise InputProblem(
                f"{self._model}: {self._count} edits on {self._space.device}: the constraints "
                f"leave nothing to draw (in {_TRIES} tries); "
                "ask for fewer edits, or give the keys of space.yaml more values"
            )
        return fallback


series = lru_cache(maxsize=16)(Series)
_Names = tuple[Name, ...]
"""What makes two draws the same: what they change to what."""


def decoder(
    strategy: SearchStrategy[tuple[Edit, ...]],
) -> Callable[[bytes], tuple[Edit, ...] | None]:
    """A function from bytes to the edits they stand for; None where the strategy rejects."""
    from hypothesis import given, settings

    box: list[tuple[Edit, ...]] = []

    @settings(database=None, deadline=None)
    @given(strategy)
    def keep(value: tuple[Edit, ...]) -> None:
        box.append(value)

    fuzz: Callable[[bytes], bytes | None] = keep.hypothesis.fuzz_one_input  # type: ignore[attr-defined]

    def decode(stream: bytes) -> tuple[Edit, ...] | None:
        box.clear()
        fuzz(stream)
        return box[-1] if box else None

    return decode
