"""What is stored of an iteration, and read again (DESIGN 6.4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pytest_lmsv.campaign.stored import from_plain, to_plain
from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.judge.covering import relative
from pytest_lmsv.judge.verdicts import run_time_ms
from pytest_lmsv.mutation import apply
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import (
    Attempt,
    IterationRecord,
    Mutation,
    NodeRun,
    RunRecord,
    Steady,
    Verdict,
)

T = TypeVar("T")
RECORD = "record.json"
ATTEMPT = "attempt.json"
STEADY = "steady.json"
FURTHER = ("loss_diff_abs", "memory_diff_rel", "time_diff_rel")


def write_mutation(folder: Path, mutation: Mutation) -> None:
    """Store *mutation* before it runs, so that nothing is lost with the run."""
    write_json(folder / "mutation.json", apply.to_json(mutation))


def write_attempt(folder: Path, attempt: Attempt, run: RunRecord) -> None:
    """Store a discarded attempt in its own folder; its log is there already."""
    write_json(folder / "run.json", to_plain(run))
    write_json(folder / ATTEMPT, to_plain(attempt))


def read_attempt(folder: Path) -> Attempt | None:
    """Return the attempt that :func:`write_attempt` stored in *folder*."""
    path = folder / ATTEMPT
    return _restored(Attempt, path)


def write_run(folder: Path, run: RunRecord, name: str = RECORD) -> None:
    """Store one run alone, that of the unmutated configuration."""
    write_json(folder / name, to_plain(run))


def read_run(folder: Path, name: str = RECORD) -> RunRecord | None:
    """Return the run that :func:`write_run` stored in *folder*."""
    return _restored(RunRecord, folder / name)


def write_steady(folder: Path, steady: Steady) -> None:
    """Store what the unmutated configuration showed on npu."""
    write_json(folder / STEADY, to_plain(steady))


def read_steady(folder: Path) -> Steady | None:
    """Return what :func:`write_steady` stored in *folder*."""
    return _restored(Steady, folder / STEADY)


def write_iteration(folder: Path, record: IterationRecord) -> None:
    """Store a finished iteration: status.json, metrics.json, report.md and the whole record."""
    write_json(folder / "status.json", _status(record))
    write_json(folder / "metrics.json", _metrics(record))
    write_whole(folder / "report.md", _report(record))
    _write_failure(folder, record)
    write_json(folder / RECORD, to_plain(record))  # last: it says that the others are there


def read_iteration(folder: Path) -> IterationRecord | None:
    """Return the finished iteration stored in *folder*, None where it was not finished."""
    return _restored(IterationRecord, folder / RECORD)


def _restored(kind: type[T], path: Path) -> T | None:
    """Return the record in *path*, None without a file; InputProblem where it is damaged."""
    if not path.exists():
        return None
    try:
        return from_plain(kind, json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise InputProblem(
            f"{path}: is damaged ({problem}); remove its folder to run that again"
        ) from None


def stored_iterations(campaign: Path) -> Iterator[IterationRecord]:
    """Yield all finished iterations of *campaign*, by model and number."""
    for model, number in stored_numbers(campaign):
        record = read_iteration(campaign / "iters" / model / f"iter_{number}")
        if record is not None:
            yield record


def stored_numbers(campaign: Path) -> list[tuple[str, int]]:
    """Return model and number of all finished iterations of *campaign*, sorted."""
    found = [path.parent for path in campaign.glob(f"iters/*/iter_*/{RECORD}")]
    numbers = ((folder.parent.name, folder.name.partition("_")[2]) for folder in found)
    return sorted((model, int(text)) for model, text in numbers if text.isdigit())


def is_ok(record: IterationRecord, verdict: str) -> bool | None:
    """Return whether *verdict* is OK; None where it is N/A or missing, never a default."""
    found = [v.result for v in record.verdicts if v.name == verdict and v.result != "N/A"]
    return found[0] == "OK" if found else None


def difference(record: IterationRecord, verdict: str) -> float | None:
    """Return the difference of *verdict*, None where there is no figure."""
    return next((v.difference for v in record.verdicts if v.name == verdict), None)


def further(record: IterationRecord) -> tuple[float | None, float | None, float | None]:
    """Return the absolute difference of the losses and the relative ones of memory and time."""
    return (
        _absolute(_verdict(record, "accuracy")),
        share(_verdict(record, "memory")),
        share(_verdict(record, "performance")),
    )


def share(verdict: Verdict | None) -> float | None:
    """Return the difference of *verdict* relative to the baseline, None without a figure."""
    if verdict is None or verdict.difference is None or not verdict.baseline:
        return None
    return relative(verdict)


def _absolute(verdict: Verdict | None) -> float | None:
    if verdict is None or verdict.baseline is None or verdict.compare is None:
        return None
    return abs(verdict.compare - verdict.baseline) if verdict.difference is not None else None


def _verdict(record: IterationRecord, name: str) -> Verdict | None:
    return next((verdict for verdict in record.verdicts if verdict.name == name), None)


def last_loss(run: RunRecord) -> float | None:
    """Return the last loss of *run*."""
    return run.metrics.losses[-1][1] if run.metrics.losses else None


def _components(record: IterationRecord) -> dict[str, str]:
    def run(value: RunRecord | None) -> str:
        return "SKIP" if value is None else "PASS" if value.outcome == "ok" else "FAIL"

    judged = any(verdict.result != "N/A" for verdict in record.verdicts)
    return {
        "MUTATE": "PASS" if record.mutation is not None else "FAIL",
        "PTA_VERIFY": run(record.baseline_run),
        "MSA_VERIFY": run(record.compare_run),
        "ANALYSIS": ("FAIL" if record.failing else "PASS") if judged else "SKIP",
    }


def _status(record: IterationRecord) -> dict[str, Any]:
    components = _components(record)
    return {
        "task_type": 6,
        "iteration": record.iteration,
        "model": record.model,
        "overall_status": "FAIL" if "FAIL" in components.values() else "PASS",
        "status": record.status,
        "reason": record.reason or "; ".join(record.findings),
        "components": components,
        "nodes": [node.name for node in _nodes(record)],
        "updated_at": datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
    }


def _nodes(record: IterationRecord) -> tuple[NodeRun, ...]:
    """Return the machines of its runs; none where they were on one alone."""
    run = record.compare_run or record.baseline_run
    return run.per_node if run is not None else ()


def _machines(record: IterationRecord) -> list[str]:
    """Return the report's lines on how each run ended on each machine."""
    lines = []
    for run in filter(None, (record.baseline_run, record.compare_run)):
        for node in run.per_node:
            end = node.reason if node.exit_status is None else f"exit {node.exit_status}"
            first = ", failed first" if node.is_cause else ""
            lines.append(f"- {run.stack}, rank {node.rank}, {node.name}: {end}{first}")
    return ["", "## Machines", "", *lines] if lines else []


