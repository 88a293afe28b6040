"""One command to run under a guard, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Reason = Literal["exit", "time limit", "silence", "interrupted", "lost"]


def id_of_node(run_id: str, rank: int) -> str:
    """The id of a run's part on one of several machines, which may see each other's processes."""
    return f"{run_id}.n{rank}"


@dataclass(frozen=True, slots=True)
class Job:
    """A command with its complete environment, its log file and its limits (seconds)."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment, nothing is inherited; ``LMSV_RUN_ID`` is set by the guard."""
    cwd: Path
    log: Path
    """Takes stdout and stderr; starts empty."""
    run_id: str
    time_limit: float
    silence_limit: float
    outputs: tuple[Path, ...] = ()
    """More files, or folders of files (one level), whose growth counts as output."""
    grace: float = 5.0
    """Between SIGTERM and SIGKILL."""
    without: tuple[str, ...] = ()
    """On another machine, what a run does not inherit: beginnings of ``NAME=``."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A process that outlived its command, or SIGTERM where we ended the run."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. ``reason`` is ``exit`` only where the command ended by itself."""

    exit_status: int | None
    """Of the command, negative for a signal; None where nobody saw it end."""
    reason: Reason
    seconds: float
    leftovers: tuple[Leftover, ...] = ()
    unkillable: tuple[Leftover, ...] = ()
    """Still there after SIGKILL (they hang in the kernel)."""
