"""Which error candidate is the root of a failure, and which are none (DESIGN 5.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_lmsv.logs.candidate import Candidate
from pytest_lmsv.logs.categories import Patterns
from pytest_lmsv.logs.file import LogFile
from pytest_lmsv.logs.runs import Run, barely, survived
from pytest_lmsv.logs.times import time_in

_DEVICE = re.compile(
    r"acl|ACL|NPU|npu|[Hh]ccl|HCCL|Ascend|[Kk]ernel|[Dd]evice|error code|nner error|\bGE\b"
    r"|[Ss]tream|Memory_|\(E[A-Z0-9]\d{4}\)|\bE[A-Z0-9]\d{4}\b"
)
_INNER = re.compile(r"[Ii]nner error is reported|inner error see above")
_PROCESS = re.compile(r"Worker process (\d{1,9})")

# How much a candidate explains. What others say when one rank is gone explains less than that
# rank's own end; a repetition explains nothing.
_PRIMARY, _KILLED, _SYMPTOM, _WEIGHTS, _ENDED, _ECHO, _LAUNCHER = 6, 5, 4, 3, 2, 1, 0
_KILLERS = {"SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"}


@dataclass(frozen=True, slots=True)
class Root:
    """An error with what it means. *strength* orders roots of one run."""

    candidate: Candidate
    type: str
    line: str
    message: str
    category: str
    strength: int
    file: LogFile
    time: float | None
    texts: tuple[str, ...]
    """The chain and the error block that came with it."""


def settle(
    file: LogFile, run: Run, patterns: Patterns, *, failed: bool | None
) -> tuple[list[Root], list[tuple[str, str]]]:
    """The roots that one run of one file offers, and what was dropped with its reason.

    *failed*: whether the run is known to have failed (True), to have exited with 0 (False).
    """
    found = sorted(
        [*run.collector.candidates, *_messages(run, patterns)], key=lambda entry: entry.order
    )
    found, inner = _join(found)
    echoes = {id(entry) for entry in found if _is_echo(entry, patterns)}
    ended = run.collector.launcher.failed_at
    # A launcher that starts the ranks again did not fail: progress follows.
    launcher_failed = ended is not None and ended > max(run.progress.values(), default=0)
    kept: list[Candidate] = []
    dropped: list[tuple[Candidate, str]] = []
    spared: list[tuple[Candidate, str]] = []
    """Dropped only as long as something else explains why the run failed."""
    known_failed = failed is True or launcher_failed
    for entry in found:
        if entry.kind == "open" and not known_failed:
            entry.benign = entry.benign or "cut: the traceback has no last line yet"
        reason = entry.benign or patterns.benign_reason(entry.line, *entry.frames)
        progress = None if reason else survived(entry, run, launcher_failed)
        if reason in {"logged as info", "logged as debug"}:  # or a logger that takes all output
            spared.append((entry, reason))
        elif reason:
            dropped.append((entry, reason))
        elif progress and launcher_failed and barely(entry, run):
            spared.append((entry, progress))
        elif progress:
            dropped.append((entry, progress))
        elif entry.retry and id(entry) not in echoes:
            what = f"followed by: {entry.retry}"
            sure = failed is False or any(order > entry.order for order in run.progress.values())
            (dropped if sure and not launcher_failed else spared).append((entry, what))
        else:
            kept.append(entry)
    if known_failed and all(
        id(entry) in echoes or patterns.is_symptom(entry.line) for entry in kept
    ):
        kept += [entry for entry, _ in spared]
    else:
        dropped += spared
    roots = [_root(entry, id(entry) in echoes, inner, patterns, file) for entry in kept]
    return roots, [(entry.line, reason) for entry, reason in dropped]


def first(roots: Sequence[Root]) -> Root:
    """The root of a failed run: the strongest; of equals, the first."""
    named = _named(roots)
    roots = [root for root in roots if not _own_end(root, roots)]
    ranked = [(_strength_with(root, named), root) for root in roots]
    strongest = max(strength for strength, _ in ranked)
    equal = [root for strength, root in ranked if strength == strongest]
    equal = [root for root in equal if root.candidate.rank in named] or equal
    if all(root.time is not None for root in equal):
        earliest = min(root.time or 0.0 for root in equal)
        equal = [root for root in equal if root.time == earliest]
    # torchrun's own line for a signal says most: `traceback : Signal 9 (SIGKILL) received`.
    best = next((root for root in equal if "received by PID" in root.line), equal[0])
    if best.candidate.rank is None:  # a console's copy of what a rank's own log holds
        copies = [root for root in equal if root.line == best.line]
        best = next((root for root in copies if root.candidate.rank is not None), best)
    return best


def _named(roots: Sequence[Root]) -> set[int]:
    """The ranks that a launcher names as the first to fail."""
    files = {id(root.file): root.file for root in roots}.values()
    named = {file.last.collector.launcher.first_failed for file in files} - {None}
    pids = {file.last.collector.launcher.first_pid for file in files} - {None}
    named |= {file.rank for file in files if pids & file.pids}
    return {rank for rank in named if rank is not None}


def rank_of_root(root: Root, files: Sequence[LogFile]) -> int | None:
    """The root's rank; of a process that msrun names, the rank whose log it wrote."""
    if root.candidate.rank is not None:
        return root.candidate.rank
    if root.strength <= _ECHO and root.file.last.collector.launcher.first_failed is not None:
        return root.file.last.collector.launcher.first_failed
    pid = _PROCESS.search(root.line)
    ranks = {file.rank for file in files if pid and int(pid[1]) in file.pids}
    return next((rank for rank in ranks if rank is not None), None)


