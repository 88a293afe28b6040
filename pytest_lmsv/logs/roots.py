"""Which error candidate is the root of a failure, and which are none (DESIGN 5.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_lmsv.logs.categories import Patterns
from pytest_lmsv.logs.errors import Candidate
from pytest_lmsv.logs.file import LogFile, Run

_DEVICE = re.compile(
    r"acl|ACL|NPU|npu|[Hh]ccl|HCCL|Ascend|[Kk]ernel|[Dd]evice|error code|nner error|\bGE\b"
    r"|[Ss]tream|Memory_|\(E[A-Z0-9]\d{4}\)|\bE[A-Z0-9]\d{4}\b"
)
_INNER = re.compile(r"[Ii]nner error is reported|inner error see above")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[-T_ ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")

# How much a candidate explains. What others say when one rank is gone explains less than that
# rank's own end; a repetition explains nothing.
_PRIMARY, _KILLED, _SYMPTOM, _WEIGHTS, _ENDED, _ECHO = 6, 5, 4, 3, 2, 1
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
    echoes = [entry for entry in found if _is_echo(entry, patterns)]
    # An end that the launcher reports: then a rank's error is none of those that were survived.
    launcher_failed = any(entry.order for entry in echoes) or any(
        entry.kind == "signal" for entry in found
    )
    kept: list[Candidate] = []
    dropped: list[tuple[str, str]] = []
    spared: list[tuple[Candidate, str]] = []
    for entry in found:
        reason = entry.benign or patterns.benign_reason(entry.line)
        if reason is None and (survived := _survived(entry, run, launcher_failed)):
            reason = survived
        elif reason is None and entry.retry and failed is not True and _lived(entry, run, failed):
            reason = f"followed by: {entry.retry}"
        elif reason is None and entry.retry and entry not in echoes:
            spared.append((entry, f"followed by: {entry.retry}"))
            continue
        if reason is None:
            kept.append(entry)
        else:
            dropped.append((entry.line, reason))
    better = [entry for entry in kept if entry not in echoes]
    for entry, reason in spared:
        if better:
            dropped.append((entry.line, reason))
        else:
            kept.append(entry)
    roots = [_root(entry, entry in echoes, inner, patterns, file) for entry in kept]
    return roots, dropped


def first(roots: Sequence[Root]) -> Root:
    """The root of a failed run: the strongest; of equals, the first."""
    strongest = max(root.strength for root in roots)
    equal = [root for root in roots if root.strength == strongest]
    named = {
        root.file.last.collector.first_failed
        for root in roots
        if root.file.last.collector.first_failed is not None
    }
    by_rank = [root for root in equal if root.candidate.rank in named]
    equal = by_rank or equal
    if all(root.time is not None for root in equal):
        earliest = min(root.time or 0.0 for root in equal)
        equal = [root for root in equal if root.time == earliest]
    # torchrun's own line for a signal says most: `traceback : Signal 9 (SIGKILL) received`.
    told = [root for root in equal if "received by PID" in root.line]
    return (told or equal)[0]


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
            if not above:
                continue
            block = above[0]
            inner[block.order] = entry
            gone.update(
                id(other)
                for other in found
                if block.order < other.order <= entry.order and other.rank == entry.rank
            )
            block.around = [other.line for other in above[1:]] + block.around
        else:
            for other in near:
                entry.around.append(other.line)
                entry.around.extend(other.around[:5] if other.order < entry.order else [])
                gone.add(id(other))
    return [entry for entry in found if id(entry) not in gone], inner


def _survived(entry: Candidate, run: Run, launcher_failed: bool) -> str | None:
    """Progress of the same rank after the error: it was none."""
    if entry.type == "MissingWeights":
        return None
    for rank, order in run.progress.items():
        if order <= entry.order:
            continue
        if rank == entry.rank or (rank is None and not launcher_failed):
            return "followed by progress of the same rank"
        if entry.rank is None and rank is not None and not launcher_failed:
            return "followed by progress"
    return None


def _lived(entry: Candidate, run: Run, failed: bool | None) -> bool:
    """Whether a retried error may be called survived: nothing says that the run failed after it."""
    return failed is False or not any("exited with code" in text for text in entry.around)


def _root(
    entry: Candidate, echo: bool, inner: dict[int, Candidate], patterns: Patterns, file: LogFile
) -> Root:
    outer = inner.get(entry.order) if entry.kind == "code" else None
    kind = outer.type if outer else entry.type
    around = entry.around if _DEVICE.search(entry.line) else []
    if entry.kind == "message":
        category = entry.chain[0]
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
    return "unknown"


def _strength(entry: Candidate, kind: str, category: str, echo: bool, patterns: Patterns) -> int:
    if echo or entry.kind == "open":
        return _ECHO
    if entry.kind == "signal":
        return _KILLED if kind in _KILLERS else _ENDED
    if kind == "MissingWeights":
        return _WEIGHTS
    if category == "killed" and kind not in _KILLERS:
        return _ENDED
    if category == "hccl_comm" or patterns.is_symptom(entry.line):
        return _SYMPTOM
    return _PRIMARY


def time_in(texts: Sequence[str]) -> float | None:
    """The first time of day with a date in *texts*, in seconds; only for ordering."""
    for text in texts:
        match = _TIME.search(text)
        if match:
            year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
            days = year * 372 + month * 31 + day
            whole = ((days * 24 + hour) * 60 + minute) * 60 + second
            return whole + float(f"0.{match[7] or 0}")
    return None
