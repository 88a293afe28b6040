"""One iteration as a line of a table: the fields of Task6's CSV and JSON, and ours beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from pytest_lmsv.campaign import archive
from pytest_lmsv.campaign.stored import to_plain
from pytest_lmsv.judge.policy import sentence
from pytest_lmsv.judge.verdicts import run_time_ms
from pytest_lmsv.option_values import VERDICTS
from pytest_lmsv.records import IterationRecord, RunRecord

NAMES = {"accuracy": ("accuracy_ok", "loss_diff"), "performance": ("perf_ok", "time_diff")}
"""Task6's names of a verdict and its difference, where they are not the verdict's own."""
OK_COLUMNS = tuple(NAMES.get(name, (f"{name}_ok", ""))[0] for name in VERDICTS)
DIFFERENCES = {name: NAMES.get(name, ("", f"{name}_diff"))[1] for name in VERDICTS}
COLUMNS = (
    "model",
    "iteration",
    "status",
    "pta_success",
    "msa_success",
    "pta_loss",
    "pta_memory_mb",
    "pta_time_ms",
    "msa_loss",
    "msa_memory_mb",
    "msa_time_ms",
    "loss_match",
    *OK_COLUMNS,
    *DIFFERENCES.values(),
    *archive.FURTHER,
    "drift_ratio",
    "issues",
)
UNITS = {
    "loss_diff": "relative to the baseline's loss (0.05 is 5 %)",
    "loss_diff_abs": "absolute difference of the losses, as Task6's loss_diff",
    "memory": "MB of 1024 * 1024 bytes",
    "memory_diff": "MB, compare side minus baseline side",
    "memory_diff_rel": "memory_diff relative to the baseline's memory",
    "time": "ms; training: median of a step without the first; inference: the generation",
    "time_diff": "ms, compare side minus baseline side",
    "time_diff_rel": "time_diff relative to the baseline's time",
    "output_diff": "relative difference of a video, or number of other tokens",
    "drift_diff": "relative difference of the figure that drift names",
    "drift_ratio": "the worst difference of drift in units of its limit",
    "rates": "fractions (0.9 is 90 %)",
    "duration": "seconds of both runs",
}


def row(record: IterationRecord) -> dict[str, Any]:
    """Return one iteration's figures under the names of COLUMNS; None where there is no figure."""
    baseline, compare = record.baseline_run, record.compare_run
    accuracy_ok = archive.is_ok(record, "accuracy")
    values = [
        record.model,
        record.iteration,
        record.status,
        succeeded(baseline),
        succeeded(compare),
        *figures(record, baseline),
        *figures(record, compare),
        accuracy_ok,
        *(archive.is_ok(record, name) for name in VERDICTS),
        *(archive.difference(record, name) for name in VERDICTS),
        *archive.further(record),
        None if record.drift is None else record.drift.ratio,
        "; ".join(record.findings) or record.reason,
    ]
    plain: dict[str, Any] = to_plain(dict(zip(COLUMNS, values, strict=True)))
    return plain


def succeeded(run: RunRecord | None) -> bool:
    """Return whether *run* was made and ran to its end."""
    return run is not None and run.outcome == "ok"


def figures(
    record: IterationRecord, run: RunRecord | None
) -> tuple[float | None, float | None, float | None]:
    """Return loss, memory in MB and time in ms of one side."""
    if run is None:
        return None, None, None
    return archive.last_loss(run), run.metrics.memory_mb, run_time_ms(run.metrics, record.kind)


def as_csv(rows: Iterable[dict[str, Any]]) -> str:
    """Return *rows* as CSV; a missing figure is an empty cell, never 0."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def iteration(record: IterationRecord, line: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of summary.json's ``iterations``; *line* is the record's row."""
    return {
        "iter_num": record.iteration,
        **{name: value for name, value in line.items() if name != "issues"},
        "issues": list(record.findings),
        "reason": record.reason,
        "pta_error": _error(record.baseline_run),
        "msa_error": _error(record.compare_run),
    }


def result(record: IterationRecord, line: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of final_report.json's ``results``; *line* is the record's row."""
    runs = [run for run in (record.baseline_run, record.compare_run) if run is not None]
    sides = {
        f"{side}_metrics": {
            "loss": line[f"{side}_loss"],
            "memory": line[f"{side}_memory_mb"],
            "time": line[f"{side}_time_ms"],
        }
        for side in ("pta", "msa")
    }
    compared = COLUMNS[COLUMNS.index("loss_match") : -1]
    return {
        "iter": record.iteration,
        "model": record.model,
        "success": line["pta_success"] and line["msa_success"],
        **sides,
        "analysis": {
            **{name: line[name] for name in compared},
            "issues": list(record.findings),
        },
        "duration": round(sum(run.seconds for run in runs), 3),
    }


def _error(run: RunRecord | None) -> str | None:
    return sentence(run.error) if run is not None and run.outcome != "ok" else None
