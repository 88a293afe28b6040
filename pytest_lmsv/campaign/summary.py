"""The files that sum a campaign up: JSON, CSV and Markdown (DESIGN 6.4)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from statistics import fmean
from typing import Any

from pytest_lmsv.campaign import archive
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.stored import to_plain
from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.judge.counts import count, has_issue
from pytest_lmsv.judge.findings import short_text
from pytest_lmsv.judge.verdicts import run_time_ms
from pytest_lmsv.launch import ascend
from pytest_lmsv.mutation.coverage import Coverage, coverage
from pytest_lmsv.option_values import VERDICTS
from pytest_lmsv.records import IterationRecord, RunRecord

COLUMNS = (
    "model",
    "iteration",
    "pta_success",
    "msa_success",
    "pta_loss",
    "pta_memory_mb",
    "pta_time_ms",
    "msa_loss",
    "msa_memory_mb",
    "msa_time_ms",
    "accuracy_ok",
    "memory_ok",
    "perf_ok",
    "output_ok",
    "loss_diff",
    "memory_diff",
    "time_diff",
    "output_diff",
    "issues",
)


def write(campaign: Campaign) -> None:
    """Write every summary of what is stored of *campaign* now."""
    records = list(archive.stored_iterations(campaign.folder))
    rows = [row(record) for record in records]
    summary = {
        "task_type": 6,
        "models": list(campaign.models),
        "device": campaign.settings.device,
        "labels": dict(zip(("baseline", "compare"), campaign.labels, strict=True)),
        "units": {"loss_diff": "relative", "memory": "MB", "time": "ms"},
        "statistics": {
            model: {
                **statistics([r for r in records if r.model == model]),
                "coverage": tried(campaign, model, records).as_plain(),
            }
            for model in campaign.models
        },
    }
    now = datetime.now().isoformat(timespec="seconds")
    write_json(campaign.folder / "data" / "summary.json", {**summary, "iterations": rows})
    write_json(campaign.folder / "data" / "issue_groups.json", issue_groups(records))
    write_whole(campaign.folder / "data" / "iteration_metrics.csv", as_csv(rows))
    write_json(
        campaign.folder / "final_report.json", {**summary, "results": rows, "timestamp": now}
    )
    write_whole(campaign.folder / "analysis" / "summary.md", as_markdown(campaign, records))


def row(record: IterationRecord) -> dict[str, Any]:
    """Return one iteration's figures under the names of COLUMNS; None where there is no figure."""

    def side(run: RunRecord | None) -> tuple[Any, Any, Any]:
        if run is None:
            return None, None, None
        return archive.last_loss(run), run.metrics.memory_mb, run_time_ms(run.metrics, record.kind)

    baseline, compare = record.baseline_run, record.compare_run
    values = [
        record.model,
        record.iteration,
        baseline is not None and baseline.outcome == "ok",
        compare is not None and compare.outcome == "ok",
        *side(baseline),
        *side(compare),
        *(archive.is_ok(record, name) for name in VERDICTS),
        *(archive.difference(record, name) for name in VERDICTS),
        "; ".join(record.findings) or record.reason,
    ]
    plain: dict[str, Any] = to_plain(dict(zip(COLUMNS, values, strict=True)))
    return plain


def statistics(records: Sequence[IterationRecord]) -> dict[str, Any]:
    """Return the counts of DESIGN 5.7 with their rates, and the mean differences."""
    counts = count(records)
    result: dict[str, Any] = {
        **asdict(counts),
        "valid_rate": counts.valid_rate,
        "msa_rate": counts.msa_rate,
    }
    for name, key in zip(VERDICTS, ("loss", "memory", "time", "output"), strict=True):
        values = [
            verdict.difference
            for record in records
            for verdict in record.verdicts
            if verdict.name == name and verdict.difference is not None
        ]
        result[f"avg_{key}_diff"] = fmean(values) if values else None
    return result


def tried(campaign: Campaign, model: str, records: Iterable[IterationRecord]) -> Coverage:
    """Return what the finished iterations of *model* among *records* cover of its space."""
    settings, spec = campaign.settings, campaign.models[model]
    return coverage(
        spec.space(settings.device),
        [
            record.mutation
            for record in records
            if record.model == model and record.status == "DONE" and record.mutation is not None
        ],
        only_fitting_checkpoint=ascend.starts_from_checkpoint(
            model, settings.device, settings.dataset_root, settings.load_path
        ),
    )


def issue_groups(records: Sequence[IterationRecord]) -> dict[str, Any]:
    """Return for each kind of finding how often and in which iterations it was seen."""
    groups: dict[str, Any] = {}
    for record in records:
        for finding in record.findings:
            kind = finding.split(":")[0]
            group = groups.setdefault(kind, {"count": 0, "iterations": [], "severity": "warning"})
            group["count"] += 1
            group["iterations"].append(f"{record.model}-iter{record.iteration}")
    return groups


def as_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Return *rows* as CSV; a missing figure is an empty cell, never 0."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_markdown(campaign: Campaign, records: Sequence[IterationRecord]) -> str:
    """Return a page with the counts and a table of all iterations."""
    settings = campaign.settings
    lines = [
        f"# {', '.join(campaign.models)}: {campaign.labels[0]} against {campaign.labels[1]}",
        "",
        f"Device {settings.device}, {settings.steps} steps, seed {settings.seed}, gate "
        f"{', '.join(settings.gate)}.",
        "",
    ]
    for model in campaign.models:
        counts = count(record for record in records if record.model == model)
        lines.append(f"- {model}: {counts.sentence(campaign.labels[1])}")
        lines.append(f"- {model}: {tried(campaign, model, records).sentence()}")
    lines += [
        "",
        f"| iteration | {' | '.join(VERDICTS)} | issue |",
        "|---|---|---|---|---|---|",
    ]
    for record in records:
        cells = {v.name: short_text(v).partition(" ")[2] for v in record.verdicts}
        issue = "; ".join(record.findings) if has_issue(record) else record.reason
        shown = [cells.get(name, "N/A") for name in VERDICTS]
        name = f"{record.model}-iter{record.iteration}"
        lines.append("| " + " | ".join([name, *shown, _cell(issue)]) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
