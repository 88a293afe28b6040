"""How sure a share is that was counted: the interval of Clopper and Pearson."""

from __future__ import annotations

import math
from collections.abc import Callable


def clopper_pearson(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the shares that *hits* of *trials* leave possible, at least at *confidence*.

    The exact two-sided interval: each end is the share at which as many hits, or as few, have half
    of the remaining probability. (0, 1) without trials.
    """
    if not 0 <= hits <= trials:
        raise ValueError(f"{hits} hits of {trials} trials")
    if trials == 0:
        return 0.0, 1.0
    rest = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else _root(lambda share: 1.0 - _at_most(hits - 1, trials, share) < rest)
    high = 1.0 if hits == trials else _root(lambda share: _at_most(hits, trials, share) > rest)
    return low, high


def _at_most(hits: int, trials: int, share: float) -> float:
    """Return the chance of at most *hits* of *trials*, each with the chance *share*."""
    if share <= 0.0 or share >= 1.0:
        return 1.0 if share <= 0.0 or hits >= trials else 0.0
    logs = (
        math.lgamma(trials + 1)
        - math.lgamma(count + 1)
        - math.lgamma(trials - count + 1)
        + count * math.log(share)
        + (trials - count) * math.log1p(-share)
        for count in range(hits + 1)
    )
    return min(1.0, math.fsum(map(math.exp, logs)))


def _root(is_below: Callable[[float], bool]) -> float:
    """Return the share up to which *is_below* holds."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2.0
