"""Did a run succeed? The table of DESIGN 5.1, row by row, first match wins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pytest_lmsv.logs.launchers import SIGNALS
from pytest_lmsv.logs.reading import Reading, read
from pytest_lmsv.records import Kind, Metrics, Note, Outcome, RunError, RunRecord, Stack

Reason = Literal["exit", "time limit", "silence", "interrupted", "lost"]


@dataclass(frozen=True, slots=True)
class Judged:
    """How a run ended. An error in teardown stands beside the outcome `ok`."""

    outcome: Outcome
    error: RunError | None = None
    teardown_error: RunError | None = None


def judge(
    reading: Reading,
    *,
    kind: Kind,
    exit_status: int | None,
    reason: Reason = "exit",
    output_made: bool | None = None,
    incomplete_counts: bool = True,
) -> Judged:
    """The outcome of a run by DESIGN 5.1.

    *exit_status*: negative or above 128 for a signal, None where there is none. *output_made*:
    whether an inference left its output; None where nobody looked. *incomplete_counts*: whether
    unfinished work is an error (not for a log that is still being written).
    """
    ours = reason in {"time limit", "silence"}
    complete = reading.complete is True and output_made is not False
    error = reading.error
    if error is not None and ours and error.category == "killed":
        error = None  # the echo of our own signal
    late = error is not None and error.phase == "teardown" and complete
    if error is not None and not late:
        return Judged("error", replace(error, phase="run"))
    failed = _exit_error(reading, exit_status, reason)
    if complete and (late or failed is not None or ours):
        found = error or (_hang(reading, reason) if ours else failed)
        assert found is not None
        return Judged("ok", teardown_error=replace(found, phase="teardown"))
    if ours:
        return Judged("timeout", _hang(reading, reason))
    if failed is not None:
        return Judged("error", failed)
    if not complete and incomplete_counts:
        return Judged("error", _incomplete(reading, kind, output_made))
    return Judged("ok")


def _exit_error(reading: Reading, exit_status: int | None, reason: Reason) -> RunError | None:
    """What a non-zero exit without any error text amounts to."""
    if reason == "lost":
        return _unspoken(reading, "LostNode", "lost_node", "the connection to a node was lost")
    if reason == "interrupted":
        return _unspoken(reading, "Interrupted", "killed", "the run was interrupted")
    if not exit_status:
        return None
    number = -exit_status if exit_status < 0 else exit_status - 128
    if exit_status < 0 or number in SIGNALS:
        name = SIGNALS.get(number, f"signal {number}")
        return _unspoken(reading, name, "killed", f"killed by {name}")
    return _unspoken(reading, "ExitStatus", "unknown", f"exit status {exit_status}")


def _unspoken(reading: Reading, type_: str, category: str, what: str) -> RunError:
    """An error without text: its message is *what* is known, and the last warning or line."""
    said = reading.last_warning or reading.last_line
    name = "last warning" if reading.last_warning else "last line"
    message = f"{what}; {name}: {said}" if said else what
    return RunError(type=type_, message=message, category=category, line=said)


def _hang(reading: Reading, reason: Reason) -> RunError:
    what = "no output for the silence limit" if reason == "silence" else "time limit reached"
    done = f"{len(reading.steps)} steps done" if reading.steps else "no step done"
    if reading.asked and reading.steps:
        done = f"{len(reading.steps)} of {reading.asked} steps done"
    return RunError(type="Hang", message=f"{what}, {done}", category="hang")


def _incomplete(reading: Reading, kind: Kind, output_made: bool | None) -> RunError:
    if kind == "training":
        asked = "the asked" if reading.asked is None else reading.asked
        what = f"{len(reading.steps)} step records for {asked} steps"
    elif output_made is False:
        what = "no output made"
    else:
        what = "no completion record of every rank"
    return RunError(type="Incomplete", message=what, category="incomplete")


def run_record(
    *,
    stack: Stack,
    kind: Kind,
    logs: Sequence[Path],
    steps: int | None,
    exit_status: int | None,
    reason: Reason = "exit",
    seconds: float = 0.0,
    nodes: int = 1,
    record: Path | Sequence[Path] | None = None,
    run_id: str | None = None,
    since: float | None = None,
    output_made: bool | None = None,
    patterns: Sequence[Path] = (),
) -> RunRecord:
    """Read and judge one run that has ended.

    *record*: the ``record`` folders of its nodes; *since*: when it began, seconds since the epoch.
    """
    reading = read(
        logs,
        stack=stack,
        kind=kind,
        steps=steps,
        record=record,
        run_id=run_id,
        since=since,
        failed=bool(exit_status) if reason == "exit" and exit_status is not None else None,
        patterns=patterns,
    )
    judged = judge(
        reading, kind=kind, exit_status=exit_status, reason=reason, output_made=output_made
    )
    metrics, notes = exact(reading)
    versions: dict[str, str] = {}
    for completion in reading.completions:
        versions.update(completion.versions)
    return RunRecord(
        stack=stack,
        nodes=nodes,
        outcome=judged.outcome,
        complete=reading.complete,
        metrics=metrics,
        error=judged.error,
        teardown_error=judged.teardown_error,
        notes=(*reading.notes, *notes),
        exit_status=exit_status,
        timed_out=reason in {"time limit", "silence"},
        seconds=seconds,
        versions=versions,
        logs=reading.logs,
        completions=reading.completions,
        curves=reading.exact.curves,
        noise=reading.exact.noise,
    )


def exact(reading: Reading) -> tuple[Metrics, tuple[Note, ...]]:
    """The figures of the log, refined by the step records where the two agree.

    The printed loss is the contract. A step record gives the digits that the log rounds away; one
    that says something else is not taken, and a note says so. A loss that vanished because it was
    NaN is NaN here.
    """
    # The log prints seven digits of a loss (%.6E) and three decimals of a norm (%.3f).
    losses, odd = _refined(dict(reading.metrics.losses), reading.exact.losses, 1e-6, 0.0)
    norms, odd_norms = _refined(
        dict(reading.metrics.grad_norms), reading.exact.grad_norms, 0.0, 5.1e-4
    )
    notes = []
    if odd or odd_norms:
        shown = ", ".join(map(str, sorted({*odd, *odd_norms})[:10]))
        notes.append(
            Note("record_differs", f"log and step records differ; the log counts: step {shown}")
        )
    for step in reading.nan_steps:
        losses.setdefault(step, math.nan)
    sources = dict(reading.metrics.sources)
    if reading.exact.ranks and reading.metrics.losses:
        sources["losses"] = f"{sources.get('losses', 'log')}; digits from step records"
    metrics = replace(
        reading.metrics,
        losses=tuple(sorted(losses.items())),
        grad_norms=tuple(sorted(norms.items())),
        sources=sources,
    )
    return metrics, tuple(notes)


def _refined(
    printed: dict[int, float], recorded: Mapping[int, float], relative: float, absolute: float
) -> tuple[dict[int, float], list[int]]:
    refined: dict[int, float] = {}
    odd = []
    for step, value in printed.items():
        fine = recorded.get(step)
        if fine is None or not math.isfinite(value):
            refined[step] = value
        elif math.isclose(fine, value, rel_tol=relative, abs_tol=absolute):
            refined[step] = fine
        else:
            refined[step] = value
            odd.append(step)
    return refined, odd
