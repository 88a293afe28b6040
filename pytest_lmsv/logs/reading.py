"""All files of one run, read as one: figures, steps, the root error (DESIGN 5.1, 5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_lmsv.logs import belonging, categories, roots
from pytest_lmsv.logs.completion import Exact, read_record
from pytest_lmsv.logs.ending import ending
from pytest_lmsv.logs.file import LogFile, Reader
from pytest_lmsv.logs.runs import Run
from pytest_lmsv.logs.steps import FIGURES, Steps
from pytest_lmsv.logs.text import line_number
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Completion, Kind, Metrics, Note, RunError, Stack

_MOST_NOTES = 20
_LONG = 10000


@dataclass(frozen=True, slots=True)
class Reading:
    """What the logs (and completion records) of one run say."""

    metrics: Metrics
    """Figures as printed in the logs; memory and generation time from completion records too."""
    error: RunError | None = None
    """The root error; its phase says whether the work was complete before it."""
    notes: tuple[Note, ...] = ()
    completions: tuple[Completion, ...] = ()
    steps: Sequence[int] = ()
    """Steps with a record, with or without a loss."""
    asked: int | None = None
    """Asked steps: as given, else M of the log's own ``iteration N/ M``."""
    complete: bool | None = None
    nan_steps: tuple[int, ...] = ()
    """Steps whose loss is missing because it was NaN."""
    exact: Exact = field(default_factory=Exact)
    """Full precision, from ``record/steps_<k>.jsonl``."""
    last_warning: str = ""
    last_line: str = ""
    logs: tuple[str, ...] = ()


def read(
    paths: Sequence[Path],
    *,
    stack: Stack | None = None,
    kind: Kind | None = None,
    steps: int | None = None,
    record: Path | Sequence[Path] | None = None,
    run_id: str | None = None,
    since: float | None = None,
    failed: bool | None = None,
    patterns: Sequence[Path] = (),
) -> Reading:
    """Read the files of one run (a folder stands for the logs in it).

    *since*: when the run began (seconds since the epoch); files that were last written before are
    left out. *failed*: what the exit status says, where there is one. *patterns*: files of own
    patterns. Raises InputProblem for a file that can't be read.
    """
    extra = categories.needles(patterns)
    notes: list[Note] = []
    files = [_read_file(path, extra) for path in _expand(paths)]
    kept, left_out = belonging.of_this_run(files, since)
    notes += [Note("left_out", text) for text in left_out]
    completions, exact = read_record(record, run_id, notes)

    inference = kind == "inference" or (
        kind is None
        and not any(file.last.records for file in kept)
        and any(file.last.inference for file in kept)
    )
    records = Steps() if inference else _steps(kept)
    numbers = records.numbers()
    asked = steps
    if asked is None and numbers:
        asked = next((entry.steps for entry in records.likes() if entry.steps), None)
    complete = _complete(inference, numbers, steps, asked, completions, record is not None)
    error, order, dropped = _error(kept, files, tuple(patterns), complete, failed)
    notes += dropped
    metrics, nan_steps = _metrics(kept, records, inference, steps, completions, order)
    if nan_steps:
        shown = ", ".join(map(str, nan_steps[:20]))
        notes.append(Note("nan_loss", f"no loss printed, but NaN: step {shown}"))
    notes += [Note("cut", f"incomplete record not read: {file.last.cut}")
              for file in kept if file.last.cut]  # fmt: skip
    endings = [ending(file.path) for file in kept] if error is None else []
    return Reading(
        metrics=metrics,
        error=error,
        notes=tuple(notes),
        completions=completions,
        steps=numbers,
        asked=asked,
        complete=complete,
        nan_steps=nan_steps,
        exact=exact,
        last_warning=next((warning for warning, _ in endings if warning), ""),
        last_line=next((line for _, line in endings if line), ""),
        logs=tuple(str(file.path) for file in kept),
    )


