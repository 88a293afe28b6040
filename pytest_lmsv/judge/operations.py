"""Compares what two stacks made of the same operation: value, gradient, accuracy (DESIGN 3).

Works on the lines that ``launchers/cpu/sweep.py`` writes. The limits:

- ``VALUE``: largest difference of an output over its own largest magnitude. float32 has a step of
  1.2e-7; the operations reduce over at most a few dozen numbers, so that two correct stacks differ
  by a few steps. Measured: at most 4e-7 between torch 2.13.0 and mindtorch with its fixes.
  float64 results are held to 1e-12, float16 ones to 1e-3.
- ``GRADIENT``: the same for each gradient, wider since a backward pass is a longer chain.
  Measured: at most 2.5e-6 (multi-head attention), 5e-7 for single operations other than erf.
- ``ACCURACY``: error against float64 (``launchers/cpu/accuracy.py``). float32 rounds to 6e-8 and
  good libraries stay below 4 steps; MSA may be at the limit or at four times PTA's own error,
  whichever is larger, so that a function on which PyTorch itself is weak is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VALUE = 1e-6
GRADIENT = 1e-5
ACCURACY = 1e-6
ACCURACY_OF_PTA = 4.0
OF_TYPE = {"float16": 1e-3, "float64": 1e-12}
"""Limits of types whose own step is far from that of float32."""
REFERENCE = "reference"
"""Kind of the finding that PTA itself has no result: the table is wrong, or PTA's version."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """All that one stack's sweep wrote."""

    stack: str
    versions: Mapping[str, str]
    fixes: tuple[str, ...]
    results: Mapping[str, Mapping[str, Any]]
    crashed: Mapping[str, str]
    """Operations that ended the interpreter, with how it ended."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which an operation differs; a known bug's signature is searched in its text."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def sweep(stack: str, lines: Sequence[Mapping[str, Any]]) -> Sweep:
    """Return one stack's sweep from its lines; one that went on after a crash has several heads."""
    heads = [line for line in lines if "schema" in line]
    return Sweep(
        stack=stack,
        versions=dict(heads[0]["versions"]) if heads else {},
        fixes=tuple(heads[0]["fixes"]) if heads else (),
        results={line["operation"]: line for line in lines if "operation" in line},
        crashed={line["crash"]: line["how"] for line in lines if "crash" in line},
    )


def number(value: Any) -> float:
    """Return a stored figure as a float; NaN and infinities are stored as strings."""
    return float(value)


