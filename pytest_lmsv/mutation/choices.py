"""Which values a key may take next, given what is already changed: the constraints decide.

Nothing is copied for a candidate: rules look values up through an overlay of the changes, and only
rules that read a changed key are asked again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.constraints import REQUIRED, Constraint, Layout
from pytest_lmsv.mutation.space import Key


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

    def overlay(self, changes: Mapping[str, Any]) -> Overlay:
        """A lookup of the configuration with *changes* made."""
        return Overlay(self._documents, self._found, changes)

    def broken(self, changes: Mapping[str, Any]) -> list[str]:
        """One sentence for each constraint that the changed configuration breaks."""
        get = self.overlay(changes)
        return _broken(self._constraints, get, self._layout)

    def after(self, changes: Mapping[str, Any]) -> dict[Key, tuple[Any, ...]]:
        """For each key that may be changed next, the values that keep all constraints."""
        readers: list[tuple[Constraint, set[str]]] = []
        for constraint in self._constraints:
            get = self.overlay(changes)
            constraint(get, self._layout)
            readers.append((constraint, get.asked))
        options: dict[Key, tuple[Any, ...]] = {}
        for key in self._keys:
            if key.path not in changes:
                values = self._allowed(key, changes, readers)
                if values:
                    options[key] = values
        return options

    def _allowed(
        self,
        key: Key,
        changes: Mapping[str, Any],
        readers: Iterable[tuple[Constraint, set[str]]],
    ) -> tuple[Any, ...]:
        """The values of *key* that differ from the present one and break no constraint."""
        present = self.overlay(changes)(key.path)
        concerned = [
            constraint
            for constraint, asked in readers
            if any(_touch(path, read) for path in key.paths for read in asked)
        ]
        allowed = []
        for value in key.values:
            if pointer.same(value, present):
                continue
            get = self.overlay({**changes, **dict.fromkeys(key.paths, value)})
            if all(constraint(get, self._layout) is None for constraint in concerned):
                allowed.append(value)
        return tuple(allowed)


def _broken(constraints: Iterable[Constraint], get: Overlay, layout: Layout) -> list[str]:
    return [
        f"{constraint.name}: {sentence}"
        for constraint in constraints
        if (sentence := constraint(get, layout)) is not None
    ]


def _touch(path: str, read: str) -> bool:
    return pointer.within(path, read) or pointer.within(read, path)
