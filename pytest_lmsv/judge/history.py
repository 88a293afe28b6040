"""Has a systematic difference moved away from its history?

Task6 saw 1.7 % become 4.58 % and called both aligned, since each is below 5 %. Here a campaign's
mean is compared with those of the campaigns before it, in units of their spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

MOVED = 4.0
"""So many spreads away from the history is told."""
LEAST: dict[str, float] = {
    "loss_diff": 1e-5,
    "memory_diff_rel": 0.01,
    "time_diff_rel": 0.02,
    "output_diff": 1e-5,
    "drift_ratio": 0.05,
}
"""Spreads are never taken for smaller: a history of equal figures has none."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What a campaign's differences of one kind are like."""

    n: int
    mean: float
    stdev: float | None
    """Of the iterations; None with one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a campaign's mean lies in its history."""

    centre: float
    spread: float
    units: float
    """Signed distance from the centre in spreads."""

    @property
    def moved(self) -> bool:
        """Whether that is further than chance explains."""
        return abs(self.units) > MOVED


def place(earlier: Sequence[Figure], now: Figure, least: float) -> Place | None:
    """Return where *now* lies among *earlier* campaigns; None without any, or without a spread.

    The spread is the larger of how the earlier means scatter (median absolute deviation, so that
    one that moved before does not widen it) and how a mean of so many iterations scatters.
    """
    if not earlier:
        return None
    means = [figure.mean for figure in earlier]
    centre = median(means)
    between = _NORMAL * median(abs(mean - centre) for mean in means)
    within = [figure.stdev for figure in (*earlier, now) if figure.stdev is not None]
    if len(earlier) < 2 and not within:
        return None
    scatter = math.sqrt(fmean(s * s for s in within) / now.n) if within else 0.0
    spread = max(between, scatter, least)
    return Place(centre, spread, (now.mean - centre) / spread)