def _own_end(root: Root, roots: Sequence[Root]) -> bool:
    """An end by a signal or abort() that only ends what the same rank had already told."""
    abort = _is_abort(root)
    if root.type in _KILLERS or not (abort or root.candidate.kind in {"signal", "exit"}):
        return False
    return any(
        other.candidate.kind in {"exception", "code", "message"}
        and other.strength > _ECHO
        and not (abort and _is_abort(other))
        and (
            other.candidate.rank in {root.candidate.rank, None}
            or (abort and root.candidate.rank is None and _before(other, root))
        )
        for other in roots
    )


def _is_abort(root: Root) -> bool:
    """`terminate called` and the like, which say nothing of the cause."""
    return root.candidate.kind == "message" and root.category == "unknown"


def _before(root: Root, other: Root) -> bool:
    return root.file is other.file and root.candidate.order < other.candidate.order


def _strength_with(root: Root, named: set[int]) -> int:
    """An end by abort() or with a status of its own counts as a cause on the rank named first."""
    if root.candidate.kind in {"signal", "exit"} and root.candidate.rank in named:
        return max(root.strength, _KILLED) if root.type != "SIGTERM" else root.strength
    return root.strength


def _messages(run: Run, patterns: Patterns) -> list[Candidate]:
    """The suspects that are fatal messages by the patterns."""
    messages = []
    for suspect in run.collector.suspects:
        pattern = patterns.fatal_message(suspect.line)
        if pattern is None:
            continue
        suspect.type = pattern.type
        suspect.chain = [pattern.category]
        suspect.retry = None
        if pattern.unless and any(
            pattern.unless in later.line and later.order > suspect.order
            for later in run.collector.suspects
        ):
            suspect.benign = f"then: {pattern.unless}"
        messages.append(suspect)
    return messages


def _is_echo(entry: Candidate, patterns: Patterns) -> bool:
    if entry.kind in {"launcher", "echo"}:
        return True
    return entry.kind == "exception" and patterns.is_echo(entry.line)


def _join(found: list[Candidate]) -> tuple[list[Candidate], dict[int, Candidate]]:
    """Ascend's error block and the exception it belongs to become one candidate.

    Where the exception only says that the error is reported above, the block is the root and the
    exception gives the type: returned by the order of the block.
    """
    inner: dict[int, Candidate] = {}
    gone: set[int] = set()
    exceptions = [(index, entry) for index, entry in enumerate(found) if entry.kind == "exception"]
    exceptions.sort(key=lambda pair: not _INNER.search(pair[1].line))
    for index, entry in exceptions:
        if id(entry) in gone:
            continue
        echo = bool(_INNER.search(entry.line))
        if not echo and not _DEVICE.search(entry.line):
            continue
        near = [
            other
            for other in found[max(0, index - 20) : index + 20]
            if other.kind == "code"
            and other.benign is None
            and abs(other.order - entry.order) <= (200 if echo else 60)
            and (other.rank == entry.rank or None in (other.rank, entry.rank))
            and id(other) not in gone
        ]
        if echo:
            above = [other for other in near if other.order < entry.order]
            codes = above or near  # "reported as above", but stderr and stdout came crossed
            if not codes:
                continue
            block = codes[0]
            inner[block.order] = entry
            gone.update(
                id(other)
                for other in found
                if block.order < other.order <= entry.order and other.rank == entry.rank
            )
            gone.update(id(other) for other in (entry, *codes[1:]))
            block.around = [other.line for other in codes[1:]] + block.around
        else:
            for other in near:
                entry.around.append(other.line)
                entry.around.extend(other.around[:8])
                gone.add(id(other))
    return [entry for entry in found if id(entry) not in gone], inner


def _root(
    entry: Candidate, echo: bool, inner: dict[int, Candidate], patterns: Patterns, file: LogFile
) -> Root:
    outer = inner.get(entry.order) if entry.kind == "code" else None
    kind = outer.type if outer else entry.type
    around = entry.around if _DEVICE.search(entry.line) else []
    if entry.kind == "message":
        category = entry.chain[0]
        if category == "unknown":
            category = patterns.category(entry.line) or category
        texts: tuple[str, ...] = ()
    else:
        named = kind if kind in entry.line else ""
        category = (
            patterns.category(f"{entry.line}", around)
            or (patterns.category(named) if named else None)
            or _by_kind(entry)
        )
        texts = (*entry.chain, *around, *entry.frames)
    if echo and category in {"other_python", "unknown"}:
        category = "unknown"
    return Root(
        candidate=entry,
        type=kind,
        line=entry.line,
        message=entry.message or entry.line,
        category=category,
        strength=_strength(entry, kind, category, echo, patterns),
        file=file,
        time=time_in((entry.line, *entry.around[:10])),
        texts=texts,
    )


def _by_kind(entry: Candidate) -> str:
    if entry.kind == "exception":
        return "other_python"
    if entry.kind == "code":
        return "device_exception"
    if entry.type in {"SIGSEGV", "SIGBUS"}:
        return "segfault"
    return "killed" if entry.kind == "signal" and entry.type in _KILLERS else "unknown"


def _strength(entry: Candidate, kind: str, category: str, echo: bool, patterns: Patterns) -> int:
    if entry.kind in {"launcher", "echo"}:
        return _LAUNCHER
    if echo or entry.kind == "open":
        return _ECHO
    if entry.kind in {"signal", "exit"}:
        return _KILLED if kind in _KILLERS else _ENDED
    if kind == "MissingWeights":
        return _WEIGHTS
    if category == "killed" and kind not in _KILLERS:
        return _ENDED
    if category == "hccl_comm" or patterns.is_symptom(entry.line):
        return _SYMPTOM
    return _PRIMARY