def compare(pta: Mapping[str, Any], msa: Mapping[str, Any], limit: float) -> str | None:
    """Return how two stored arrays differ, as one phrase; None where they agree within *limit*."""
    if pta["shape"] != msa["shape"]:
        return f"shape {msa['shape']}, PTA has {pta['shape']}"
    if pta["dtype"] != msa["dtype"]:
        return f"type {msa['dtype']}, PTA has {pta['dtype']}"
    ours, theirs = pta["data"], msa["data"]
    if pta["dtype"] != "number" and not pta["dtype"].startswith("float"):
        wrong = [k for k, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
        return _differs(wrong, pta, msa, "") if wrong else None
    limit = OF_TYPE.get(pta["dtype"], limit)
    pairs = [(number(a), number(b)) for a, b in zip(ours, theirs, strict=True)]
    wrong = [k for k, (a, b) in enumerate(pairs) if not _same_kind(a, b)]
    if wrong:
        return _differs(wrong, pta, msa, "")
    finite = [(a, b) for a, b in pairs if math.isfinite(a)]
    scale = max((abs(a) for a, _ in finite), default=0.0)
    if scale > 0 and all(b == 0 for _, b in finite):
        return f"zero everywhere, PTA's largest is {scale:.3g}"
    wrong = [
        k
        for k, (a, b) in enumerate(pairs)
        if math.isfinite(a) and abs(a - b) > limit * max(scale, 1e-30)
    ]
    if not wrong:
        return None
    largest = max(abs(pairs[k][0] - pairs[k][1]) for k in wrong)
    return _differs(wrong, pta, msa, f"{largest / max(scale, 1e-30):.2g} of its scale, ")


def _same_kind(ours: float, theirs: float) -> bool:
    """Return whether both are finite, both NaN, or the same infinity."""
    if math.isfinite(ours) or math.isfinite(theirs):
        return math.isfinite(ours) and math.isfinite(theirs)
    return math.isnan(ours) == math.isnan(theirs) and (math.isnan(ours) or ours == theirs)


def _differs(wrong: Sequence[int], pta: Mapping[str, Any], msa: Mapping[str, Any], how: str) -> str:
    first, count = wrong[0], len(pta["data"])
    numbers = f"by {how}{len(wrong)} of {count}" if how else f"in {len(wrong)} of {count}"
    pair = f"{msa['data'][first]!r}, PTA has {pta['data'][first]!r}"
    return f"differs {numbers} numbers, first at {first}: {pair}"


def judge(name: str, pta: Sweep, msa: Sweep) -> tuple[Finding, ...]:
    """Return everything in which MSA's operation differs from PTA's; nothing where they agree.

    Where PTA itself has no result there is one finding, of kind ``REFERENCE``.
    """
    ours = pta.results.get(name)
    if ours is None or "value_error" in ours or "gradient_error" in ours:
        errors = ours or {"value_error": pta.crashed.get(name, "its sweep ended early")}
        why = errors.get("value_error") or errors["gradient_error"]
        return (Finding(REFERENCE, f"PTA has no result: {why}"),)
    theirs = msa.results.get(name)
    if theirs is None:
        return (Finding("crash", msa.crashed.get(name, "MSA's sweep has no result of it")),)
    if "value_error" in theirs:
        return (Finding("missing", theirs["value_error"]),)
    found = [*_values(ours, theirs), *_gradients(ours, theirs), *_accuracy(ours, theirs)]
    return tuple(found)


def _values(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Finding]:
    if len(ours["value"]) != len(theirs["value"]):
        number_of = f"{len(theirs['value'])} results, PTA has {len(ours['value'])}"
        return [Finding("value", number_of)]
    found = []
    for k, (a, b) in enumerate(zip(ours["value"], theirs["value"], strict=True)):
        text = compare(a, b, VALUE)
        if text is not None:
            found.append(Finding("value", text if len(ours["value"]) == 1 else f"[{k}] {text}"))
    return found


def _gradients(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Finding]:
    wanted = ours.get("gradient", {})
    if any(gradient is not None for gradient in wanted.values()) and "gradient_error" in theirs:
        return [Finding("gradient", theirs["gradient_error"])]
    found: list[Finding] = []
    text: str | None
    for name, gradient in wanted.items():
        other = theirs.get("gradient", {}).get(name)
        if gradient is None:  # PyTorch's way to say that the result does not depend on it
            dependent = other is not None and any(other["data"])
            text = "not zero, PTA has none" if dependent else None
        elif other is None:
            text = "none"
        else:
            text = compare(gradient, other, GRADIENT)
        if text is not None:
            found.append(Finding("gradient", f"of {name}: {text}"))
    return found


def _accuracy(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Finding]:
    if "accuracy" not in ours:
        return []
    if "accuracy" not in theirs:
        return [Finding("accuracy", theirs.get("accuracy_error", "not measured"))]
    error, reference = number(theirs["accuracy"]["error"]), number(ours["accuracy"]["error"])
    limit = max(ACCURACY, ACCURACY_OF_PTA * reference)
    if error <= limit:
        return []
    at = number(theirs["accuracy"]["at"])
    text = f"error {error:.2g} at x = {at:.6g}, PTA's {reference:.2g}, limit {limit:.2g}"
    return [Finding("accuracy", text)]
