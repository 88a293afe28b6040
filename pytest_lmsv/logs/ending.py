"""The last words of a log, for a run that ended without telling why."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_lmsv.logs.prefixes import strip
from pytest_lmsv.logs.text import without_colours

_TAIL = 1 << 16
_WARNING = re.compile(r"\b\w{0,40}[Ww]arning\b|\bWARNING\b")


def ending(path: Path) -> tuple[str, str]:
    """The last warning and the last line in the last 64 KiB of a log; empty where there is none."""
    if not path.is_file():
        return "", ""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _TAIL))
        data = without_colours(stream.read())
    last_line = ""
    for raw in reversed(re.split(rb"[\r\n]+", data)):
        stripped = strip(raw.decode("utf-8", "replace"))
        text = stripped.text.strip()[:1000]
        if not text:
            continue
        last_line = last_line or text
        if stripped.level == "warning" or _WARNING.search(text):
            return text, last_line
    return "", last_line
