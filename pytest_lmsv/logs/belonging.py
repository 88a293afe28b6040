"""Which of several log files one run wrote: an earlier, larger run leaves its own behind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_lmsv.logs.file import LogFile

_ENDS = 1 << 16
_TIME = re.compile(rb"(\d{4})-(\d\d)-(\d\d)[-T_ ](\d\d):(\d\d):(\d\d)")
_APART = 60
"""Seconds between the last line of one file and the first of the others: another run's."""


def of_this_run(files: Sequence[LogFile], since: float | None) -> tuple[list[LogFile], list[str]]:
    """The files that this run wrote, and why the others are left out."""
    started: set[int] = set()
    world = None
    for file in files:
        started |= file.last.ranks
        world = file.last.world_size or world
    spans = {file.path: _span(file.path) for file in files} if len(files) > 1 else {}
    kept: list[LogFile] = []
    left_out: list[str] = []
    for file in files:
        reason = None
        if since is not None and file.path.stat().st_mtime < since - 2:
            reason = "last written before this run began"
        elif file.rank is not None and len(files) > 1:
            if started and file.rank not in started and _beside(file, files):
                reason = f"this run started no rank {file.rank} here"
            elif world is not None and file.rank >= world:
                reason = f"this run has {world} ranks"
            elif _earlier(file, spans):
                reason = "it ends before the logs beside it begin"
        if reason:
            left_out.append(f"{file.path}: {reason}")
        else:
            kept.append(file)
    return (kept, left_out) if kept else (list(files), [])


def _beside(file: LogFile, files: Sequence[LogFile]) -> bool:
    """Whether the launcher whose log is at hand wrote its workers' logs where *file* is.

    Another node's launcher starts other ranks, and its log may be missing.
    """
    started = {rank for other in files for rank in other.last.ranks}
    return any(
        other.rank in started and other.path.parent == file.path.parent
        for other in files
        if other.rank is not None
    )


def _earlier(file: LogFile, spans: Mapping[Path, tuple[int, int] | None]) -> bool:
    """Whether *file* ends long before the newest of the logs in its folder begins."""
    own = spans[file.path]
    others = [
        span[0]
        for path, span in spans.items()
        if span and path.parent == file.path.parent and path != file.path
    ]
    return own is not None and bool(others) and own[1] + _APART < max(others)


def _span(path: Path) -> tuple[int, int] | None:
    """The first and the last time in a log, in seconds of an arbitrary calendar."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        head = stream.read(_ENDS)
        stream.seek(max(0, path.stat().st_size - _ENDS))
        tail = stream.read(_ENDS)
    first = _TIME.search(head)
    last = first
    for found in _TIME.finditer(tail):
        last = found
    return (_seconds(first), _seconds(last)) if first and last else None


def _seconds(match: re.Match[bytes]) -> int:
    year, month, day, hour, minute, second = (int(part) for part in match.groups())
    return (((year * 372 + month * 31 + day) * 24 + hour) * 60 + minute) * 60 + second
