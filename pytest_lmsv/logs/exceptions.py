"""The line in which Python names an exception."""

from __future__ import annotations

import re

RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,12}(?P<type>[A-Za-z_]\w{0,80})(?:: ?(?P<message>.*))?\s*\Z",
    re.DOTALL,
)
_NAMED = re.compile(r"(?:Error|Exception|Interrupt|SystemExit|StopIteration)\Z")


def is_named(match: re.Match[str]) -> bool:
    """Whether a match of RAISED has the name of an exception."""
    return bool(_NAMED.search(match["type"]))


def is_class(match: re.Match[str], lines: int) -> bool:
    """A class name that ends in neither Error nor Exception, right after the frames."""
    name = match["type"]
    if lines < 2:
        return False
    if name.endswith("error") and "." in match[0].split(":")[0]:  # socket.gaierror
        return True
    return name[0].isupper() and (match["message"] is None or "." in match[0][:80])
