"""What one log file holds: the runs in it, their steps, figures and error candidates."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.logs.columns import ascending
from pytest_lmsv.logs.errors import TRACEBACK, Collector
from pytest_lmsv.logs.escapes import container_line
from pytest_lmsv.logs.metrics import (
    RECORD,
    StepRecord,
    footer,
    mean_step_time,
    other_step,
    peak_memory,
    trainer_step,
)
from pytest_lmsv.logs.prefixes import Stripped, strip
from pytest_lmsv.logs.quick import Batch, Quick
from pytest_lmsv.logs.runs import Run
from pytest_lmsv.logs.text import NEEDLES, Lines, RawLine, searcher
from pytest_lmsv.logs.wrapped import PARTIAL, Found, Wrapped, split_whole

_FEW = 8
_COMMAND = re.compile(r"\+* ?(?:\S{0,200}/)?(?:torchrun|msrun) -")
_WORKER = "Start worker process with rank id:"
_PERHAPS_STARTS = ("using world size:", " Arguments ------", "time to initialize megatron")
_ENDS = ("ChildFailedError", "Distributed job exited", "training is done", "workers successfully")
_BAR = re.compile(r"(\d{1,9})/(\d{1,9}) \[[^\]]{0,60}(?:it/s|s/it)")
_DONE = ("finished", "Saved ", "saving ")
_DONE_LINE = re.compile(
    r"Inference finished|\bSaved \d{1,9} samples|\bsaving (?:videos?|images?) to\b"
)
_WORLD = re.compile(r"using world size: {0,8}(\d{1,6})")
_NO_PREFIX = re.compile(r"\s{0,8}(?:\[[\d :.-]{10,30}\] )?\Z")
_PID = re.compile(r"\[[A-Z]{4,8}\] [A-Z_]{2,30}\((\d{1,9})[,:]")


@dataclass(slots=True)
class LogFile:
    """The last run of a file, and what the earlier ones left."""

    path: Path
    rank: int | None
    last: Run
    earlier: list[Run]
    pids: frozenset[int]
    """Processes that wrote to it, as MindSpore's lines tell."""


