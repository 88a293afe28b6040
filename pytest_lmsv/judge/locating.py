"""Where two runs of one mutation differ first: weights, a module, the loss, or a gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pytest_lmsv.judge.modules import (
    Call,
    Difference,
    Step,
    difference,
    in_backward_order,
    pairs,
    places,
    relative,
)

Kind = Literal["weights", "update", "module", "between", "loss", "gradient", "sum", "nothing"]
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """Relative differences that two sound stacks stay below, with a margin (docs/locate.md)."""

    module: float = 1e-5
    gradient: float = 1e-5
    weights: float = 1e-5
    loss: float = 2e-6
    share: float = 1e-3
    """A gradient counts as at least this share of the global norm."""


@dataclass(frozen=True)
class Location:
    """The first difference, in the words of DESIGN: PTA is the baseline, MSA the compare side."""

    kind: Kind
    step: int
    name: str = ""
    """The module or parameter; for ``between`` the first module whose input differs already."""
    measure: str = ""
    baseline: Any = None
    compare: Any = None
    relative: float = 0.0
    sentence: str = ""
    right: tuple[str, ...] = ()
    """What is still right just before it (for gradients: in backward order)."""
    then: tuple[str, ...] = ()
    """What differs after it."""
    compared: int = 0
    differing: int = 0
    unmatched: tuple[str, ...] = ()
    """Calls that one side alone has; they are not compared."""
    steps: tuple[int, ...] = field(default=())
    """The steps that were looked at."""


def locate(
    baseline: Sequence[Step], compare: Sequence[Step], limits: Limits | None = None
) -> Location:
    """Return where the first recorded step that differs does so; ``nothing`` where none does."""
    limits = limits or Limits()
    theirs = {step.step: step for step in compare}
    both = [(step, theirs[step.step]) for step in baseline if step.step in theirs]
    steps = tuple(step.step for step, _ in both)
    last = Location("nothing", steps[-1] if steps else 0, sentence="no step was recorded twice")
    for number, (ours, other) in enumerate(both):
        before = both[number - 1][0] if number else None
        last = _in_step(ours, other, before, limits)
        if last.kind != "nothing":
            break
    return replace(last, steps=steps)


def _in_step(ours: Step, other: Step, before: Step | None, limits: Limits) -> Location:
    found, alone = pairs(ours.calls, other.calls)
    wrong = [
        (number, difference(a.output, b.output))
        for number, (a, b) in enumerate(found)
        if not difference(a.output, b.output).relative <= limits.module
    ]
    common: dict[str, Any] = {
        "step": ours.step,
        "compared": len(found),
        "differing": len(wrong),
        "unmatched": tuple(alone),
    }
    return (
        _weights(ours, other, before, limits, common)
        or (_module(found, wrong, limits, common) if wrong else None)
        or _loss(ours, other, limits, common)
        or _gradient(ours, other, limits, common)
        or Location(
            "nothing",
            sentence=f"step {ours.step}: all {len(found)} module calls and "
            f"{len(ours.gradients)} gradients agree",
            **common,
        )
    )


def _weights(
    ours: Step, other: Step, before: Step | None, limits: Limits, common: Mapping[str, Any]
) -> Location | None:
    """The weights that differ when the step begins, the worst first."""
    # A gradient that is zero but for rounding moves its weight by the whole rate, either way.
    size = _norm(before.gradients) if before else 0.0
    moved = {
        name
        for name in ours.weights
        if before is None or before.gradients.get(name, math.inf) > 1e-5 * size
    }
    found = {
        name: difference(held, other.weights[name])
        for name, held in ours.weights.items()
        if name in other.weights and name in moved
    }
    wrong = [name for name in found if not found[name].relative <= limits.weights]
    if not wrong:
        return None
    worst = max(wrong, key=lambda name: found[name].relative)
    first = ours.step == 1
    what = (
        "the two sides start from other weights"
        if first
        else (
            f"the update after step {ours.step - 1} differs (optimizer or schedule), as its "
            "gradients agree"
        )
    )
    return _made(
        "weights" if first else "update",
        worst,
        found[worst],
        f"step {ours.step}: {what}: {len(wrong)} of {len(found)} weights, most {worst}",
        common,
        then=tuple(sorted(set(wrong) - {worst}))[:SHOWN],
    )


def _module(
    found: Sequence[tuple[Call, Call]],
    wrong: Sequence[tuple[int, Difference]],
    limits: Limits,
    common: Mapping[str, Any],
) -> Location:
    """The first module whose output differs, or the code before it whose result it was given."""
    number, made = wrong[0]
    call, other = found[number]
    given = [difference(a, b) for a, b in zip(call.inputs, other.inputs, strict=False)]
    inputs = [d for d in given if not d.relative <= limits.module]
    right = tuple(a.name for a, _ in found[max(0, number - SHOWN) : number])
    then = tuple(found[n][0].name for n, _ in wrong[1 : 1 + SHOWN])
    head = f"step {common['step']}: first differing module: {call.name} ({call.type})"
    if inputs or len(call.inputs) != len(other.inputs):
        holder = _holder(call.name, right[-1] if right else "")
        where = f"between {right[-1]} (right) and it" if right else "before it"
        return _made(
            "between",
            call.name,
            made,
            f"{head}; it was given other values already: the fault lies {where}, in the code of "
            f"{holder or 'the network'} or in the data",
            common,
            right=right,
            then=then,
        )
    return _made(
        "module",
        call.name,
        made,
        f"{head}; it was given the same values",
        common,
        right=right,
        then=then,
    )


def _holder(name: str, other: str) -> str:
    """Return the innermost module that holds both."""
    parts, others = name.partition("#")[0].split("."), other.partition("#")[0].split(".")
    same = []
    for a, b in zip(parts[:-1], others, strict=False):
        if a != b:
            break
        same.append(a)
    return ".".join(same)


def _loss(ours: Step, other: Step, limits: Limits, common: Mapping[str, Any]) -> Location | None:
    if ours.loss is None or other.loss is None:
        return None
    found = relative(ours.loss, other.loss)
    if found <= limits.loss or not ours.calls:
        return None
    last = ours.calls[-1].name
    return _made(
        "loss",
        "loss",
        Difference("loss", ours.loss, other.loss, found),
        f"step {ours.step}: all module calls agree, the loss does not: the fault lies behind "
        f"{last}, in the loss function",
        common,
        right=(last,),
    )


def _gradient(
    ours: Step, other: Step, limits: Limits, common: Mapping[str, Any]
) -> Location | None:
    """The first wrong gradient as the backward pass meets them, and its neighbours."""
    own = _wrong(ours.own, other.own, limits)
    kind: Kind = "gradient" if own or not ours.own else "sum"
    a, b = (ours.own, other.own) if own else (ours.gradients, other.gradients)
    wrong = own or _wrong(a, b, limits)
    if not wrong:
        return None
    where = places(ours)
    order = in_backward_order(a, where)
    first = next(name for name in order if name in wrong)
    place = order.index(first)
    right = tuple(reversed(order[max(0, place - SHOWN) : place]))
    later = [name for name in order[place + 1 :] if name in wrong]
    if kind == "sum":
        text = (
            f"step {ours.step}: all modules and this rank's own gradients agree, their sum over "
            f"the workers does not: {len(wrong)} of {len(a)}, first {first}"
        )
    else:
        between = [
            call.name
            for number, call in enumerate(ours.calls)
            if where[first] <= number <= (where[right[0]] if right else math.inf)
        ]
        text = (
            f"step {ours.step}: all {common['compared']} module calls agree, {len(wrong)} of "
            f"{len(a)} gradients do not; first wrong one in backward order: {first}; "
            + (f"still right: {', '.join(right)}; " if right else "none before it is right; ")
            + "the fault lies in the backward of "
            + ("one of: " if right else "the loss or one of: ")
            + (", ".join(reversed(between)) or first)
        )
    return _made(kind, first, wrong[first], text, common, right=right, then=tuple(later[:SHOWN]))


def _wrong(
    ours: Mapping[str, float], other: Mapping[str, float], limits: Limits
) -> dict[str, Difference]:
    least = limits.share * _norm(ours)
    found = {}
    for name, norm in ours.items():
        theirs = other.get(name, math.nan)
        away = relative(norm, theirs, least)
        if not away <= limits.gradient:
            found[name] = Difference("norm", norm, theirs, away)
    return found


def _norm(norms: Mapping[str, float]) -> float:
    return math.sqrt(sum(value * value for value in norms.values() if math.isfinite(value)))


def _made(
    kind: Kind,
    name: str,
    found: Difference,
    sentence: str,
    common: Mapping[str, Any],
    right: tuple[str, ...] = (),
    then: tuple[str, ...] = (),
) -> Location:
    return Location(
        kind,
        name=name,
        measure=found.measure,
        baseline=found.baseline,
        compare=found.compare,
        relative=found.relative,
        sentence=f"{sentence} ({found.measure} {_shown(found.baseline)} against "
        f"{_shown(found.compare)}, relative {found.relative:.1e})",
        right=right,
        then=then,
        **common,
    )


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
