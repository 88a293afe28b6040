"""Text inside string literals: tracebacks in JSON, lines in a container runtime's log."""

from __future__ import annotations

import json
import re


def unescaped(text: str, at: int) -> list[str]:
    r"""The lines of the string literal in *text* that holds position *at* (``\n`` for newlines)."""
    quote = max(text.rfind('"', 0, at), text.rfind("'", 0, at))
    inside = text[at:]
    if quote >= 0:
        end = re.compile(rf"(?:[^{text[quote]}\\]|\\.)*").match(text, at)
        inside = end[0] if end else inside
    while "\\\\n" in inside:  # escaped more than once
        inside = inside.replace("\\\\", "\\")
    try:
        inside = str(json.loads('"' + inside.replace("\\'", "'") + '"'))
    except ValueError:
        inside = inside.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")
        inside = inside.replace("\\'", "'")
    return inside.split("\n")


def container_line(text: str) -> str | None:
    """The line inside a line of docker's json-file log."""
    try:
        log = json.loads(text)["log"]
    except (ValueError, KeyError, TypeError):
        return None
    return log.rstrip("\r\n") if isinstance(log, str) else None
