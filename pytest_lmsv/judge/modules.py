"""Two recordings of the modules of a network, and where they differ first.

A recording is what ``launchers/cpu/recording.py`` writes: calls of modules in the order in which
their forward ends, children before parents, so that the first call that differs is the innermost.
Forward comes before gradients: what is wrong in the forward makes the gradients after it wrong too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MEASURES = ("mean", "spread", "largest", "norm", "mixed")


@dataclass(frozen=True, slots=True)
class Figures:
    """A tensor in a few numbers; empty for a tensor without elements."""

    shape: tuple[int, ...]
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a module; ``name#k`` is the k-th of one module."""

    name: str
    type: str
    inputs: tuple[Figures, ...]
    output: Figures


@dataclass(frozen=True, slots=True)
class Step:
    """One recorded step of one rank."""

    step: int
    calls: tuple[Call, ...]
    weights: Mapping[str, Figures] = field(default_factory=dict)
    """When the step began."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Norm of each gradient of this rank, before the sum over the workers."""
    gradients: Mapping[str, float] = field(default_factory=dict)
    """Norm of each gradient, over all workers; in the order of registration."""
    loss: float | None = None
    """Of this rank's own share of the batch."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The measure of a tensor that differs most, relative to its scale; infinite for a NaN."""

    measure: str
    baseline: Any
    compare: Any
    relative: float


def read(text: str) -> tuple[Step, ...]:
    """Return the steps in *text*, one JSON object a line; a cut last line is left out."""
    steps = []
    for line in text.splitlines():
        try:
            steps.append(_step(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return tuple(steps)


def _step(plain: Mapping[str, Any]) -> Step:
    return Step(
        step=int(plain["step"]),
        calls=tuple(
            Call(
                call["name"],
                call["type"],
                tuple(map(_figures, call["inputs"])),
                _figures(call["output"]),
            )
            for call in plain["calls"]
        ),
        weights={name: _figures(held) for name, held in plain.get("weights", {}).items()},
        own=_numbers(plain.get("own_gradients")),
        gradients=_numbers(plain.get("gradients")),
        loss=None if plain.get("loss") is None else float(plain["loss"]),
    )


def _figures(plain: Mapping[str, Any]) -> Figures:
    values = {name: float(plain[name]) for name in MEASURES if name in plain}
    return Figures(tuple(plain["shape"]), values)


def _numbers(plain: Mapping[str, Any] | None) -> dict[str, float]:
    return {name: float(value) for name, value in (plain or {}).items()}


def difference(baseline: Figures, compare: Figures) -> Difference:
    """Return how two tensors differ; the mean is compared with the values, as it may be about 0."""
    if baseline.shape != compare.shape:
        return Difference("shape", list(baseline.shape), list(compare.shape), math.inf)
    norm = max(baseline.values.get("norm", 0.0), compare.values.get("norm", 0.0))
    rms = norm / math.sqrt(max(1, math.prod(baseline.shape)))
    scales = {"norm": norm, "mixed": norm, "largest": rms, "mean": rms, "spread": rms}
    worst = Difference("norm", None, None, 0.0)
    for name in MEASURES:
        if name not in baseline.values:
            continue
        a, b = baseline.values[name], compare.values[name]
        found = relative(a, b, scales[name])
        if not worst.relative >= found:
            worst = Difference(name, a, b, found)
    return worst


def relative(a: float, b: float, scale: float = 0.0) -> float:
    """Return the difference relative to the greatest of both and *scale*.

    Infinite where only one of them is a number.
    """
    if math.isnan(a) or math.isnan(b):
        return 0.0 if math.isnan(a) and math.isnan(b) else math.inf
    if a == b:
        return 0.0
    scale = max(abs(a), abs(b), scale)
    return math.inf if math.isinf(scale) else abs(a - b) / scale


def pairs(
    baseline: Sequence[Call], compare: Sequence[Call]
) -> tuple[list[tuple[Call, Call]], list[str]]:
    """Return the calls of both sides by name, in baseline order, and the names of one side only."""
    theirs = {call.name: call for call in compare}
    ours = {call.name for call in baseline}
    found = [(call, theirs[call.name]) for call in baseline if call.name in theirs]
    alone = [call.name for call in baseline if call.name not in theirs]
    return found, alone + [call.name for call in compare if call.name not in ours]


def places(step: Step) -> dict[str, float]:
    """Return where each parameter is used, as the number of its module's last call.

    A parameter whose module is never called itself stands just behind the one registered before it.
    """
    last = {call.name.partition("#")[0]: number for number, call in enumerate(step.calls)}
    found: dict[str, float] = {}
    before = -1.0
    for name in step.gradients:
        before = float(last.get(name.rpartition(".")[0], before + 0.001))
        found[name] = before
    return found


def in_backward_order(names: Iterable[str], where: Mapping[str, float]) -> list[str]:
    """Return *names* as the backward pass reaches them: the last used first.

    Of one module the last registered comes first, as the verdict drift has it.
    """
    backward = list(names)[::-1]
    return sorted(backward, key=lambda name: -where.get(name, -1.0))
