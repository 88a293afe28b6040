"""What plants are made of: the register, and the few tricks that several of them use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Patches = list[tuple[Any, str, Any]]
FIELD: dict[str, Callable[[], Patches]] = {}


def plant(name: str) -> Callable[[Callable[[], Patches]], Callable[[], Patches]]:
    """Register a function that returns the patches of the fault *name*."""

    def registered(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        assert name not in FIELD, name
        FIELD[name] = patches
        return patches

    return registered


def scaled_gradient(tensor, factor: float):
    """Return *tensor* unchanged, whose gradient is *factor* times the right one."""
    held = tensor.detach()
    return held + (tensor - held) * factor


def cut(tensor, bits: int):
    """Return float32 *tensor* rounded to *bits* bits of mantissa (Veltkamp's splitting)."""
    wide = tensor * float(2 ** (24 - bits) + 1)
    return wide - (wide - tensor)


def with_gradient_of(value, other):
    """Return *value*, whose gradient is that of *other*."""
    return value.detach() + (other - other.detach())


class Turns:
    """Counts the calls of an operation that always comes in twos."""

    def __init__(self) -> None:
        self.calls = 0

    def first(self) -> bool:
        """True at the first call of each two."""
        self.calls += 1
        return self.calls % 2 == 1