def _expand(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(entry for entry in path.rglob("*.log") if entry.is_file())
            if not inside:
                raise InputProblem(f"{path}: no *.log in this folder; name log files")
            found += inside
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def _read_file(path: Path, extra: Sequence[bytes]) -> LogFile:
    try:
        return Reader(path, extra).read()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputProblem(f"{path}: log can't be read ({reason}); name a log file") from None


def _steps(files: Sequence[LogFile]) -> Steps:
    """The step records of the rank that prints the loss, each step once."""
    streams: list[tuple[int, int, int, Steps]] = []
    for file in files:
        for rank, found in file.last.records.items():
            own = rank if rank is not None else file.rank
            streams.append((found.count("loss"), len(found), -1 if own is None else own, found))
    return max(streams, key=lambda entry: entry[:3])[3] if streams else Steps()


def _complete(
    inference: bool,
    numbers: Sequence[int],
    steps: int | None,
    asked: int | None,
    completions: Sequence[Completion],
    with_record: bool,
) -> bool | None:
    if not inference and numbers and asked is not None:
        if steps is not None:
            return len(numbers) >= steps
        stride = numbers[1] - numbers[0] if len(numbers) > 1 else 1
        return numbers[-1] >= asked and len(numbers) >= (asked - numbers[0]) // stride + 1
    if not inference and steps is not None and not with_record:
        return False
    if with_record:
        ranks = {entry.rank for entry in completions}
        world = max((entry.world_size for entry in completions), default=0)
        done = bool(completions) and len(ranks) >= world
        return done and (inference or steps is None)
    return None


def _error(
    kept: Sequence[LogFile],
    files: Sequence[LogFile],
    patterns: tuple[Path, ...],
    complete: bool | None,
    failed: bool | None,
) -> tuple[RunError | None, Mapping[int, int], list[Note]]:
    """The root error, where it stands in each file, and notes on what was dropped."""
    notes: list[Note] = []
    suspicious = any(
        run.collector.candidates or run.collector.suspects
        for file in files
        for run in (*file.earlier, file.last)
    )
    if not suspicious:
        return None, {}, notes
    known = categories.load(patterns)
    found: list[roots.Root] = []
    for file in kept:
        offered, dropped = roots.settle(file, file.last, known, failed=failed)
        found += offered
        notes += [
            Note("cut" if reason.startswith("cut") else "benign", f"{line[:300]} ({reason})")
            for line, reason in dropped
        ]
        for run in file.earlier:
            stale, _ = roots.settle(file, run, known, failed=None)
            if stale:
                old = roots.first(stale)
                notes.append(Note("stale_error", f"an earlier run in {file.path.name}: {old.line}"))
    if not found:
        return None, {}, list(dict.fromkeys(notes))[:_MOST_NOTES]
    root = roots.first(found)
    after = _after_work(root, kept) if complete else False
    orders = {id(root.file): root.candidate.order}
    return (
        RunError(
            type=root.type,
            message=root.message[:4000],
            category=root.category,
            rank=roots.rank_of_root(root, kept),
            line=root.line,
            line_number=line_number(
                root.file.path, root.candidate.raw.offset, root.candidate.raw.below
            ),
            phase="teardown" if after else "run",
            log=str(root.file.path),
            chain=tuple(text[:1000] for text in root.texts[:30]),
        ),
        orders if not after else {},
        list(dict.fromkeys(notes))[:_MOST_NOTES],
    )


def _after_work(root: roots.Root, kept: Sequence[LogFile]) -> bool:
    """Whether the error came after the last step (known by place, or assumed of another file)."""
    run = root.file.last
    last = max(run.records_at, default=None)
    return last is None or root.candidate.order > last


def _metrics(
    kept: Sequence[LogFile],
    records: Steps,
    inference: bool,
    steps: int | None,
    completions: Sequence[Completion],
    error_at: Mapping[int, int],
) -> tuple[Metrics, tuple[int, ...]]:
    sources: dict[str, str] = {}
    losses, norms, times = (_curve(records, name) for name in FIGURES)
    runs = [(file.last, error_at.get(id(file))) for file in kept]
    footers = [
        found for run, limit in runs for order, found in run.footers
        if limit is None or order < limit
    ]  # fmt: skip
    if losses:
        keys = {entry.loss_key for entry in records.likes() if entry.loss_key}
        sources["losses"] = f"log, key {sorted(keys)[0]}"
    if not times:
        means = next((run.mean_times for run, _ in runs if run.mean_times), {})
        times = tuple(sorted(means.items()))
    if not inference and not records:
        at = steps or 1
        last = {found.what: found.value for found in footers}
        if "loss" in last:
            losses, sources["losses"] = ((at, last["loss"]),), "log, summary line"
        if "time" in last and not times:
            times, sources["step_time_ms"] = ((at, last["time"]),), "log, summary line"
    if times:
        sources.setdefault("step_time_ms", "log")
    memory, sources["memory_mb"] = _memory(runs, footers, completions)
    if memory is None:
        del sources["memory_mb"]
    generation = [entry.generation_s for entry in completions if entry.generation_s is not None]
    if generation:
        sources["generation_s"] = "completion records"
    nan_steps = tuple(records.nan_losses())
    metrics = Metrics(
        losses=losses,
        grad_norms=norms,
        step_time_ms=times,
        memory_mb=memory,
        generation_s=max(generation, default=None),
        sources=sources,
    )
    return metrics, nan_steps


def _curve(records: Steps, name: str) -> Sequence[tuple[int, float]]:
    """Step and figure; of a very long run, pairs that are made when they are asked for."""
    pairs = records.curve(name)
    return tuple(pairs) if len(pairs) <= _LONG else pairs


def _memory(
    runs: Sequence[tuple[Run, int | None]],
    footers: Sequence[Any],
    completions: Sequence[Completion],
) -> tuple[float | None, str]:
    recorded = [entry for entry in completions if entry.memory_mb is not None]
    if recorded:
        kinds = sorted({entry.memory_kind or "unknown" for entry in recorded})
        highest = max(entry.memory_mb or 0.0 for entry in recorded)
        return highest, f"{', '.join(kinds)}, completion records"
    peaks = [run.memory for run, _ in runs if run.memory is not None]
    peaks += [found.value for found in footers if found.what == "peak"]
    if peaks:
        return max(peaks), "allocated, log"
    totals = [found.value for found in footers if found.what == "memory"]
    return (max(totals), "summary line, log") if totals else (None, "")
