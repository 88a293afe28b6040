"""The steady difference between the stacks on npu: bias, spread and floor (docs/drift.md).

In bf16 two sound stacks differ by a percent or two, always alike; what is new shows beside that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pytest_lmsv.judge.curves import (
    GRAD_NORM,
    LOSS,
    Name,
    differences,
    noise_floor,
)
from pytest_lmsv.records import Curve, RunRecord, Steady

Pair = tuple[Curve, Curve]
NONE = Curve()


def steady(pairs: Sequence[Pair], reference: Curve = NONE, noise: Sequence[Curve] = ()) -> Steady:
    """Return bias and spread of *pairs* (baseline, compare) and the floor that *noise* shows.

    Figures that not every pair has as finite numbers have neither bias nor spread.
    """
    found = [_finite(differences(*pair)) for pair in pairs]
    names = set.intersection(*map(set, found)) if found else set()
    bias = {name: fmean(each[name] for each in found) for name in names}
    spread = {name: max(abs(each[name] - bias[name]) for each in found) for name in names}
    measured = noise_floor(reference, noise)
    return Steady(
        bias=as_curve(bias),
        floor=as_curve(measured.values if measured else {}),
        spread=as_curve(spread),
        pairs=len(pairs),
    )


def with_history(measured: Steady, first: Sequence[Pair], history: Sequence[Pair]) -> Steady:
    """Return *measured* with the bias of the pair *first* and of the earlier ones of *history*."""
    together = steady([*first, *history])
    return replace(measured, bias=together.bias, spread=together.spread, pairs=together.pairs)


def pairs(runs: Iterable[tuple[RunRecord | None, RunRecord | None]]) -> list[Pair]:
    """Return the curves of those *runs* (baseline, compare) that have some on both sides."""
    found = []
    for baseline, compare in runs:
        if baseline and compare and baseline.curves and compare.curves:
            found.append((baseline.curves[0], compare.curves[0]))
    return found


def as_curve(values: Mapping[Name, float]) -> Curve:
    """Return *values*, relative differences by figure, as a curve, which can be stored."""
    each: dict[int, dict[str, float]] = {}
    for (_, step, parameter), value in values.items():
        if parameter:
            each.setdefault(step, {})[parameter] = value

    def of(quantity: str) -> tuple[tuple[int, float], ...]:
        return tuple(
            sorted((name[1], value) for name, value in values.items() if name[0] == quantity)
        )

    return Curve(of(LOSS), of(GRAD_NORM), tuple(sorted(each.items())))


def _finite(values: Mapping[Name, float]) -> dict[Name, float]:
    return {name: value for name, value in values.items() if math.isfinite(value)}
