"""The summary of a GitHub Actions job: what GITHUB_STEP_SUMMARY names, at most 1 MiB."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 1024 * 1024
CUT = "\n\n(cut here: the whole is analysis/summary.md)\n"


def add(path: Path, text: str) -> None:
    """Append *text*, Markdown, to the job's summary, cut at a line where it would be too long.

    GitHub shows nothing of a step's summary that is longer than 1 MiB.
    """
    there = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8") as stream:
        stream.write(fitting(text, MOST_BYTES - there))


def fitting(text: str, most: int) -> str:
    """Return *text*, or as many whole lines of it as fit into *most* bytes with a note."""
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    left = most - len(CUT.encode())
    if left <= 0:
        return ""
    kept = encoded[:left]
    return kept[: kept.rfind(b"\n") + 1].decode("utf-8", "ignore").rstrip("\n") + CUT
