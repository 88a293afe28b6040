"""Words that fit a number."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """*number* and *noun*, as ``1 iteration`` or ``2 iterations``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
