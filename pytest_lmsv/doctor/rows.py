"""One row of the doctor's table: what was looked at, how it is, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["OK", "WARN", "FAIL"]


@dataclass(frozen=True, slots=True)
class Row:
    """FAIL stops a campaign, WARN may spoil its results; both carry a remedy."""

    check: str
    state: State
    found: str
    remedy: str = ""
    node: str = ""
    """The machine's name where several are checked, else ""."""


def ok(check: str, found: str) -> Row:
    return Row(check, "OK", found)


def warn(check: str, found: str, remedy: str) -> Row:
    return Row(check, "WARN", found, remedy)


def fail(check: str, found: str, remedy: str) -> Row:
    return Row(check, "FAIL", found, remedy)


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text, each remedy on a line of its own."""
    names = [f"{row.node}: {row.check}" if row.node else row.check for row in rows]
    width = max(map(len, names), default=0)
    lines = []
    for name, row in zip(names, rows, strict=True):
        lines.append(f"{row.state:<4}  {name:<{width}}  {row.found}")
        if row.remedy:
            lines.append(f"{'':<4}  {'':<{width}}  -> {row.remedy}")
    count = {state: sum(row.state == state for row in rows) for state in ("OK", "WARN", "FAIL")}
    lines.append(", ".join(f"{number} {state}" for state, number in count.items()))
    return "\n".join(lines)


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def from_json(values: Iterable[dict[str, Any]], node: str) -> list[Row]:
    """Rows that another machine printed, under its name."""
    return [
        Row(str(v["check"]), v["state"], str(v["found"]), str(v.get("remedy", "")), node)
        for v in values
    ]
