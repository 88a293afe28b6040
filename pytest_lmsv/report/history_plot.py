"""The plot of a history: one panel for each difference and one for the rates, as SVG.

Lines differ by dashes as well as by colour; a campaign that moved is marked by a diamond.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_lmsv.report.history import Line

WIDTH, HEIGHT, LEFT, RIGHT, TOP, GAP = 640, 130, 70, 20, 40, 50
STYLES = (("#1b5e8c", ""), ("#b5560b", "6 3"), ("#2e7d32", "2 3"))


def file_name(title: str) -> str:
    """Return the name of the plot's file."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', title).strip('_') or 'history'}.svg"


def draw(line: Line) -> str:
    """Return the plot of *line* as SVG text."""
    from pytest_lmsv.report.history import COLUMNS

    panels: list[tuple[str, list[tuple[str, list[float | None]]], set[int]]] = []
    for name, (title, factor, unit) in COLUMNS.items():
        figures = [point.figures.get(name) for point in line.points]
        if any(figure is not None for figure in figures):
            values = [None if f is None else factor * f.mean for f in figures]
            moved = {n for n in range(len(figures)) if line.left(n, name) is not None}
            label = f"{title} difference" + (f" ({unit})" if unit else "")
            panels.append((label, [("", values)], moved))
    rates = [
        (name, [None if rate is None else 100 * rate for rate in values])
        for name, values in (
            ("valid", [point.valid_rate for point in line.points]),
            ("MSA ran", [point.msa_rate for point in line.points]),
            ("issues", [point.issue_rate for point in line.points]),
        )
    ]
    panels.append(("rates (%)", rates, set()))
    height = TOP + len(panels) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(line.title)}</text>',
    ]
    for number, (title, curves, moved) in enumerate(panels):
        parts += _panel(title, curves, moved, TOP + number * (HEIGHT + GAP))
    names = [point.campaign for point in line.points]
    parts += _axis(names, height - GAP + 14)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    title: str,
    curves: Sequence[tuple[str, Sequence[float | None]]],
    moved: set[int],
    top: int,
) -> Iterator[str]:
    values = [value for _, curve in curves for value in curve if value is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low < 1e-12:
        low, high = low - (abs(low) or 1.0) * 0.1, high + (abs(high) or 1.0) * 0.1
    bottom = top + HEIGHT

    def height(value: float) -> float:
        return bottom - 8 - (HEIGHT - 16) * (value - low) / (high - low)

    yield f'<text x="{LEFT}" y="{top - 5}">{escape(title)}</text>'
    yield (
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT}" '
        'fill="none" stroke="#999"/>'
    )
    for value in (low, high):
        y = height(value) + 4
        yield f'<text x="{LEFT - 6}" y="{y:.1f}" text-anchor="end">{value:.3g}</text>'
    for place, (name, curve) in enumerate(curves):
        colour, dashes = STYLES[place % len(STYLES)]
        points = [
            (_x(number, len(curve)), height(value), number)
            for number, value in enumerate(curve)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
        yield (
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" '
            f'stroke-dasharray="{dashes}"/>'
        )
        for x, y, number in points:
            if number in moved:
                yield (
                    f'<path d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z" fill="white" stroke="#b00020" '
                    'stroke-width="2"><title>moved</title></path>'
                )
            else:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
        if name:
            yield (
                f'<text x="{WIDTH - RIGHT - 150 + 55 * place}" y="{top - 5}" fill="{colour}">'
                f"{escape(name)}</text>"
            )


def _axis(names: Sequence[str], y: int) -> Iterator[str]:
    """Yield the names of the first and the last campaign below the panels."""
    shown = {0: "start", len(names) - 1: "end"} if len(names) > 1 else {0: "middle"}
    for number, anchor in shown.items():
        yield (
            f'<text x="{_x(number, len(names)):.1f}" y="{y}" text-anchor="{anchor}">'
            f"{escape(names[number])}</text>"
        )


def _x(number: int, count: int) -> float:
    inner = WIDTH - LEFT - RIGHT - 24
    return LEFT + 12 + (inner * number / (count - 1) if count > 1 else inner / 2)
