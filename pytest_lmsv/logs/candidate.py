"""One thing in a log that may be an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pytest_lmsv.logs.text import RawLine


@dataclass(slots=True)
class Candidate:
    """Something that may be an error, with what was printed with it."""

    kind: Literal["exception", "code", "message", "signal", "exit", "launcher", "echo", "open"]
    type: str
    message: str
    line: str
    raw: RawLine
    order: int
    rank: int | None
    level: str = ""
    key: int | None = None
    """The rank that the line's own prefix told: what comes from one stream is of one rank."""
    benign: str | None = None
    retry: str | None = None
    chain: list[str] = field(default_factory=list)
    around: list[str] = field(default_factory=list)
    frames: tuple[str, ...] = ()
    """The innermost frames of the traceback."""
