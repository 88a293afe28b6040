"""Words that fit a number, or stand for one."""

from __future__ import annotations

import math
from typing import Literal


def counted(number: int, noun: str) -> str:
    """*number* and *noun*, as ``1 iteration`` or ``2 iterations``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def finite(value: float) -> float | Literal["NaN", "Infinity", "-Infinity"]:
    """A figure as JSON holds it (DESIGN 6.2)."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