def _metrics(record: IterationRecord) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "pta": _side_metrics(record, record.baseline_run),
        "msa": _side_metrics(record, record.compare_run),
        "analysis": {
            "loss_match": is_ok(record, "accuracy"),
            "accuracy_ok": is_ok(record, "accuracy"),
            "memory_ok": is_ok(record, "memory"),
            "perf_ok": is_ok(record, "performance"),
            "output_ok": is_ok(record, "output"),
            "loss_diff": difference(record, "accuracy"),
            "memory_diff": difference(record, "memory"),
            "time_diff": difference(record, "performance"),
            "output_diff": difference(record, "output"),
            **dict(zip(FURTHER, further(record), strict=True)),
            "issues": list(record.findings),
            "drift_ok": is_ok(record, "drift"),
            "drift": record.drift,
            "steady": record.steady,
        },
        "units": {
            "loss_diff": "relative",
            "loss_diff_abs": "absolute",
            "memory": "MB",
            "time": "ms",
        },
        "timestamp": datetime.now().isoformat(timespec="seconds"),
        "verdicts": [to_plain(verdict) for verdict in record.verdicts],
    }
    result: dict[str, Any] = to_plain(plain)
    return result


def _side_metrics(record: IterationRecord, run: RunRecord | None) -> dict[str, Any]:
    if run is None:
        return {"loss": None, "memory": None, "time": None, "error_info": None}
    metrics = run.metrics
    return {
        "loss": last_loss(run),
        "memory": metrics.memory_mb,
        "time": run_time_ms(metrics, record.kind),
        "error_info": to_plain(run.error or run.teardown_error),
        "losses": metrics.losses,
        "grad_norms": metrics.grad_norms,
        "step_time_ms": metrics.step_time_ms,
        "sources": metrics.sources,
        "curves": run.curves,
        "noise": run.noise,
    }


def _report(record: IterationRecord) -> str:
    lines = [f"# {record.model}, iteration {record.iteration}: {record.status}", ""]
    if record.reason:
        lines += [record.reason, ""]
    lines += ["## Components", ""]
    lines += [f"- {name}: {value}" for name, value in _components(record).items()]
    if record.mutation is not None:
        lines += ["", "## Mutation", ""]
        lines += [
            f"- `{edit.path}`: {json.dumps(edit.old)} -> {json.dumps(edit.new)}"
            for edit in record.mutation.edits
        ]
    lines += _machines(record)
    lines += ["", "## Verdicts", ""]
    lines += [
        f"- {v.name}: {v.result}" + (f" ({v.reason})" if v.reason else "") for v in record.verdicts
    ] or ["- none"]
    if record.findings:
        lines += ["", "## Findings", ""]
        lines += [f"- {finding}" for finding in record.findings]
    lines += ["", "## Attempts before this one", ""]
    lines += [f"- {a.number}: {a.verdict}: {a.reason}" for a in record.attempts] or ["- none"]
    return "\n".join(lines) + "\n"


def _write_failure(folder: Path, record: IterationRecord) -> None:
    components = _components(record)
    if "FAIL" not in components.values():
        return
    flag = " ".join(f"{name}={value}" for name, value in components.items())
    failed = ", ".join(name for name, value in components.items() if value == "FAIL")
    reason = record.reason or "; ".join(record.failing)
    write_whole(folder / "FAILED_FLAG", flag + "\n")
    write_whole(folder / "failure_info.txt", f"FAILED_COMPONENTS: {failed}\nREASON: {reason}\n")
