"""What the HTML report says above its table: how it ended, the problem classes, what ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.summary import Summary
from pytest_lmsv.judge.classes import VERDICT_TITLES, ProblemClass
from pytest_lmsv.judge.counts import count
from pytest_lmsv.records import IterationRecord
from pytest_lmsv.report.cells import anchor
from pytest_lmsv.report.markdown import nothing_found
from pytest_lmsv.report.marks import ranges
from pytest_lmsv.wording import counted

OUTCOMES = {
    "failed": "failed",
    "error": "could not be tested",
    "xpassed": "passed against expectation",
    "xfailed": "known bugs only",
    "passed": "passed",
    "skipped": "skipped",
}
BAD = ("failed", "error", "xpassed")
SHOWN = 30
"""Iterations of a class that are named at once; the others unfold."""


@dataclass
class Session:
    """What the report has been told so far."""

    campaign: Campaign
    stored: Mapping[str, Any] = field(default_factory=dict)
    """campaign.json: versions and command are those of the campaign, not of its analysis."""
    wanted: int = 0
    """Tests that were collected."""
    outcomes: dict[str, int] = field(default_factory=dict)


def html(session: Session, summary: Summary) -> str:
    """Return the markup above the table; every name and value in it is escaped."""
    gate = session.campaign.settings.gate
    free = [name for name in VERDICT_TITLES if name not in gate]
    found = summary.classes
    told = _classes(found, free) if found else _nothing_found(session, summary)
    classes = f"{told}{_muted(free)}"
    return (
        f"{_ending(session, summary)}<div class=lmsv-overview>"
        f"<section><h2>Problem classes</h2>{classes}</section>"
        f"<section><h2>What ran</h2>{_what_ran(session, summary.records)}</section></div>"
    )


def _ending(session: Session, summary: Summary) -> str:
    records, done = summary.records, sum(session.outcomes.values())
    bad = sum(session.outcomes.get(name, 0) for name in BAD)
    parts = [
        f"<span data-outcome={name}>{session.outcomes[name]} {text}</span>"
        for name, text in OUTCOMES.items()
        if session.outcomes.get(name)
    ]
    open_ = "" if done >= session.wanted else f" of {session.wanted} ended, the others did not"
    labels = session.campaign.labels
    counts = [
        f"<li>{escape(model)}: "
        f"{escape(count(r for r in records if r.model == model).sentence(labels[1]))}"
        f"{_damaged(summary.damaged_of(model))}</li>"
        for model in session.campaign.models
    ]
    return (
        f"<div class=lmsv-ending data-bad={int(bool(bad) or done < session.wanted)}>"
        f"<p>{done} {'test' if done == 1 else 'tests'}{open_}{': ' if parts else ''}"
        f"{', '.join(parts)}</p>"
        f"<ul>{''.join(counts)}</ul></div>"
    )


def _damaged(numbers: Sequence[int]) -> str:
    return f"; damaged and in no figure: iteration {ranges(numbers)}" if numbers else ""


def _nothing_found(session: Session, summary: Summary) -> str:
    left = max(0, session.wanted - sum(session.outcomes.values()))
    return f"<p>{nothing_found(summary.records, len(summary.damaged) + left)}</p>"


def _muted(free: Sequence[str]) -> str:
    """Return the style of verdicts outside the gate: an NG there is told, not shouted."""
    cells = ",".join(f"td.col-lmsv_{name}[data-verdict=ng]" for name in free)
    return f"<style>{cells}{{background:none;font-weight:normal}}</style>" if free else ""


def _classes(classes: Sequence[ProblemClass], free: Sequence[str]) -> str:
    note = dict.fromkeys(free, " <small>not in the gate</small>")
    rows = "".join(
        f"<tr><th><button type=button data-class>{escape(found.title)}</button>"
        f"{note.get(found.id, '')}</th>"
        f"<td>{found.count}</td><td>{_places(found.iterations)}</td></tr>"
        for found in classes
    )
    return (
        f"<table class=lmsv-classes>{rows}</table>"
        "<p id=lmsv-filter>A class filters the table, a number jumps to its row.</p>"
    )


def _places(places: Sequence[tuple[str, int]]) -> str:
    shown, more = _links(places[:SHOWN]), places[SHOWN:]
    if not more:
        return shown
    return f"{shown}<details><summary>{len(more)} more</summary>{_links(more)}</details>"


def _links(places: Iterable[tuple[str, int]]) -> str:
    by_model: dict[str, list[int]] = {}
    for model, number in places:
        by_model.setdefault(model, []).append(number)
    return "<br>".join(
        f"{escape(model)} "
        + " ".join(f"<a href=#{anchor(model, number)}>{number}</a>" for number in numbers)
        for model, numbers in by_model.items()
    )


def _what_ran(session: Session, records: Sequence[IterationRecord]) -> str:
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in _facts(session, records)
    )
    return f"<table class=lmsv-facts>{rows}</table>"


def _facts(session: Session, records: Sequence[IterationRecord]) -> Iterator[tuple[str, str]]:
    campaign = session.campaign
    settings, versions = campaign.settings, session.stored.get("versions", {})
    yield "Models", ", ".join(campaign.models)
    yield "Sides", f"{campaign.labels[0]} (baseline) against {campaign.labels[1]}"
    for stack in dict.fromkeys(settings.sides):
        yield f"Stack {stack.upper()}", _versions(versions.get(stack))
    stand_in = ": small networks; mindtorch stands in for msadapter"
    yield "Device", f"{settings.device}{stand_in if settings.device == 'cpu' else ''}"
    runs = (run for r in records for run in (r.baseline_run, r.compare_run) if run)
    yield "Nodes", ", ".join(map(str, sorted({run.nodes for run in runs}))) or "none ran"
    yield "Host", f"{versions.get('host', '?')}, Python {versions.get('python')}"
    yield "Seed", str(settings.seed)
    yield "Steps", str(settings.steps)
    yield "Edits of a mutation", str(settings.mutations)
    yield "Gate", " ".join(settings.gate)
    yield (
        "Tolerances",
        f"loss {settings.loss_tolerance:g}, memory {settings.memory_tolerance:g}, time "
        f"{settings.time_tolerance:g} (relative)",
    )
    noise = f"{counted(settings.noise, 'noise run')} of the baseline"
    yield "Drift", f"limit {settings.drift_factor:g} x the floor, {noise}"
    for spec in campaign.models.values():
        for stack, changes in spec.stack_overrides.items():
            if changes:
                yield f"Only on {stack.upper()}, {spec.name}", json.dumps(changes, default=dict)
    yield "Folder", str(campaign.folder)
    if session.stored.get("command"):
        yield "Command", str(session.stored["command"])


def _versions(found: Any) -> str:
    if not isinstance(found, Mapping) or not found:
        return "versions unknown"
    return ", ".join(f"{name} {number}" for name, number in found.items())
