"""How often keys, values and pairs of values were drawn: a draw prefers what was not drawn yet.

An iteration costs minutes on 16 NPUs, and a defect that hides behind one value shows only where
that value runs. So the least drawn values come first; among them those of the least drawn keys,
so that every key is tried once before any is tried twice; among these the ones that were together
with the values already chosen least often.
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
        self._pairs: Counter[frozenset[Name]] = Counter()

    def add(self, drawn: Iterable[Name]) -> None:
        """Count one mutation."""
        counted = [name for name in drawn if name[0] in self._paths]
        self._keys.update(path for path, _ in counted)
        self._values.update(counted)
        self._pairs.update(map(frozenset, combinations(counted, 2)))

    def least(self, options: Sequence[Option], chosen: Sequence[Name]) -> list[Option]:
        """The *options* to prefer next to the values that are already *chosen*."""
        keys, values, pairs = self._keys, self._values, self._pairs
        fewest = min(values[name] for *_, name in options)
        best = [option for option in options if values[option[2]] == fewest]
        fewest = min(keys[key.path] for key, *_ in best)
        best = [option for option in best if keys[option[0].path] == fewest]
        if not chosen:
            return best
        together = [sum(pairs[frozenset((name, o))] for o in chosen) for *_, name in best]
        fewest = min(together)
        return [option for option, count in zip(best, together, strict=True) if count == fewest]
