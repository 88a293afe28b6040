"""How often keys, values and their pairs were drawn: a draw prefers what was not drawn yet.

An iteration costs minutes on 16 NPUs, and a defect that hides behind one value shows only where
that value runs. So values that were never drawn come first, among them those of the least drawn
keys: every key is tried once before any is tried twice. When no value is new, pairs are: two keys
that were least often together, then two values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.space import Key
from pytest_lmsv.records import Edit

Name = tuple[str, str]
"""One value of one key: its path, and the value as canonical JSON."""
Option = tuple[Key, Any, Name]


def names(edits: Iterable[Edit]) -> tuple[Name, ...]:
    """What *edits* change to what, in their order."""
    return tuple((edit.path, pointer.canonical(edit.new)) for edit in edits)


class Usage:
    """Counts of what was drawn; only paths of *keys* count, not the ones that follow them."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._paths = frozenset(key.path for key in keys)
        self._keys: Counter[str] = Counter()
        self._values: Counter[Name] = Counter()
        self._key_pairs: Counter[frozenset[str]] = Counter()
        self._value_pairs: Counter[frozenset[Name]] = Counter()

    def add(self, drawn: Iterable[Name]) -> None:
        """Count one mutation."""
        counted = [name for name in drawn if name[0] in self._paths]
        paths = [path for path, _ in counted]
        self._keys.update(paths)
        self._values.update(counted)
        self._key_pairs.update(map(frozenset, combinations(paths, 2)))
        self._value_pairs.update(map(frozenset, combinations(counted, 2)))

    def least(self, options: Sequence[Option], chosen: Sequence[Name]) -> list[Option]:
        """The *options* to prefer next to the values that are already *chosen*."""

        def key_alone(option: Option) -> int:
            return self._keys[option[2][0]]

        def keys_together(option: Option) -> int:
            path = option[2][0]
            return sum(self._key_pairs[frozenset((path, other))] for other, _ in chosen)

        def values_together(option: Option) -> int:
            return sum(self._value_pairs[frozenset((option[2], other))] for other in chosen)

        def value_alone(option: Option) -> int:
            return self._values[option[2]]

        new = [option for option in options if not value_alone(option)]
        orders = [keys_together, key_alone, values_together, value_alone]
        if new or not chosen:
            orders.insert(0, key_alone)
        best = new or list(options)
        for order in orders:
            if len(best) == 1:
                break
            counts = list(map(order, best))
            fewest = min(counts)
            best = [option for option, n in zip(best, counts, strict=True) if n == fewest]
        return best
