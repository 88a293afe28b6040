"""The verdicts of an iteration (DESIGN 5.4): where the 5 % rule is.

Each verdict carries both values, their difference and its unit. What can't be computed is N/A with
its reason, never OK.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pytest_lmsv.judge.output import output
from pytest_lmsv.records import Kind, Metrics, RunRecord, SampleDifference, Verdict

NO_LOSS, NO_OUTPUT = "an inference has no loss", "a training makes no output"
"""Reasons of verdicts that say nothing of a run of that kind."""


@dataclass(frozen=True)
class Tolerances:
    """The limits: loss and video difference, surplus of memory and time (relative), PSNR (dB)."""

    loss: float = 0.05
    memory: float = 0.0
    time: float = 0.0
    output: float = 1e-5
    psnr: float = 100.0


def verdicts(
    baseline: RunRecord,
    compare: RunRecord | None,
    kind: Kind,
    tolerances: Tolerances,
    labels: tuple[str, str] = ("PTA", "MSA"),
    samples: Sequence[SampleDifference] = (),
) -> tuple[Verdict, ...]:
    """Return accuracy, memory, performance and output of one pair of runs.

    *samples*: how what an inference made differs.
    """
    names = ("accuracy", "memory", "performance", "output")
    for run, label in ((baseline, labels[0]), (compare, labels[1])):
        if run is None or run.outcome != "ok":
            return tuple(_not_available(name, f"{label} did not run to its end") for name in names)
    assert compare is not None
    return (
        accuracy(baseline, compare, kind, tolerances.loss, labels),
        _no_more(
            "memory",
            "MB",
            baseline.metrics.memory_mb,
            compare.metrics.memory_mb,
            tolerances.memory,
            labels,
        ),
        _no_more(
            "performance",
            "ms",
            run_time_ms(baseline.metrics, kind),
            run_time_ms(compare.metrics, kind),
            tolerances.time,
            labels,
        ),
        output(samples, tolerances.output, tolerances.psnr)
        if kind == "inference"
        else _not_available("output", NO_OUTPUT),
    )


def accuracy(
    baseline: RunRecord,
    compare: RunRecord,
    kind: Kind,
    tolerance: float = 0.05,
    labels: tuple[str, str] = ("PTA", "MSA"),
) -> Verdict:
    """Return whether the last loss that both report differs by less than *tolerance*."""
    if kind == "inference":
        return _not_available("accuracy", NO_LOSS)
    ours, theirs = dict(baseline.metrics.losses), dict(compare.metrics.losses)
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        missing = [label for label, found in zip(labels, (ours, theirs), strict=True) if not found]
        reason = f"no loss from {' and '.join(missing)}" if missing else "no step in common"
        return _not_available("accuracy", reason)
    step = common[-1]
    left, right = ours[step], theirs[step]
    if not math.isfinite(left):
        return Verdict(
            "accuracy", "N/A", left, right, None, "relative", f"{labels[0]}'s loss is {left}"
        )
    if not math.isfinite(right):
        reason = f"{labels[1]}'s loss is {right} at step {step}, {labels[0]}'s is finite"
        return Verdict("accuracy", "NG", left, right, None, "relative", reason)
    if left == 0:
        equal = right == 0
        reason = f"{labels[0]}'s loss is 0" + (
            " and so is the other" if equal else ", the other not"
        )
        return Verdict(
            "accuracy",
            "OK" if equal else "NG",
            left,
            right,
            0.0 if equal else None,
            "relative",
            reason,
        )
    difference = abs(right - left) / abs(left)
    return Verdict(
        "accuracy",
        "OK" if difference < tolerance or not difference else "NG",
        left,
        right,
        difference,
        "relative",
        f"loss of step {step}",
    )


def run_time_ms(metrics: Metrics, kind: Kind) -> float | None:
    """Return the time that performance compares, in ms.

    Training: the median of the step times without the first (with one step, that step).
    Inference: the generation call as the entry wrapper measured it.
    """
    if kind == "inference":
        return None if metrics.generation_s is None else metrics.generation_s * 1000
    times = [time for _, time in sorted(metrics.step_time_ms)]
    if not times:
        return None
    return median(times[1:] or times)


def has_finite_loss(run: RunRecord) -> bool:
    """Return whether every loss of *run* is a finite number (a baseline with others is invalid)."""
    return all(math.isfinite(loss) for _, loss in run.metrics.losses)


def _no_more(
    name: str,
    unit: str,
    left: float | None,
    right: float | None,
    tolerance: float,
    labels: Sequence[str],
) -> Verdict:
    if left is None or right is None:
        missing = [
            label for label, value in zip(labels, (left, right), strict=True) if value is None
        ]
        return Verdict(
            name, "N/A", left, right, None, unit, f"no figure from {' and '.join(missing)}"
        )
    if not (math.isfinite(left) and math.isfinite(right)):
        return Verdict(name, "N/A", left, right, None, unit, "a figure is no finite number")
    if left <= 0 or right <= 0:
        return Verdict(name, "N/A", left, right, None, unit, "a figure is not above 0")
    fits = right <= left * (1 + tolerance)
    return Verdict(name, "OK" if fits else "NG", left, right, right - left, unit, "")


def _not_available(name: str, reason: str) -> Verdict:
    unit = {"memory": "MB", "performance": "ms"}.get(name, "relative")
    return Verdict(name, "N/A", None, None, None, unit, reason)
