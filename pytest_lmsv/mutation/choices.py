"""Which values a key may take next, given what is already changed: the constraints decide.

Nothing is copied for a candidate: rules look values up through an overlay of the changes, and only
rules that read a changed key are asked again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.constraints import REQUIRED, Constraint, Layout
from pytest_lmsv.mutation.space import Key
from pytest_lmsv.problems import InputProblem


class Overlay:
    """Documents seen through changes, without a copy; remembers which pointers were asked for."""

    def __init__(self, documents: Any, found: dict[str, Any], changes: Mapping[str, Any]) -> None:
        self._documents = documents
        self._found = found  # values of the unchanged documents, shared by many overlays
        self._changes = changes
        self.asked: set[str] = set()

    def __call__(self, path: str, default: Any = REQUIRED, /) -> Any:
        self.asked.add(path)
        changes = self._changes
        if path in changes:
            return changes[path]
        for changed, value in changes.items():
            if path.startswith(changed + "/"):
                return self._or_default(value, path[len(changed) :], default)
            if changed.startswith(path + "/"):
                return self._rebuilt(path)
        if path not in self._found:
            try:
                self._found[path] = pointer.get(self._documents, path)
            except pointer.Missing:
                if default is REQUIRED:
                    raise
                return default
        return self._found[path]

    def _or_default(self, value: Any, rest: str, default: Any) -> Any:
        try:
            return pointer.get(value, rest)
        except pointer.Missing:
            if default is REQUIRED:
                raise
            return default

    def _rebuilt(self, path: str) -> Any:
        holder = {"": copy.deepcopy(pointer.get(self._documents, path))}
        for changed, value in self._changes.items():
            if pointer.within(changed, path):
                pointer.put(holder, "/" + changed[len(path) :], value)
        return holder[""]


class Choices:
    """The values that each key may take next, over one base configuration."""

    def __init__(
        self,
        documents: Any,
        keys: Sequence[Key],
        constraints: Sequence[Constraint],
        layout: Layout,
    ) -> None:
        self._documents = documents
        self._keys = keys
        self._constraints = constraints
        self._layout = layout
        self._found: dict[str, Any] = {}
        # Keys never overlap: what a key holds changes with its own edit only.
        self._others = {key: self._other_values(key) for key in keys}

    def overlay(self, changes: Mapping[str, Any]) -> Overlay:
        """A lookup of the configuration with *changes* made."""
        return Overlay(self._documents, self._found, changes)

    def broken(self, changes: Mapping[str, Any]) -> list[str]:
        """One sentence for each constraint that the changed configuration breaks."""
        get = self.overlay(changes)
        return [
            f"{constraint.name}: {sentence}"
            for constraint in self._constraints
            if (sentence := constraint(get, self._layout)) is not None
        ]

    def after(self, changes: Mapping[str, Any], edits_left: int) -> dict[Key, tuple[Any, ...]]:
        """For each key that may be changed next, the values that it may take.

        With the last of *edits_left* all constraints hold. Before it, a value that breaks some is
        offered too where one more edit mends them: keys that are tied move together.
        """
        readers, broken = self._asked(changes)
        may_break = edits_left > 1 and not broken
        options: dict[Key, tuple[Any, ...]] = {}
        for key in self._keys:
            if key.path in changes:
                continue
            concerned = _concerned(key, readers)
            if any(constraint not in concerned for constraint in broken):
                continue
            if not concerned:
                if self._others[key]:
                    options[key] = self._others[key]
                continue
            values = []
            for value in self._others[key]:
                changed = {**changes, **dict.fromkeys(key.paths, value)}
                failed = self._fails(key, value, changed, concerned)
                if not failed or (may_break and self._can_be_mended(changed)):
                    values.append(value)
            if values:
                options[key] = tuple(values)
        return options

    def _can_be_mended(self, changes: Mapping[str, Any]) -> bool:
        """Whether one more edit makes all constraints hold."""
        readers, broken = self._asked(changes)
        for key in self._keys:
            if key.path in changes:
                continue
            concerned = _concerned(key, readers)
            if all(constraint in concerned for constraint in broken):
                for value in self._others[key]:
                    changed = {**changes, **dict.fromkeys(key.paths, value)}
                    if not self._fails(key, value, changed, concerned):
                        return True
        return False

    def _asked(self, changes: Mapping[str, Any]) -> tuple[_Readers, list[Constraint]]:
        """What each constraint asks for in the changed configuration, and which are broken."""
        readers, broken = [], []
        for constraint in self._constraints:
            get = self.overlay(changes)
            if constraint(get, self._layout) is not None:
                broken.append(constraint)
            readers.append((constraint, get.asked, _with_holders(get.asked)))
        return readers, broken

    def _other_values(self, key: Key) -> tuple[Any, ...]:
        present = pointer.get(self._documents, key.path)
        return tuple(value for value in key.values if not pointer.same(value, present))

    def _fails(
        self, key: Key, value: Any, changed: Mapping[str, Any], concerned: Sequence[Constraint]
    ) -> bool:
        """Whether one of the *concerned* constraints is broken once *key* has *value*."""
        get = self.overlay(changed)
        try:
            return any(constraint(get, self._layout) is not None for constraint in concerned)
        except InputProblem as problem:
            text = pointer.show(value)
            raise InputProblem(
                f"{key.path}: {text}: {problem}; remove the value, or correct the rule"
            ) from None


def _concerned(key: Key, readers: _Readers) -> list[Constraint]:
    """The constraints that asked for something that *key* changes; no other can be affected."""
    return [
        constraint
        for constraint, asked, with_holders in readers
        if any(path in with_holders or not asked.isdisjoint(_holders(path)) for path in key.paths)
    ]


@lru_cache(maxsize=4096)
def _holders(path: str) -> tuple[str, ...]:
    """The pointers of all that *path* lies in."""
    ends = [at for at, sign in enumerate(path) if sign == "/" and at]
    return tuple(path[:end] for end in ends)


def _with_holders(asked: set[str]) -> set[str]:
    return asked.union(*map(_holders, asked))


_Readers = list[tuple[Constraint, set[str], set[str]]]
"""A constraint, the pointers that it asked for, and these with all that they lie in."""
