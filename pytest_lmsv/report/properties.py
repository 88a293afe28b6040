"""JUnit properties of a test: strings, in a fixed order, so that dashboards can rely on them.

They are appended to ``user_properties``: ``record_property`` warns under xunit2, and a value that
is no string breaks xdist.
"""

from __future__ import annotations

import json

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.place import iteration_folder
from pytest_lmsv.records import IterationRecord, Verdict

DIFFERENCE = {"accuracy": "diff", "memory": "diff_mb", "performance": "diff_ms", "output": "diff"}


def properties(campaign: Campaign, model: str, number: int) -> list[tuple[str, str]]:
    """Return the properties of an iteration as it is stored."""
    folder = iteration_folder(campaign.folder, model, number)
    record = campaign.record(model, number)
    values = [
        ("lmsv.model", model),
        ("lmsv.iteration", str(number)),
        ("lmsv.device", campaign.settings.device),
        ("lmsv.compare", campaign.settings.compare),
        ("lmsv.folder", str(folder)),
    ]
    if record is not None:
        values += _figures(record)
    return values


def _figures(record: IterationRecord) -> list[tuple[str, str]]:
    by_name = {verdict.name: verdict for verdict in record.verdicts}
    values = [("lmsv.status", record.status)]
    for name, suffix in DIFFERENCE.items():
        verdict = by_name.get(name)
        values.append((f"lmsv.{name}", verdict.result if verdict else "N/A"))
        values.append((f"lmsv.{name}.{suffix}", _number(verdict)))
    values += [
        ("lmsv.mutation", mutation_text(record)),
        ("lmsv.redraws", str(len(record.attempts))),
        ("lmsv.finding", "; ".join(record.findings) or record.reason),
    ]
    error = record.compare_run.error if record.compare_run else None
    values.append(("lmsv.known_bug", (error.known_bug if error else None) or ""))
    values.append(("lmsv.error", error.line if error else ""))
    values.append(("lmsv.kind", record.kind))
    made = by_name.get("output")
    values.append(("lmsv.output.unit", made.unit if made else ""))
    return values + _drift(record, by_name.get("drift"))


def _drift(record: IterationRecord, verdict: Verdict | None) -> list[tuple[str, str]]:
    """Return the properties of the verdict drift: where it is first seen, and how much."""
    found = record.drift
    figures = {
        "": verdict.result if verdict else "N/A",
        ".ratio": "" if found is None or found.ratio is None else f"{found.ratio:.3g}",
        ".step": str(found.step) if found and found.step is not None else "",
        ".quantity": found.quantity if found else "",
        ".gradient": found.gradient if found else "",
        ".reason": found.reason if found else "",
    }
    return [(f"lmsv.drift{name}", text) for name, text in figures.items()]


def mutation_text(record: IterationRecord) -> str:
    """Return the edits as ``/args/lr: 1e-05 -> 2e-05``, separated by semicolons."""
    if record.mutation is None:
        return ""
    return "; ".join(
        f"{edit.path}: {json.dumps(edit.old)} -> {json.dumps(edit.new)}"
        for edit in record.mutation.edits
    )


def _number(verdict: Verdict | None) -> str:
    if verdict is None or verdict.difference is None:
        return ""
    return f"{verdict.difference:.9g}"
