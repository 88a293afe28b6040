"""Iterations as a campaign would store them, with chosen ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from pytest_lmsv.judge.classes import findings_of
from pytest_lmsv.judge.findings import in_gate
from pytest_lmsv.judge.verdicts import Tolerances, verdicts
from pytest_lmsv.records import (
    Attempt,
    Edit,
    IterationRecord,
    Metrics,
    Mutation,
    RunError,
    RunRecord,
    Stack,
)

Discarded = Literal["invalid", "no effect"]


def run(stack: Stack, *, error: RunError | None = None, **figures: Any) -> RunRecord:
    """A run of three steps; an *error* ends it."""
    loss, ms = figures.pop("loss", 1.0), figures.pop("ms", 10.0)
    metrics = Metrics(
        losses=() if loss is None else tuple((n, loss / n) for n in (1, 2, 3)),
        step_time_ms=tuple((n, ms) for n in (1, 2, 3)),
        memory_mb=figures.pop("memory", 100.0),
    )
    outcome: Any = "ok" if error is None else "error"
    return RunRecord(stack, 1, outcome, error is None, metrics, error, **figures)


def iteration(
    number: int,
    *,
    model: str = "toy",
    pta: RunRecord | None = None,
    msa: RunRecord | None = None,
    discarded: tuple[Discarded, ...] = (),
    edits: tuple[Edit, ...] = (Edit("/model/width", 1, 4), Edit("/args/lr", 9e-5, 1e-5)),
    gate: tuple[str, ...] = ("accuracy", "memory", "performance"),
) -> IterationRecord:
    """An iteration that was judged; runs that are not given are fine."""
    record = IterationRecord(
        model=model,
        iteration=number,
        mutation=Mutation(model, number, 1 + len(discarded), 43, edits, {}),
        attempts=tuple(
            Attempt(n, verdict, "refused", f"/c/iters/{model}/failed/iter_{number}_attempt_{n}")
            for n, verdict in enumerate(discarded, start=1)
        ),
        baseline_run=pta or run("pta"),
        compare_run=msa or run("msa"),
        verdicts=(),
        status="DONE",
    )
    assert record.baseline_run is not None
    found = verdicts(record.baseline_run, record.compare_run, record.kind, Tolerances())
    record = replace(record, verdicts=found)
    said = findings_of(record)
    return replace(
        record,
        findings=tuple(finding.text for finding in said),
        failing=tuple(finding.text for finding in in_gate(said, gate)),
    )


def untested(number: int, reason: str = "no device", model: str = "toy") -> IterationRecord:
    """An iteration that the environment kept from being tested."""
    return IterationRecord(model, number, None, (), None, None, (), "ENVIRONMENT", reason)


def error(message: str, category: str = "other_python", **more: Any) -> RunError:
    """The root error of a run."""
    return RunError("RuntimeError", message, category, line=f"RuntimeError: {message}", **more)
