"""How much of a mutation space a campaign has tried: keys, values, and pairs of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.space import Space
from pytest_lmsv.mutation.usage import Name, names
from pytest_lmsv.records import Mutation


@dataclass(frozen=True)
class Coverage:
    """What was tried, and how much there is.

    A value is one of a key's grid other than the unmutated one. A pair is two values of different
    keys in one mutation; ``pairs`` counts all there are, also those that the constraints forbid, so
    it is an upper limit.
    """

    keys_covered: int
    keys: int
    values_covered: int
    values: int
    pairs_covered: int
    pairs: int
    curve: tuple[int, ...]
    """Values covered after each mutation."""

    def sentence(self) -> str:
        """Return the coverage in words."""
        return (
            f"covered {self.values_covered} of {self.values} values "
            f"({self.keys_covered} of {self.keys} keys), {self.pairs_covered} of {self.pairs} pairs"
        )

    def as_plain(self) -> dict[str, Any]:
        """Return the figures by name, as summary.json holds them."""
        return {**asdict(self), "curve": list(self.curve)}


def coverage(
    space: Space, mutations: Iterable[Mutation], *, only_fitting_checkpoint: bool = False
) -> Coverage:
    """Return what *mutations*, in this order, have tried of what can be drawn from *space*.

    Values outside the space (of a replayed mutation) are not counted.
    """
    keys = space.drawn(only_fitting_checkpoint=only_fitting_checkpoint)
    grid: dict[str, set[Name]] = {}
    for key in keys:
        present = pointer.get(space.documents, key.path)
        others = [value for value in key.values if not pointer.same(value, present)]
        if others:
            grid[key.path] = {(key.path, pointer.canonical(value)) for value in others}
    values: set[Name] = set()
    pairs: set[frozenset[Name]] = set()
    curve = []
    for mutation in mutations:
        tried = [name for name in names(mutation.edits) if name in grid.get(name[0], ())]
        values.update(tried)
        pairs.update(map(frozenset, combinations(tried, 2)))
        curve.append(len(values))
    return Coverage(
        keys_covered=len({path for path, _ in values}),
        keys=len(grid),
        values_covered=len(values),
        values=sum(map(len, grid.values())),
        pairs_covered=len(pairs),
        pairs=_pairs([len(found) for found in grid.values()]),
        curve=tuple(curve),
    )


def _pairs(sizes: Sequence[int]) -> int:
    """The number of pairs from different groups of these sizes."""
    return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