class Reader:
    """Reads one log once, from its beginning to its end."""

    def __init__(self, path: Path, extra_needles: Sequence[bytes] = ()) -> None:
        self._path = path
        self._search = searcher((*NEEDLES, *extra_needles))
        self._rank = rank_of(path)
        self._hints = tuple(needle.decode() for needle in extra_needles)
        self._runs = [Run(Collector(self._hints))]
        self._order = 0
        self._wrapped = Wrapped()
        self._previous: tuple[int | None, int] | None = None
        self._pids: set[int] = set()
        self._quick = Quick()
        self._section: int | None = None
        self._same: str | None = None
        self._wanted = 0

    def read(self) -> LogFile:
        with self._path.open("rb", buffering=0) as stream:
            lines = Lines(stream, self._search, self._quick.read)
            for found in lines:
                if isinstance(found, Batch):
                    self._batch(found)
                elif wanted := self._line(found):
                    lines.want(wanted)
        self._close_all()
        for run in self._runs:
            run.collector.finish(self._order)
        while len(self._runs) > 1 and self._runs[-1].is_only_an_echo():
            self._runs.pop()
        return LogFile(
            self._path,
            self._rank,
            self._runs[-1],
            self._runs[:-1],
            frozenset(self._pids),
        )

    def _close_all(self) -> None:
        for rank in self._wrapped.ranks():
            self._take(self._wrapped.close(rank))

    # -- one line -------------------------------------------------------------------------------

    def _line(self, raw: RawLine) -> int:
        """Take one line; how many of the next lines are wanted whatever they hold."""
        text = raw.text
        if text == self._same and raw.ended and text:
            return self._wanted  # a tee, or a flood: says nothing new
        self._same = text
        self._wanted = self._new_line(raw)
        return self._wanted

    def _new_line(self, raw: RawLine) -> int:
        text = raw.text
        if not text.strip() and not self._wrapped:
            run = self._runs[-1]
            return run.collector.feed(raw, Stripped("", None, "", ""), self._order, None)
        if text.startswith('{"log":') and (inner := container_line(text)) is not None:
            raw = raw._replace(text=inner)
            text = inner
        self._order += 1
        if text.startswith("==> ") and text.endswith(" <=="):  # tail over several files
            self._section = rank_of(Path(text[4:-4]))
        if (match := RECORD.search(text)) and "|" in text:
            return self._record_line(raw, match)
        stripped = strip(text)
        if stripped.rank is None and self._section is not None:
            stripped = stripped._replace(rank=self._section)
        if self._wrapped:
            fits, found = self._wrapped.go_on(stripped.text, raw.ended, stripped.rank)
            self._take(found)
            if fits:
                return 1 if self._wrapped else 0
        if text.endswith((" ", "/")) or text[-1:].isdigit():
            head = PARTIAL.search(text)
            if head:
                self._take(self._wrapped.begin_head(text[head.start() :], stripped.rank))
                return 1
        return self._other_line(raw, stripped)

    def _other_line(self, raw: RawLine, stripped: Stripped) -> int:
        text = stripped.text
        rank = stripped.rank if stripped.rank is not None else self._rank
        run = self._starts(raw, text)
        if len(self._pids) < 8 and (pid := _PID.match(stripped.prefix)):
            self._pids.add(int(pid[1]))
        if "loss" in text or "step" in text:
            if (other := other_step(raw.text)) is not None:
                self._record(run.over_epochs(*other), stripped.rank)
                return 0
            if (step := trainer_step(text, run.trainer_steps)) is not None:
                self._record(step, stripped.rank)
                return 0
            if (mean := mean_step_time(text)) is not None:
                run.mean_times[max(run.highest, 1)] = mean
        if "allocated" in text or "memory" in text:
            if "memory (MB) |" in text and "max reserved" not in text:
                self._wrapped.begin_memory(text, raw.ended, stripped.rank)
                return 1
            peak = peak_memory(raw.text)
            if peak is not None:
                run.memory = max(run.memory or 0.0, peak)
                return 0
        if (found := footer(text)) is not None:
            run.footers.append((self._order, found))
            del run.footers[200:-200]
            return 0
        if ("it/s" in text or "s/it" in text) and (bar := _BAR.search(raw.text)):
            run.advance(stripped.rank, int(bar[1]), int(bar[2]), self._order)
            if TRACEBACK not in raw.text:
                return 0
        if any(mark in text for mark in _DONE) and _DONE_LINE.search(text):
            run.progress[stripped.rank] = self._order
        if "nference" in text:
            run.inference = run.inference or "inference_" in text or "Inference" in text
        return run.collector.feed(raw, stripped, self._order, rank)

    def _starts(self, raw: RawLine, text: str) -> Run:
        """The run that this line belongs to: a new one where it shows a start."""
        run = self._runs[-1]
        if _WORKER in text:
            digits = re.match(r"\d{1,6}", text.split(_WORKER, 1)[1])
            worker = int(digits[0]) if digits else 0
            if worker in run.ranks:
                run = self._new_run()
            run.ranks.add(worker)
            return run
        start = ("torchrun -" in text or "msrun -" in text) and _COMMAND.match(text)
        if start or any(mark in text for mark in _PERHAPS_STARTS):
            begun = run.records or run.collector.candidates
            if (start and begun) or (begun and run.ended):
                run = self._new_run(certain=bool(start))
            if world := _WORLD.search(text):
                run.world_size = int(world[1])
        elif any(mark in text for mark in _ENDS):
            run.ended = True
        return run

    def _new_run(self, *, certain: bool = True) -> Run:
        self._close_all()
        self._runs.append(Run(Collector(self._hints), certain=certain))
        if len(self._runs) > 50:  # of the earlier ones only whether they failed is told
            del self._runs[1:-1]
        self._previous = None
        return self._runs[-1]

    # -- step records ---------------------------------------------------------------------------

    def _record_line(self, raw: RawLine, match: re.Match[str]) -> int:
        text, rest = split_whole(raw.text)
        head = text[: match.start()]
        rank = self._section if _NO_PREFIX.match(head) else strip(head).rank
        found = self._wrapped.begin(text, raw.ended, rank, match)
        self._take(found)
        if len(found.records) == 1 and raw.ended and not self._wrapped and not rest.strip():
            prefixed = not _NO_PREFIX.match(head)
            self._quick.learn(raw.text, found.records[0], rank, prefixed=prefixed)
        if TRACEBACK in text:
            self._other_line(raw, strip(text[text.index(TRACEBACK) :]))
        if rest.strip():
            return max(self._other_line(raw, strip(rest)), 1 if self._wrapped else 0)
        return 1 if self._wrapped else 0

    def _batch(self, batch: Batch) -> None:
        """Whole records of one rank, as many lines in which nothing else matters between them."""
        self._same = None
        rank = batch.look.rank if batch.look.prefixed else self._section
        if self._wrapped:
            self._take(self._wrapped.close(rank))
        if len(batch) < _FEW:
            for record in batch.records():
                self._order += 1
                self._record(record, rank)
            return
        run = self._runs[-1]
        found = run.steps_of(rank)
        steps = batch.steps()
        if not ascending(steps):
            batch = batch.without_doubles()
            steps = batch.steps()
        if not ascending(steps) or steps[0] <= found.highest:
            columns = batch.columns()
            self._order += len(batch)
            if not (ascending(steps) and found.has_copies(steps, batch.look.like, columns)):
                for record in batch.records():
                    self._record(record, rank)
            return
        found.add(steps, batch.look.like, batch.columns())
        self._previous = (rank, steps[-1])
        fresh = len(steps) - bisect_right(steps, run.highest)
        run.highest = max(run.highest, steps[-1])
        self._order += len(steps)
        run.progress[rank] = self._order
        run.records_at = [
            *run.records_at,
            *range(self._order - min(fresh, 8) + 1, self._order + 1),
        ][-8:]

    def _take(self, found: Found) -> None:
        for record in found.records:
            self._record(record, found.rank)
        run = self._runs[-1]
        if found.memory is not None:
            run.memory = max(run.memory or 0.0, found.memory)
        if found.cut is not None:
            run.cut = found.cut

    def _record(self, record: StepRecord, rank: int | None) -> None:
        run = self._runs[-1]
        found = run.steps_of(rank)
        known = found.get(record.step)
        if known is not None:
            if known == record or known.fuller(record):
                return  # a copy: tee, or a console that shows a worker's log
            if record.fuller(known):
                found.put(record)
                return
            trouble = any(
                candidate.order > max(run.records_at, default=0)
                for candidate in run.collector.candidates[-3:]
            )
            again = record.step == found.first and self._previous != (rank, record.step)
            if not (again or trouble or run.ended):
                return  # another rank's figures of the same step
            run = self._new_run()
            found = run.steps_of(rank)
        found.put(record)
        self._previous = (rank, record.step)
        run.progress[rank] = self._order
        if record.step > run.highest:  # not the same step of one more rank
            run.highest = record.step
            run.records_at.append(self._order)
            del run.records_at[:-8]


def rank_of(path: Path) -> int | None:
    """The rank that a file's name or folder tells (msrun: worker_3.log, torchrun: 3/stderr.log)."""
    match = re.search(r"(?:worker|(?<!node_)(?<!node)rank)[_-]?(\d{1,6})(?=\D*\Z)", path.name)
    if match:
        return int(match[1])
    if path.name in {"stdout.log", "stderr.log"} and path.parent.name.isdigit():
        return int(path.parent.name)
    return None
