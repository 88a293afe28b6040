"""Do two runs of one configuration follow the same curve? The verdict ``drift`` (docs/drift.md).

The 5 % rule of the last loss is blind to most defects. Here every step counts: loss, grad norm and
each parameter's gradient norm may differ by ``factor`` times what one unit in the last place of the
weights does to them (the noise floor), and no more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_lmsv.judge.curves import (
    FLOAT32,
    GRAD_NORM,
    GRADIENT,
    LOSS,
    Floor,
    Limits,
    Name,
    differences,
    figures,
    noise_floor,
    widened,
)
from pytest_lmsv.records import (
    Curve,
    Drift,
    Kind,
    Result,
    RunRecord,
    SampleDifference,
    Steady,
    Verdict,
)

NONE = Curve()


@dataclass(frozen=True)
class Check:
    """One figure of both sides, its difference and its limit."""

    quantity: str
    step: int
    name: str
    baseline: float | None
    compare: float | None
    difference: float
    limit: float

    @property
    def ratio(self) -> float:
        """The difference in units of its limit."""
        if not self.difference:
            return 0.0
        return self.difference / self.limit if self.limit else math.inf

    @property
    def text(self) -> str:
        """What it is, as ``gradient of blocks.0.weight``."""
        return f"{self.quantity} of {self.name}" if self.name else self.quantity


def drift(
    baseline: Curve,
    compare: Curve,
    floor: Floor | None,
    limits: Limits = FLOAT32,
    *,
    labels: tuple[str, str] = ("PTA", "MSA"),
    bias: Curve = NONE,
    may_lack: bool = False,
) -> Drift:
    """Return whether the training *compare* follows *baseline* within *limits*.

    *bias*: steady signed differences between the stacks, taken off before judging. *may_lack*: a
    run of this device may have no exact figures by nature (npu without a patch point): then a side
    without any is N/A, else NG. Where neither side has any there is nothing to compare.
    """
    lacking = set()
    for quantity in (LOSS, GRAD_NORM, GRADIENT):
        without = [
            label
            for curve, label in zip((baseline, compare), labels, strict=True)
            if not _has(curve, quantity)
        ]
        if len(without) == 1 and not may_lack:
            return _nothing("NG", f"{without[0]} recorded no {quantity}")
        if without and quantity == LOSS:
            return _nothing("N/A", f"{' and '.join(without)} recorded no {quantity}")
        if without:
            lacking.add(quantity)
    checks = list(_checks(baseline, compare, floor, limits, figures(bias), lacking))
    wrong = [check for check in checks if check.ratio > 1]
    unknown = [check for check in checks if math.isnan(check.ratio)]
    if not wrong and unknown:
        text = f"{unknown[0].text} of step {unknown[0].step} is no finite number on either side"
        return _nothing("N/A", text)
    worst = max(checks, key=lambda check: -1.0 if math.isnan(check.ratio) else check.ratio)
    shown = wrong[0] if wrong else worst
    gradient = next((check for check in wrong if check.quantity == GRADIENT), None)
    return Drift(
        "NG" if wrong else "OK",
        worst.ratio,
        shown.step,
        shown.text,
        shown.baseline,
        shown.compare,
        shown.difference if math.isfinite(shown.difference) else None,
        shown.limit,
        _reason(shown, worst, gradient, labels),
        gradient.name if gradient else "",
        gradient.step if gradient else None,
        "constants" if floor is None else "measured",
    )


def _checks(
    baseline: Curve,
    compare: Curve,
    floor: Floor | None,
    limits: Limits,
    bias: Mapping[Name, float],
    lacking: Collection[str],
) -> Iterator[Check]:
    """Yield every comparison in the order in which a step makes the figures."""
    ours, theirs = figures(baseline), figures(compare)
    found = differences(baseline, compare)
    first = min((step for step, _ in baseline.parameter_norms), default=0)
    for name in sorted({**ours, **theirs}, key=lambda each: each[1]):
        quantity, step, parameter = name
        if quantity in lacking:
            continue
        difference = abs(found[name] - bias.get(name, 0.0))
        limit = _limit(name, floor, limits, step <= first)
        yield Check(quantity, step, parameter, ours.get(name), theirs.get(name), difference, limit)


def _limit(name: Name, floor: Floor | None, limits: Limits, first: bool) -> float:
    """Return how far the figure *name* may differ."""
    if name[0] == GRADIENT:
        least = limits.first if first else limits.last
        assumed = limits.assumed_gradient
    else:
        least = limits.loss if name[0] == LOSS else limits.grad_norm
        assumed = limits.assumed_curve
    noise = assumed if floor is None else floor.values.get(name, assumed)
    return limits.factor * max(noise, least)


def _has(curve: Curve, quantity: str) -> bool:
    """Return whether *curve* has any figure of *quantity*."""
    parts = {LOSS: curve.losses, GRAD_NORM: curve.grad_norms, GRADIENT: curve.parameter_norms}
    return bool(parts[quantity])


def _nothing(result: Result, reason: str) -> Drift:
    """Return the drift of what could not be compared."""
    ratio = math.inf if result == "NG" else None
    return Drift(result, ratio, None, "", None, None, None, None, reason)


def _reason(shown: Check, worst: Check, gradient: Check | None, labels: tuple[str, str]) -> str:
    text = f"{shown.text} of step {shown.step} "
    if math.isfinite(shown.difference):
        text += (
            f"differs by {shown.difference:.2g}, {shown.ratio:.2g} x its limit of {shown.limit:.2g}"
        )
    else:
        values = zip(labels, (shown.baseline, shown.compare), strict=True)
        text += ", ".join(f"is {'missing' if v is None else v} on {name}" for name, v in values)
    if gradient is not None and gradient is not shown:
        text += f"; first wrong gradient: {gradient.name} (step {gradient.step})"
    if worst is not shown:
        text += f"; largest ratio {worst.ratio:.2g}: {worst.text} of step {worst.step}"
    return text


def output_drift(
    found: Sequence[SampleDifference],
    noise: Sequence[Curve],
    limits: Limits = FLOAT32,
    *,
    may_lack: bool = False,
) -> Drift:
    """Return whether an inference made the same as the baseline, within the floor of its outputs.

    *found*: how each sample differs; *noise*: the noise runs' curves. A token that the noise runs
    choose otherwise too (a tie) is no difference, but what was sure before it is compared.
    """
    if not found:
        return _nothing("N/A", "no samples to compare")
    floors = [each for run in noise for each in run.outputs if _measures(each)]
    checks = [check for sample in found for check in _output_checks(sample, floors, limits)]
    blind = [each for each in found if each.difference is None]
    if blind and not any(check.ratio > 1 for check in checks):
        reason = f"{blind[0].name}: {blind[0].reason}"
        return _nothing("N/A" if may_lack else "NG", reason)
    worst = max(checks, key=lambda check: check.ratio)
    wrong = next((check for check in checks if check.ratio > 1), None)
    shown = wrong or worst
    sample = next(each for each in found if each.name == shown.name)
    text = f"{shown.text}: {sample.reason}"
    if math.isfinite(shown.ratio):
        text += f"; {shown.difference:.2g} is {shown.ratio:.2g} x the limit of {shown.limit:.2g}"
    return Drift(
        "NG" if wrong else "OK",
        worst.ratio,
        shown.step or None,
        shown.text,
        None,
        None,
        shown.difference if math.isfinite(shown.difference) else None,
        shown.limit,
        text,
        floor="measured" if floors else "constants",
    )


def _measures(noise: SampleDifference) -> bool:
    """Return whether a noise run's sample has figures to measure a floor by."""
    figures = (noise.difference, 0.0 if noise.logprob is None else noise.logprob)
    return all(each is not None and math.isfinite(each) for each in figures)


