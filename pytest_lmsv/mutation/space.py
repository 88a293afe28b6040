"""The mutation space of one model on one device: keys with their grids of values, and constraints.

The grid is finite and written out, so that draws are the same on every machine and every value is
one a tester has seen in the file (space.yaml, docs/mutation.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pytest_lmsv.mutation.constraints import Constraint, Layout
from pytest_lmsv.mutation.pointer import canonical

DRAWING = 2
"""The way of drawing; another one draws other mutations for the same seed. 1 was uniform."""


@dataclass(frozen=True, eq=False)
class Key:
    """One configuration key of a space, as it stands on one device."""

    path: str
    values: tuple[Any, ...]
    live: bool = True
    reason: str = ""
    """Why it is not drawn, where it is not live."""
    fresh_weights: bool = False
    """Whether it changes the shape of a weight, so that a checkpoint no longer fits."""
    sets: tuple[str, ...] = ()
    """Keys that must hold the same value; they follow as edits of the same mutation."""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The key and the keys that follow it."""
        return (self.path, *self.sets)


@dataclass(frozen=True, eq=False)
class Space:
    """What may be mutated of one model on one device; keys sorted by path."""

    model: str
    device: str
    documents: Mapping[str, Any] = field(repr=False)
    """The unmutated configuration; shared, not to be changed."""
    keys: tuple[Key, ...] = field(repr=False)
    constraints: tuple[Constraint, ...] = field(repr=False)
    layout: Layout

    def drawn(self, *, only_fitting_checkpoint: bool = False) -> tuple[Key, ...]:
        """The keys that are drawn: live ones, without fresh weights where asked."""
        return tuple(
            key
            for key in self.keys
            if key.live and not (only_fitting_checkpoint and key.fresh_weights)
        )

    @cached_property
    def digest(self) -> str:
        """``sha256:`` of the canonical JSON of all that decides a draw, the documents apart."""
        content = {
            "drawing": DRAWING,
            "model": self.model,
            "device": self.device,
            "layout": [getattr(self.layout, name) for name in Layout.__slots__],
            "keys": [
                [key.path, list(key.values), key.live, key.fresh_weights, list(key.sets)]
                for key in self.keys
            ],
            "constraints": [[c.name, dict(c.parameters)] for c in self.constraints],
        }
        return "sha256:" + hashlib.sha256(canonical(content).encode()).hexdigest()
