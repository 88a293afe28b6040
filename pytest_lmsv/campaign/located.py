"""A mutation run again on both sides with recorders, and what `lmsv locate` says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_lmsv.campaign import archive, dumped
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.iteration import run_until_settled
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.run import Runner
from pytest_lmsv.campaign.sides import sides
from pytest_lmsv.campaign.stored import to_plain
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.judge import modules
from pytest_lmsv.judge.locating import Limits, Location, locate
from pytest_lmsv.judge.signature import signature
from pytest_lmsv.mutation import apply
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from pytest_lmsv.records import IterationRecord, RunRecord

HEADING = "## Where the two sides differ first"
DIFFERS = 1e-6
"""A step whose loss or grad norm is away by more is where the search begins."""


def locate_again(
    runner: Runner, spec: ModelSpec, folder: Path, step: int | None = None
) -> Location:
    """Run the mutation of the iteration in *folder* again on both sides and write what differs.

    The runs are kept in ``folder/locate``, the answer in ``locate.json`` and ``locate.md``. *step*
    is the training step to look at, by default the first one that differed. Raises InputProblem
    where there is no finished iteration, EnvironmentProblem where a side does not run.
    """
    record = archive.read_iteration(folder)
    if record is None or record.mutation is None:
        raise InputProblem(
            f"lmsv locate: {folder} holds no iteration with a mutation; name a folder iter_N"
        )
    steps = (step,) if step else looked_at(record)
    if max(steps) > runner.settings.steps:
        raise InputProblem(
            f"lmsv locate: --step {max(steps)}: the campaign ran {runner.settings.steps} steps"
        )
    place = Place(folder / "locate", "locate")
    place.clear()
    documents = apply.apply(spec.documents(runner.settings.device), record.mutation.edits)
    place.write_inputs(documents, spec.stack_overrides)
    runner.write_datasets(spec)
    runner = replace(runner, further={"LMSV_LOCATE": ",".join(map(str, steps))})
    both = sides(runner.settings.compare)
    for side in both:
        run = run_until_settled(runner, spec, side, place)
        if run.outcome != "ok":
            told = run.error.message if run.error else run.outcome
            raise EnvironmentProblem(
                f"lmsv locate: {side.label} ended before its work was done ({told}); modules are "
                f"compared where both sides run; log: {place.log(side)}"
            )
    ours, theirs = (place.kept(side, "record") for side in both)
    if runner.settings.device == "npu":
        found = dumped.compared(runner.environments[both[0].stack], ours, theirs, place.folder)
    else:
        found = locate(_read(ours), _read(theirs))
    _write(folder, record, found, (both[0].label, both[1].label))
    place.remove_weights()
    return found


def looked_at(record: IterationRecord) -> tuple[int, ...]:
    """Return the training steps to record: the first, the first that differs and the one before.

    An inference is recorded whole.
    """
    if record.kind == "inference":
        return (1,)
    first = first_differing(record.baseline_run, record.compare_run) or 1
    return tuple(sorted({1, max(1, first - 1), first}))


def first_differing(baseline: RunRecord | None, compare: RunRecord | None) -> int | None:
    """Return the first step whose loss or grad norm differs, by the most exact figures."""
    found = []
    for ours, theirs in zip(_curves(baseline), _curves(compare), strict=True):
        other = dict(theirs)
        found += [
            step
            for step, value in ours
            if step in other and not modules.relative(value, other[step]) <= DIFFERS
        ]
    return min(found, default=None)


def _curves(run: RunRecord | None) -> tuple[Sequence[tuple[int, float]], ...]:
    if run is None:
        return (), ()
    if run.curves:
        return run.curves[0].losses, run.curves[0].grad_norms
    return run.metrics.losses, run.metrics.grad_norms


def _read(folder: Path) -> tuple[modules.Step, ...]:
    path = folder / "modules_0.jsonl"
    try:
        return modules.read(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise EnvironmentProblem(
            f"lmsv locate: {path}: {problem.strerror}: this launcher does not record modules "
            "(LMSV_LOCATE, docs/locate.md)"
        ) from None


PLACED = ("accuracy", "drift", "output")
"""The findings that have a first place; memory and time have none."""


def for_new_signature(runner: Runner, campaign: Campaign, record: IterationRecord) -> str | None:
    """Locate *record*'s findings where none of their signatures was located in this campaign yet.

    Returns the sentence to tell, None where nothing is new or a side did not run. Called by any
    worker: a marker file keeps others from doing the same.
    """
    if record.compare_run is None or record.compare_run.outcome != "ok":
        return None
    marks = campaign.folder / "live"
    marks.mkdir(exist_ok=True)
    new = [
        name
        for finding in campaign.failing(record)
        if finding.name in PLACED
        and _marked(marks / f"located-{(name := signature(finding, record).id)}")
    ]
    if not new:
        return None
    spec = campaign.models[record.model]
    folder = campaign.folder / "iters" / record.model / f"iter_{record.iteration}"
    try:
        found = locate_again(runner, spec, folder)
    except (EnvironmentProblem, InputProblem) as problem:
        return str(problem)
    return f"{record.model}-iter{record.iteration} located: {found.sentence}"


def _marked(path: Path) -> bool:
    """Make the empty file *path*; False where it is there."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _write(folder: Path, record: IterationRecord, found: Location, labels: tuple[str, str]) -> None:
    assert record.mutation is not None
    plain: dict[str, Any] = {
        "schema": 1,
        "model": record.model,
        "iteration": record.iteration,
        "edits": apply.to_json(record.mutation)["edits"],
        "labels": list(labels),
        "limits": Limits(),
        **to_plain(found),
    }
    write_json(folder / "locate.json", to_plain(plain))
    write_whole(folder / "locate.md", page(record, found, labels))
    report = folder / "report.md"
    if report.exists():
        text = report.read_text(encoding="utf-8").partition(f"\n{HEADING}")[0]
        told = f"\n{HEADING}\n\n{found.sentence}\n\n[locate.md](locate.md)\n"
        write_whole(report, text + told)


def page(record: IterationRecord, found: Location, labels: tuple[str, str]) -> str:
    """Return locate.md."""
    assert record.mutation is not None
    lines = [
        f"# {record.model}, iteration {record.iteration}: where {labels[0]} and {labels[1]} differ "
        "first",
        "",
        found.sentence + ".",
        "",
        *(
            f"- `{edit.path}`: {json.dumps(edit.old)} -> {json.dumps(edit.new)}"
            for edit in record.mutation.edits
        ),
        "",
        "| | |",
        "|---|---|",
        f"| kind | {found.kind} |",
        f"| steps looked at | {', '.join(map(str, found.steps))} |",
        f"| name | `{found.name or '-'}` |",
    ]
    if found.measure:
        lines += [
            f"| {found.measure} of {labels[0]} | {found.baseline} |",
            f"| {found.measure} of {labels[1]} | {found.compare} |",
            f"| relative difference | {found.relative:.2e} |",
        ]
    lines += [
        f"| still right before it | {_list(found.right)} |",
        f"| differ after it | {_list(found.then)} |",
        f"| compared | {found.compared}, of which {found.differing} differ |",
        f"| on one side only, not compared | {len(found.unmatched)}: "
        f"{_list(found.unmatched[:10])} |",
        "",
        "Recordings and logs of these two runs: `locate/`. docs/locate.md says how to read this.",
    ]
    return "\n".join(lines) + "\n"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"
