"""Curves, how far two of them are apart, and how far noise alone takes them (docs/drift.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_lmsv.records import Curve, Device

Name = tuple[str, int, str]
"""Quantity, step and parameter (empty but for gradients) that a figure belongs to."""
LOSS, GRAD_NORM, GRADIENT = "loss", "grad norm", "gradient"
SMALL_SHARE = 1e-3
"""A gradient below this share of the global norm is compared relative to that share: where it is
zero in exact arithmetic (a key's bias without positions) its rounding noise differs by 100 %."""


@dataclass(frozen=True)
class Limits:
    """A limit is ``factor`` x max(floor, minimum): relative differences, in float32.

    The minima are what rounding alone may do where the measured floor is accidentally zero;
    ``assumed`` takes the place of a floor that was not measured.
    """

    factor: float = 10.0
    loss: float = 2.5e-7
    grad_norm: float = 2.5e-7
    first: float = 1e-6
    """Of a parameter's gradient norm at the first step."""
    last: float = 2e-6
    """Of a parameter's gradient norm at later steps."""
    output: float = 2.5e-7
    """Of a video, the norm of the difference relative to the baseline's."""
    logprob: float = 1e-6
    """Of the log probability of a token, absolute."""
    assumed_curve: float = 1e-6
    assumed_gradient: float = 2e-6
    assumed_output: float = 1e-6
    assumed_logprob: float = 2e-6


FLOAT32 = Limits()
"""The limits on cpu, confirmed on fresh configurations of all four networks (docs/drift.md)."""
BFLOAT16 = Limits(
    loss=1e-4,
    grad_norm=1e-4,
    first=1e-3,
    last=1e-3,
    output=1e-3,
    logprob=1e-2,
    assumed_curve=1e-3,
    assumed_gradient=1e-2,
    assumed_output=1e-2,
    assumed_logprob=1e-1,
)
"""The limits on npu. Without a measured floor a step may differ by MindSpeed-MM's own 1 %."""


def limits(device: Device, factor: float, minima: Sequence[str] = ()) -> Limits:
    """Return the limits of *device* with *factor*, and *minima* such as ``loss=2.5e-7``."""
    given = {name: float(value) for name, _, value in (each.partition("=") for each in minima)}
    return replace(FLOAT32 if device == "cpu" else BFLOAT16, factor=factor, **given)


@dataclass(frozen=True)
class Floor:
    """The relative differences that noise makes: running maxima over the steps."""

    values: Mapping[Name, float] = field(default_factory=dict)


def noise_floor(reference: Curve, noise: Sequence[Curve]) -> Floor | None:
    """Return the floor that *noise* runs of the configuration of *reference* measure.

    None without a usable one: a noise run that lost a value or met a NaN measures nothing.
    """
    values: dict[Name, float] = {}
    usable = 0
    for run in noise:
        found = differences(reference, run)
        if not found or not all(math.isfinite(value) for value in found.values()):
            continue
        usable += 1
        for name, value in found.items():
            values[name] = max(values.get(name, 0.0), abs(value))
    if not usable:
        return None
    running: dict[tuple[str, str], float] = {}
    for name in sorted(values, key=lambda each: each[1]):
        key = (name[0], name[2])
        running[key] = max(running.get(key, 0.0), values[name])
        values[name] = running[key]
    return Floor(values)


def differences(baseline: Curve, compare: Curve) -> dict[Name, float]:
    """Return the signed relative difference of each figure that either curve has.

    Infinite where only one side has it, or has it as a finite number; NaN where both do not.
    """
    norms = dict(baseline.grad_norms)
    found: dict[Name, float] = {}
    ours, theirs = figures(baseline), figures(compare)
    for name in {**ours, **theirs}:
        scale = SMALL_SHARE * norms.get(name[1], 0.0) if name[0] == GRADIENT else 0.0
        found[name] = relative(ours.get(name), theirs.get(name), scale)
    return found


def figures(curve: Curve) -> dict[Name, float]:
    """Return all figures of *curve* in the order in which a step makes them.

    By step: the loss, the gradients in backward order, the grad norm.
    """
    parts: list[tuple[Name, float]] = [((LOSS, step, ""), loss) for step, loss in curve.losses]
    for step, norms in curve.parameter_norms:
        backward = reversed(list(norms.items()))
        parts += [((GRADIENT, step, name), norm) for name, norm in backward]
    parts += [((GRAD_NORM, step, ""), norm) for step, norm in curve.grad_norms]
    return dict(sorted(parts, key=lambda part: part[0][1]))


def relative(left: float | None, right: float | None, least: float = 0.0) -> float:
    """Return ``(right - left) / max(abs(left), least)``; see :func:`differences` for the rest."""
    fine = [value is not None and math.isfinite(value) for value in (left, right)]
    if left is None or right is None or not all(fine):
        return math.inf if any(fine) or left is None or right is None else math.nan
    if left == right:
        return 0.0
    scale = max(abs(left), least)
    return (right - left) / scale if scale else math.inf


def widened(floor: Floor | None, spread: Sequence[Curve]) -> Floor | None:
    """Return *floor*, at least as wide as the relative differences in *spread*."""
    values = dict(floor.values) if floor is not None else {}
    for curve in spread:
        for name, value in figures(curve).items():
            if math.isfinite(value):
                values[name] = max(values.get(name, 0.0), abs(value))
    return Floor(values) if values else floor
