"""What an opened row of the HTML report shows: the picture, the figures, the error, the command.

Text for the element that pytest-html keeps its log in, which preserves lines. All of it is escaped;
the picture is a file that the browser reads when the row is opened.
"""

from __future__ import annotations

import glob
import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import islice
from pathlib import Path

from pytest_lmsv.judge.findings import applies, long_text
from pytest_lmsv.records import IterationRecord, RunError, RunRecord
from pytest_lmsv.report import cells
from pytest_lmsv.report.plots import differences, losses
from pytest_lmsv.report.properties import mutation_text

LONGEST = 200
"""Of a line of a log, in characters."""
BEFORE, AFTER = 4, 2
"""Lines of the log around a root error."""
MOST_NOTES = 4


def html(picture: str | None, text: str, rest: str) -> str:
    """Return the details as HTML: *picture* is a relative URL, *rest* is markup already."""
    image = f"<img loading=lazy alt='losses, memory, time' src={picture}>" if picture else ""
    return f"<div class=lmsv-details>{image}<div class=lmsv-text>{escape(text)}{rest}</div></div>"


def text(
    record: IterationRecord, labels: tuple[str, str], limit: float, repeat: str, folder: Path
) -> str:
    """Return the lines of the iteration in *folder*, judged or not testable."""
    return "\n".join(_lines(record, labels, limit, repeat, folder))


def _lines(
    record: IterationRecord, labels: tuple[str, str], limit: float, repeat: str, folder: Path
) -> Iterator[str]:
    if record.reason:
        yield _cut(f"could not be tested: {record.reason}", 600)
    for finding in record.findings:
        yield _cut(finding, 600)
    failed = any(run is None or run.outcome != "ok" for run in sides(record))
    for verdict in record.verdicts:
        said = long_text(verdict, labels)
        told = said in record.findings or (failed and verdict.result == "N/A")
        if applies(verdict) and not told:
            yield _cut(said)
    yield from _first_difference(record, limit)
    if record.drift is not None and record.drift.gradient:
        where = f", in step {record.drift.gradient_step}" if record.drift.gradient_step else ""
        yield _cut(f"first wrong gradient in backward order: {record.drift.gradient}{where}")
    runs = tuple(zip(sides(record), labels, strict=True))
    for run, label in runs:
        error = run.error or run.teardown_error if run is not None else None
        if error is not None:
            yield from _root(error, label, folder)
    edits = mutation_text(record)
    if len(edits) > cells.LONGEST:  # else the row shows them whole
        yield "mutation:"
        yield from (f"  {_cut(edit, 600)}" for edit in edits.split("; "))
    for attempt in record.attempts:
        yield _cut(f"before it, attempt {attempt.number} was {attempt.verdict}: {attempt.reason}")
    yield from _about([(run, label) for run, label in runs if run is not None])
    if record.mutation is not None:
        yield f"repeat: {repeat}"


def _first_difference(record: IterationRecord, limit: float) -> Iterator[str]:
    found = differences(losses(record.baseline_run), losses(record.compare_run))
    differing = [(step, by) for step, by in found if by > 0]
    if found and not differing:
        yield f"losses: equal in all {len(found)} steps that both report"
    if differing:
        step, by = differing[0]
        worst, most = max(differing, key=lambda pair: pair[1])
        line = f"losses: first differ in step {step}, by {_size(by)}"
        line += f"; most in step {worst}: {_size(most)}" if worst != step else ""
        over = next((step for step, by in differing if by >= limit), None)
        yield line + ("" if over is None else f"; at the limit of {limit:g} from step {over} on")


def _size(difference: float) -> str:
    return "a number that is none" if math.isinf(difference) else f"{difference:.2e}"


def sides(record: IterationRecord) -> tuple[RunRecord | None, RunRecord | None]:
    """Return the two runs of *record*."""
    return record.baseline_run, record.compare_run


def _root(error: RunError, label: str, folder: Path) -> Iterator[str]:
    place = [f"rank {error.rank}"] if error.rank is not None else []
    if error.line_number and error.log:
        place.append(f"line {error.line_number} of {Path(error.log).name}")
    late = " while shutting down" if error.phase == "teardown" else ""
    where = f" ({', '.join(place)})" if place else ""
    yield f"{label} root error{late}{where}:"
    around = _around(error, folder)
    yield from around or [f"> {_cut(error.line or error.message)}"]
    for line in error.chain[:MOST_NOTES]:
        yield f"  then: {_cut(line)}"


def _around(error: RunError, folder: Path) -> list[str]:
    """Return the root line in its log with its neighbours; nothing where the log is gone."""
    if not (error.line_number and error.log):
        return []
    log = Path(error.log)
    if not log.exists():  # the campaign was moved
        log = next(folder.glob(f"*/{glob.escape(log.name)}"), log)
    first = max(error.line_number - BEFORE, 1)
    try:
        with log.open(encoding="utf-8", errors="replace") as stream:
            lines = list(islice(stream, first - 1, error.line_number + AFTER))
    except OSError:
        return []
    return [
        f"{'>' if number == error.line_number else ' '} {_cut(line.rstrip())}"
        for number, line in enumerate(lines, start=first)
    ]


def _about(runs: Sequence[tuple[RunRecord, str]]) -> Iterator[str]:
    if runs:
        yield "ran: " + ", ".join(f"{label} {run.seconds:.1f} s" for run, label in runs)
    said = {
        label: ", ".join(f"{name}: {source}" for name, source in run.metrics.sources.items())
        for run, label in runs
    }
    if len(set(said.values())) == 1:
        said = {"both": next(iter(said.values()))}
    for label, sources in said.items():
        if sources:
            yield _cut(f"figures of {label}: {sources}")
    for run, label in runs:
        for note in run.notes[:MOST_NOTES]:
            yield _cut(f"{label} note: {note.text}")


def _cut(line: str, longest: int = LONGEST) -> str:
    return line if len(line) <= longest else f"{line[:longest]}…"
