"""Stored campaigns, made in a moment: the reports are written of them without any run."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_lmsv import catalog
from pytest_lmsv.campaign import archive
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.place import Place, iteration_folder
from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.records import Edit, IterationRecord, Metrics, Outcome, RunError, RunRecord, Stack
from pytest_lmsv.settings import resolve
from tests_selftest.judge.made import iteration, untested
from tests_selftest.plugin.conftest import make_project

VERSIONS = {
    "python": "3.11.7",
    "host": "node-1",
    "pta": {"torch": "2.13.0", "numpy": "1.26.4"},
    "msa": {"mindspore": "2.7.1", "mindnlp": "0.5.1", "numpy": "1.26.4"},
}
NAN = float("nan")
SCRIPT = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"
"""Markup that would run where it is not escaped."""


def store(root: Path, folder: Path, records: Iterable[IterationRecord]) -> None:
    """Make a project in *root* and store a campaign of *records* of its toy model in *folder*."""
    make_project(root)
    with (root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("render_collapsed = all\ninitial_sort = original\n")
    model = catalog.load([root / "models"])["toy"]
    settings = resolve(root, [], npu_devices=())
    campaign = Campaign(settings, {"toy": model}, folder)
    kept = list(records)
    numbers = [(record.model, record.iteration) for record in kept]
    campaign.begin(VERSIONS, numbers, f"pytest --model toy --iters {len(kept)}")
    for record in kept:
        _store(campaign, record)


def _store(campaign: Campaign, record: IterationRecord) -> None:
    folder = iteration_folder(campaign.folder, record.model, record.iteration)
    place = Place(folder, f"iter{record.iteration}")
    runs: list[RunRecord | None] = []
    for side, run in zip(campaign.sides, (record.baseline_run, record.compare_run), strict=True):
        if run is None:
            runs.append(None)
            continue
        log, error = place.log(side), run.error
        lines = [f"iteration {step}/ 5 | loss: {loss:.6E} |" for step, loss in run.metrics.losses]
        if error is not None:
            lines += ["Traceback (most recent call last):", '  File "train.py", line 3', error.line]
            error = replace(error, line_number=len(lines), log=str(log))
        write_whole(log, "\n".join([*lines, "end of the log", ""]))
        runs.append(replace(run, error=error, logs=(str(log),)))
    record = replace(record, baseline_run=runs[0], compare_run=runs[1])
    if record.mutation is not None:
        archive.write_mutation(folder, record.mutation)
        if record.iteration == 1:
            write_whole(folder / "samples" / "pta" / "<b>frame & 1.txt", "a sample")
        documents = {edit.path: edit.new for edit in record.mutation.edits}
        write_json(place.inputs / "mutation_config.json", documents)
    archive.write_iteration(folder, record)


def figures(
    stack: Stack,
    losses: Iterable[float],
    memory: float | None,
    ms: float,
    error: RunError | None = None,
) -> RunRecord:
    """A run with these figures, one loss for each step."""
    curve = tuple(enumerate(losses, start=1))
    metrics = Metrics(
        losses=curve,
        step_time_ms=tuple((step, ms) for step, _ in curve),
        memory_mb=memory,
        sources={"losses": "log", "memory_mb": "rss, completion records"},
    )
    outcome: Outcome = "ok" if error is None else "error"
    return RunRecord(stack, 1, outcome, error is None, metrics, error, seconds=ms / 100)


def curve(number: int, factor: float = 1.0, steps: int = 5) -> list[float]:
    """A falling curve that is another one for each *number*; the last loss is off by *factor*."""
    chance = random.Random(number)
    losses = [2.5 / (step**0.3) + chance.uniform(-0.05, 0.05) for step in range(1, steps + 1)]
    return [loss * (1 + (factor - 1) * step / steps) for step, loss in enumerate(losses, start=1)]


def fine(
    number: int, factor: float = 1.0, memory: float = -2.5, ms: float = -3.0
) -> IterationRecord:
    """An iteration whose two sides are as different as is said."""
    edits = (
        Edit("/model/predictor/num_layers", 42, 2 + number % 8),
        Edit("/args/lr", 1e-5, (1 + number % 5) * 1e-6),
    )
    return iteration(
        number,
        edits=edits,
        pta=figures("pta", curve(number), 36562.25, 120.0),
        msa=figures("msa", curve(number, factor), 36562.25 + memory, 120.0 + ms),
    )


def failed(
    number: int, message: str, category: str, known_bug: str | None = None
) -> IterationRecord:
    """An iteration whose compare side ended with an error."""
    line = f"RuntimeError: {message}"
    error = RunError("RuntimeError", message, category, 3, line, known_bug=known_bug)
    record = fine(number)
    run = figures("msa", curve(number)[:2], 36552.0, 118.0, error)
    assert record.mutation is not None
    return iteration(number, edits=record.mutation.edits, pta=record.baseline_run, msa=run)


def mixed() -> list[IterationRecord]:
    """Twelve iterations with every kind of end; what they say holds markup that would run."""
    nan = iteration(
        5,
        pta=figures("pta", curve(5), 36562.25, 120.0),
        msa=figures("msa", [*curve(5)[:3], NAN, NAN], 36542.0, 118.0),
        edits=(Edit("/args/clip-grad", 1.0, f"0'{SCRIPT}"), Edit("/model/width", 1, 4)),
        discarded=("invalid", "no effect"),
    )
    return [
        fine(1, 1.0173),
        fine(2, 1.0, memory=-2771.72),
        fine(3, 1.0649),
        fine(4, 1.002, memory=-10.0, ms=1198.4),
        nan,
        failed(6, f"Sync stream failed: {SCRIPT}", "device_exception"),
        failed(7, "The dims cannot be larger than 8 dimensions", "aclnn_param", "toy-ez1001"),
        fine(8, 1.0, memory=163.25, ms=12.5),
        untested(9, f"MSA could not run: no space left {SCRIPT}"),
        fine(10, 1.00002),
        fine(11, 1.0),
        failed(12, "Sync stream failed: device 3", "device_exception"),
    ]


def report(root: Path, campaign: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Write the reports of *campaign* in the project in *root*."""
    words = [f"--lmsv-analyze={campaign}", "-p", "no:cacheprovider", "-q", *arguments]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=root, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
