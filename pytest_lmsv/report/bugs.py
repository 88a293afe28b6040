"""detected_bugs/bug_report_<model>_<signature>.md: what a bug tracker asks for, a file a bug."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_lmsv.campaign import judging
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.place import iteration_folder, now_at
from pytest_lmsv.campaign.rows import figures
from pytest_lmsv.campaign.stored_campaign import FIXED
from pytest_lmsv.files import write_whole
from pytest_lmsv.judge.bug_entry import entry
from pytest_lmsv.judge.bugs import Bug
from pytest_lmsv.judge.covering import covers
from pytest_lmsv.judge.findings import Finding
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import IterationRecord, RunError
from pytest_lmsv.report.by_hand import by_hand
from pytest_lmsv.report.markdown import fixes_off, since
from pytest_lmsv.report.marks import fenced, inline, places, table
from pytest_lmsv.settings import repeated
from pytest_lmsv.wording import counted

FOLDER = "detected_bugs"
BEFORE, AFTER, LONGEST = 15, 8, 400
"""Lines of a log around the root error, and how much of each is shown."""
OURS = re.compile(r"bug_report_.+_[0-9a-f]{10}\.md")


def write(
    campaign: Campaign,
    found: Iterable[Bug],
    expected: Mapping[str, Sequence[KnownBug]],
    versions: Mapping[str, Any],
) -> list[tuple[str, str]]:
    """Write a report of every bug and remove those of bugs that are none by these rules.

    Return title and file name of each.
    """
    folder, written = campaign.folder / FOLDER, []
    for bug in found:
        name = f"bug_report_{bug.model}_{bug.signature.id}.md"
        text = page(campaign, bug, expected.get(bug.model, ()), versions)
        write_whole(folder / name, text)
        written.append((title(campaign, bug), name))
    kept = {name for _, name in written}
    for path in folder.glob("*.md"):
        if OURS.fullmatch(path.name) and path.name not in kept:
            path.unlink()
    return written


def title(campaign: Campaign, bug: Bug) -> str:
    """Return one line that says what is wrong, without figures of one run."""
    compare = campaign.labels[1]
    finding = bug.smallest[1]
    if finding.error is not None:
        _, _, type_, message, code, detail, _ = bug.signature.parts
        said = f"{type_}: {message}" if message else type_
        told = f" ({code}: {detail})" if code and detail else f" ({code})" if code else ""
        return f"{bug.model} on {compare}: {said}{told}"
    if finding.verdict is None:
        return f"{bug.model}: {finding.text}"
    keys = bug.signature.parts[2:]
    because = "whatever is mutated" if bug.systematic else f"with {', '.join(keys)}"
    return f"{bug.model} on {compare}: {finding.name} is NG {because}"


def page(
    campaign: Campaign, bug: Bug, expected: Sequence[KnownBug], versions: Mapping[str, Any]
) -> str:
    """Return the report of *bug*."""
    record, finding = bug.smallest
    known = next((k for k in expected if all(covers(k, f) for _, f in bug.seen)), None)
    folder = iteration_folder(campaign.folder, record.model, record.iteration)
    repeat = ["lmsv", "repro", str(folder / "mutation.json"), *repeated(campaign.settings)]
    lines = [f"# {inline(title(campaign, bug))}", ""]
    if known is not None:
        lines += [f"Known bug {inline(known.id)}: {inline(known.title)}.", ""]
    lines += [
        f"Seen in {counted(len(bug.iterations), 'iteration')} ({places(bug.iterations)}) of "
        f"campaign {inline(campaign.folder.name)}. Signature {bug.signature.id}, made of: "
        f"{inline(', '.join(filter(None, bug.signature.parts)))}.",
        "",
        "## Stacks and environment",
        "",
        *_stacks(campaign, record, versions),
        "",
        "## Smallest mutation known",
        "",
        *_mutation(record),
        "",
        "## Expected and actual",
        "",
        *_expected(campaign, finding),
        "",
        "## Figures of both sides",
        "",
        *_figures(campaign, record),
        "",
        *_log(campaign, finding),
        "## Repeat it",
        "",
        "By hand, without pytest:",
        "",
        *fenced(by_hand(campaign, record, finding), "sh"),
        "",
        "With pytest:",
        "",
        *fenced([shlex.join(repeat)], "sh"),
        "",
        "## Entry of known_bugs.yaml",
        "",
        *_entry(campaign, bug),
    ]
    return "\n".join(lines) + "\n"


def _stacks(
    campaign: Campaign, record: IterationRecord, versions: Mapping[str, Any]
) -> Iterator[str]:
    runs = (record.baseline_run, record.compare_run)
    for side, run in zip(campaign.sides, runs, strict=True):
        found = versions.get(side.stack) or (run.versions if run else {}) or {}
        text = ", ".join(f"{name} {number}" for name, number in sorted(found.items()))
        yield f"- {side.label} ({side.stack}): {inline(text) or 'versions unknown'}"
    own = [f"{name} {versions[name]}" for name in ("python", "host") if name in versions]
    yield f"- pytest ran with {inline(', '.join(own)) or 'an unknown Python'}"
    settings = (f"{name} {getattr(campaign.settings, name)}" for name in FIXED)
    yield f"- {inline(', '.join(settings))}"


def _mutation(record: IterationRecord) -> Iterator[str]:
    if record.mutation is None or not record.mutation.edits:
        yield "None: the configuration was not mutated."
        return
    yield f"Of iteration {record.iteration}:"
    yield ""
    for edit in record.mutation.edits:
        old, new = (
            json.dumps(edit.old, ensure_ascii=False),
            json.dumps(edit.new, ensure_ascii=False),
        )
        yield f"- {inline(edit.path)}: {inline(old)} → {inline(new)}"


RULES = {
    "accuracy": "the last loss differs by less than {loss:g} (relative), and is finite",
    "memory": "{compare}'s peak is no more than {baseline}'s (tolerance {memory:g})",
    "performance": "{compare} takes no more time than {baseline} (tolerance {time:g})",
    "output": "both sides make the same output (tolerance {output:g}, {psnr:g} dB)",
    "drift": "{compare}'s figures differ by no more than the noise of {baseline} allows",
    "run": "{compare} runs to its end, as {baseline} does",
    "mutation": "the mutated configuration reaches {compare}, as it reaches {baseline}",
    "loss": "{compare} prints a loss, as {baseline} does",
}


def _expected(campaign: Campaign, finding: Finding) -> Iterator[str]:
    limits, (baseline, compare) = judging.tolerances(campaign.settings), campaign.labels
    rule = RULES.get(finding.name, "the verdict {name} is OK").format(
        loss=limits.loss, memory=limits.memory, time=limits.time, output=limits.output,
        psnr=limits.psnr, baseline=baseline, compare=compare, name=finding.name,
    )  # fmt: skip
    yield f"- expected: {rule}"
    yield f"- actual: {inline(finding.text)}"


def _figures(campaign: Campaign, record: IterationRecord) -> list[str]:
    runs = (record.baseline_run, record.compare_run)
    rows = []
    for label, run in zip(campaign.labels, runs, strict=True):
        found = [_figure(value) for value in figures(record, run)]
        rows.append([label, run.outcome if run else "not run", *found])
    return table(["side", "outcome", "last loss", "peak memory (MB)", "time (ms)"], rows)


def _figure(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.9g}"


def _log(campaign: Campaign, finding: Finding) -> list[str]:
    if finding.error is None:
        return []
    lines = log_lines(campaign.folder, finding.error)
    if not lines and not finding.error.line:
        return []
    place = f", line {finding.error.line_number}" if finding.error.line_number else ""
    name = inline(Path(finding.error.log).name or "its log")
    return [
        f"## The log around the root error ({name}{place})",
        "",
        *fenced(lines or [finding.error.line]),
        "",
    ]


def log_lines(campaign: Path, error: RunError) -> list[str]:
    """Return the lines of the log around *error*; none where the log is gone.

    A campaign that was copied elsewhere has its logs there.
    """
    path = now_at(campaign, Path(error.log))
    if error.line_number is None or not path.is_file():
        return []
    first = max(1, error.line_number - BEFORE)
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            found = list(islice(stream, first - 1, error.line_number + AFTER))
    except OSError:
        return []
    return [line.rstrip("\r\n")[:LONGEST] for line in found]


def _entry(campaign: Campaign, bug: Bug) -> list[str]:
    side = campaign.sides[1]
    found = entry(
        [finding for _, finding in bug.seen],
        bug.signature,
        title=title(campaign, bug),
        model=bug.model,
        stack=side.stack,
        device=campaign.settings.device,
        since=since(campaign),
        fixes_off=fixes_off(campaign),
    )
    if found is None:
        return ["No entry can accept this: there is no figure or error text that bounds it."]
    lines = ["Accepts what was seen here; pasted into known_bugs.yaml beside the models:", ""]
    if side.stack != "msa" or campaign.settings.compare != "pta_msa":
        lines = ["Known bugs apply where the compare side is MSA.", "", *lines]
    return [*lines, *fenced([found.rstrip("\n")], "yaml")]
