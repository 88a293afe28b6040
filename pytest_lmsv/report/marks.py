"""Text of logs, names and configurations inside Markdown: shown as it is, never as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*\[\]<>&|~])|(?<![A-Za-z0-9])(_)|(_)(?![A-Za-z0-9])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def inline(text: str) -> str:
    """Return *text* as one line that Markdown shows literally, in a table cell as well."""
    shown = " ".join(_CONTROL.sub(" ", text).split())
    escaped = _SPECIAL.sub(_escape, shown)
    # What would begin a heading, a list or a rule at the beginning of a line.
    numbered = re.match(r"\d+(?=[.)])", escaped)
    if numbered:
        return f"{numbered[0]}\\{escaped[numbered.end() :]}"
    return f"\\{escaped}" if escaped[:1] in {"#", "+", "-", "="} else escaped


def fenced(lines: Iterable[str], language: str = "") -> list[str]:
    """Return *lines* as a block of code, whose fence is longer than any in them."""
    kept = [_CONTROL.sub("\ufffd", line) for text in lines for line in text.split("\n")]
    longest = max((len(run) for line in kept for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *kept, fence]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table; the cells of *rows* are escaped already."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def places(iterations: Iterable[tuple[str, int]]) -> str:
    """Return iterations as ``toy: 1-3, 7; other: 2``."""
    numbers: dict[str, list[int]] = {}
    for model, number in iterations:
        numbers.setdefault(model, []).append(number)
    return "; ".join(f"{inline(model)}: {ranges(found)}" for model, found in numbers.items())


def ranges(numbers: Iterable[int]) -> str:
    """Return *numbers* as ``1-3, 7``."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _escape(match: re.Match[str]) -> str:
    return _ENTITIES.get(match[0], f"\\{match[0]}")