def _output_checks(
    sample: SampleDifference, noise: Sequence[SampleDifference], limits: Limits
) -> Iterator[Check]:
    """Yield the comparisons of one sample; none where it can't be compared."""
    mine = [each for each in noise if each.name == sample.name]
    if sample.kind == "text":
        ties = [each.place for each in mine if each.place is not None]
        place = sample.place or (1 if sample.difference else None)
        surprise = place is not None and not any(tie <= place for tie in ties)
        yield Check(
            "tokens", place or 0, sample.name, None, None, math.inf if surprise else 0.0, 1.0
        )
        if sample.logprob is not None:
            floor = max((each.logprob or 0.0 for each in mine), default=limits.assumed_logprob)
            limit = limits.factor * max(floor, limits.logprob)
            yield Check("log probabilities", 0, sample.name, None, None, sample.logprob, limit)
    elif sample.difference is not None:
        floor = max((each.difference or 0.0 for each in mine), default=limits.assumed_output)
        limit = limits.factor * max(floor, limits.output)
        yield Check("output", 0, sample.name, None, None, sample.difference, limit)


def of_runs(
    baseline: RunRecord,
    compare: RunRecord | None,
    kind: Kind,
    samples: Sequence[SampleDifference] = (),
    limits: Limits = FLOAT32,
    *,
    labels: tuple[str, str] = ("PTA", "MSA"),
    steady: Steady | None = None,
    may_lack: bool = False,
) -> Drift:
    """Return the drift of one pair of runs, of the ranks that differ the most.

    *samples*: how what an inference made differs; *steady*: what sound runs of this device differ
    by, where that was measured.
    """
    steady = steady or Steady()
    bias, spread = steady.bias, (steady.floor, steady.spread)
    for run, label in zip((baseline, compare), labels, strict=True):
        if run is None or run.outcome != "ok":
            return _nothing("N/A", f"{label} did not run to its end")
    assert compare is not None
    if kind == "inference":
        return output_drift(samples, (*baseline.noise, *spread), limits, may_lack=may_lack)
    if baseline.curves is None or compare.curves is None:
        return _nothing("N/A", "it was stored without exact curves")
    ours, theirs = baseline.curves or (NONE,), compare.curves or (NONE,)
    floor = widened(noise_floor(ours[0], baseline.noise), spread)
    # A rank of its own mind has a curve of its own; all are held against the first.
    pairs = [(ours[0], each) for each in theirs] + [(each, theirs[0]) for each in ours[1:]]
    found = [
        drift(a, b, floor, limits, labels=labels, bias=bias, may_lack=may_lack) for a, b in pairs
    ]
    return max(found, key=lambda each: (RANKS[each.result], each.ratio or 0.0))


RANKS = {"OK": 0, "N/A": 1, "NG": 2}


def verdict(found: Drift) -> Verdict:
    """Return *found* as the verdict ``drift``; its difference is the named figure's."""
    return Verdict(
        "drift",
        found.result,
        found.baseline,
        found.compare,
        found.difference,
        "relative",
        found.reason,
        found.ratio,
    )
