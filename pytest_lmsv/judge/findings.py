"""What a tester is told: findings and verdicts in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pytest_lmsv.judge.policy import sentence
from pytest_lmsv.judge.verdicts import NO_LOSS, NO_OUTPUT
from pytest_lmsv.records import Edit, IterationRecord, RunError, Verdict

RUN, MUTATION, UNCOMPARED = "run", "mutation", "loss"
"""Names of the findings that are no verdict: MSA failed, and a mutation that did not reach it."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with an iteration."""

    name: str
    text: str
    error: RunError | None = None
    verdict: Verdict | None = None
    keys: tuple[str, ...] = ()
    """Of a verdict: JSON Pointers of all that the iteration's mutation changes."""


def findings(
    record: IterationRecord,
    verdicts: Sequence[Verdict],
    lost_edits: Sequence[Edit],
    labels: tuple[str, str],
) -> tuple[Finding, ...]:
    """Return all findings of *record*: a failed compare side, lost edits, every NG."""
    found: list[Finding] = []
    run = record.compare_run
    if run is not None and run.outcome != "ok":
        found.append(Finding(RUN, f"{labels[1]} error: {sentence(run.error)}", error=run.error))
    if run is not None and run.outcome == "ok" and lost_all_losses(record):
        found.append(Finding(UNCOMPARED, f"{labels[1]} printed no loss: nothing was compared"))
    if lost_edits:
        paths = ", ".join(edit.path for edit in lost_edits)
        found.append(Finding(MUTATION, f"mutation did not reach {labels[1]}: {paths}"))
    edits = record.mutation.edits if record.mutation is not None else ()
    keys = tuple(sorted({edit.path for edit in edits}))
    found += [
        Finding(verdict.name, long_text(verdict, labels), verdict=verdict, keys=keys)
        for verdict in verdicts
        if verdict.result == "NG"
    ]
    return tuple(found)


def lost_all_losses(record: IterationRecord) -> bool:
    """Return whether a training's compare side printed no loss where the baseline did."""
    baseline, compare = record.baseline_run, record.compare_run
    if record.kind != "training" or baseline is None or compare is None:
        return False
    return bool(baseline.metrics.losses) and not compare.metrics.losses


def in_gate(found: Sequence[Finding], gate: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings that fail a test: those of *gate*, and those that are no verdict."""
    return tuple(f for f in found if f.name in gate or f.verdict is None)


def first_line(
    failing: Sequence[Finding], verdicts: Sequence[Verdict], labels: tuple[str, str]
) -> str:
    """Return the line that a dashboard shows: what fails at length, the other verdicts shortly."""
    named = {finding.name for finding in failing}
    parts = [finding.text for finding in failing]
    parts += [short_text(v) for v in verdicts if v.name not in named and applies(v)]
    return "; ".join(parts)


def summary_line(verdicts: Sequence[Verdict]) -> str:
    """Return all verdicts in one short line."""
    return ", ".join(short_text(verdict) for verdict in verdicts if applies(verdict))


def applies(verdict: Verdict) -> bool:
    """Return whether *verdict* is one of its kind of run: a training has no output to compare."""
    return verdict.reason not in (NO_LOSS, NO_OUTPUT)


def short_text(verdict: Verdict) -> str:
    """Return as ``accuracy OK 1.52 %`` or ``memory NG +12 MB``."""
    return f"{verdict.name} {verdict.result}{_difference(verdict)}"


def long_text(verdict: Verdict, labels: tuple[str, str]) -> str:
    """Return as ``memory NG: MSA 36562 MB > PTA 33399 MB (+3163 MB, +9.5 %)``."""
    left, right = verdict.baseline, verdict.compare
    if verdict.name == "drift" or verdict.difference is None or left is None or right is None:
        return f"{verdict.name} {verdict.result}: {verdict.reason}"
    if verdict.name == "accuracy":
        return (
            f"accuracy {verdict.result}: {labels[1]}'s loss {right:.6g} differs from {labels[0]}'s "
            f"{left:.6g} by {percent(verdict.difference)} ({verdict.reason})"
        )
    relation = ">" if right > left else "<="
    share = f", {100 * verdict.difference / left:+.1f} %" if left else ""
    return (
        f"{verdict.name} {verdict.result}: {labels[1]} {_figure(right)} {verdict.unit} {relation} "
        f"{labels[0]} {_figure(left)} {verdict.unit} "
        f"({_figure(verdict.difference, sign=True)} {verdict.unit}{share})"
    )


def percent(value: float) -> str:
    """Return a relative difference as text, with digits enough not to round a difference to 0."""
    shown = 100 * value
    return f"{shown:.2f} %" if shown == 0 or shown >= 0.005 else f"{shown:.1e} %"


def _difference(verdict: Verdict) -> str:
    if verdict.ratio is not None:
        return f" {verdict.ratio:.2g} x its limit"
    if verdict.difference is None:
        return ""
    if verdict.unit == "relative":
        return f" {percent(verdict.difference)}"
    if verdict.unit == "tokens":
        return f" {verdict.difference:.0f} tokens"
    return f" {_figure(verdict.difference, sign=True)} {verdict.unit}"


def _figure(value: float, sign: bool = False) -> str:
    digits = 0 if abs(value) >= 100 else 2
    return f"{value:{'+' if sign else ''}.{digits}f}"
