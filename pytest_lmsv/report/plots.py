"""One iteration as a picture: both loss curves, their relative difference, memory and time.

SVG of our own: a few lines and rectangles need no package, and 2,000 of them must cost seconds and
megabytes, not minutes. The two sides differ by dash,
marker and hatching as well as by colour, so that a printed page reads the same; the picture is as
wide as a phone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from html import escape
from typing import TypeVar

from pytest_lmsv.judge.verdicts import run_time_ms
from pytest_lmsv.records import IterationRecord, RunRecord

WIDTH, LEFT, RIGHT = 360, 58, 348
BASELINE, COMPARE, GREY = "#1f4e9c", "#c2560a", "#555"
MOST_POINTS = 240
"""A longer curve is thinned: the picture has no more pixels."""
MOST_MARKERS = 24
LARGEST = sys.float_info.max

T = TypeVar("T")
Points = Sequence[tuple[float, float]]


def draw(record: IterationRecord, labels: tuple[str, str], limit: float) -> str:
    """Return the picture of *record* as SVG; *limit* is accuracy's, relative."""
    baseline, compare = record.baseline_run, record.compare_run
    ours, theirs = losses(baseline), losses(compare)
    parts: list[str] = []
    top = 24
    if ours or theirs:
        parts += _legend(labels, baseline, compare)
        parts += _loss_panel(ours, theirs, top + 18)
        parts += _difference_panel(differences(ours, theirs), limit, top + 188)
        top += 300
    runs = (baseline, compare)
    memory = [run.metrics.memory_mb if run else None for run in runs]
    times = [run_time_ms(run.metrics, record.kind) if run else None for run in runs]
    for title, unit, values in (("Peak memory", "MB", memory), ("Time", "ms", times)):
        parts += _bars(title, unit, values, labels, top)
        top += 74
    title = escape(f"{record.model}, iteration {record.iteration}: {labels[0]} and {labels[1]}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'height="{top}" font-family="sans-serif" font-size="12"><title>{title}</title>'
        '<defs><pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
        f'<rect width="3" height="6" fill="{COMPARE}"/></pattern></defs>'
        f'<rect width="{WIDTH}" height="{top}" fill="#fff"/>'
        f'<text x="8" y="16" font-weight="bold">{title}</text>{"".join(parts)}</svg>'
    )


def losses(run: RunRecord | None) -> Sequence[tuple[int, float]]:
    """Return the losses of *run* by step."""
    return run.metrics.losses if run else ()


def differences(
    ours: Sequence[tuple[int, float]], theirs: Sequence[tuple[int, float]]
) -> tuple[tuple[int, float], ...]:
    """Return the relative difference of every step that both have; infinite against a NaN or 0."""
    other = dict(theirs)
    return tuple((n, _relative(loss, other[n])) for n, loss in ours if n in other)


def _relative(left: float, right: float) -> float:
    if left == right:
        return 0.0
    if not (math.isfinite(left) and math.isfinite(right)) or left == 0:
        return math.inf
    return abs(right - left) / abs(left)


def _legend(
    labels: tuple[str, str], baseline: RunRecord | None, compare: RunRecord | None
) -> Iterator[str]:
    for number, (label, run) in enumerate(zip(labels, (baseline, compare), strict=True)):
        x = LEFT + 150 * number
        failed = " (failed)" if run is not None and run.outcome != "ok" else ""
        yield _curve([(x, 32), (x + 28, 32)], number)
        yield f'<text x="{x + 36}" y="36">{escape(label)}{failed}</text>'


def _loss_panel(
    ours: Sequence[tuple[int, float]], theirs: Sequence[tuple[int, float]], top: int
) -> Iterator[str]:
    finite = [loss for _, loss in (*ours, *theirs) if math.isfinite(loss)] or [0.0]
    low, high = min(finite), max(finite)
    if low == high:
        room = min(abs(low), LARGEST / 2) * 0.05 + 1e-9
        low, high = max(low - room, -LARGEST), min(high + room, LARGEST)
    steps = [step for step, _ in (*ours, *theirs)]
    first, last = min(steps), max(steps)
    bottom = top + 126
    yield from _frame("loss", top, bottom, [(high, _short(high)), (low, _short(low))], low, high)
    yield from _step_axis(first, last, bottom)
    for number, curve in enumerate((ours, theirs)):
        points = [
            (_x(step, first, last), _y(loss, low, high, top, bottom))
            for step, loss in curve if math.isfinite(loss)
        ]  # fmt: skip
        yield _curve(points, number)
        lost = [step for step, loss in curve if not math.isfinite(loss)]
        for step in _thinned(lost, MOST_MARKERS):
            x = _x(step, first, last)
            yield _cross(x, top + 8, (BASELINE, COMPARE)[number])
        if lost:
            x, y = _x(lost[0], first, last), top + 12 + 12 * number
            anchor = "end" if x > WIDTH / 2 else "start"
            yield (
                f'<text x="{x + (8 if anchor == "start" else -8):.0f}" y="{y}" '
                f'text-anchor="{anchor}">not a number from step {lost[0]}</text>'
            )


def _difference_panel(found: Sequence[tuple[int, float]], limit: float, top: int) -> Iterator[str]:
    bottom = top + 72
    positive = [d for _, d in found if 0 < d < math.inf]
    low = math.floor(math.log10(min([*positive, limit or 1.0]))) if positive else -8
    low, high = max(low, -16), math.ceil(math.log10(max([*positive, limit or 1.0, 0.1])))
    low = min(low, high - 1)
    ticks: list[tuple[float, str]] = [(high, f"1e{high}"), (low, f"1e{low}")]
    yield from _frame("rel. diff.", top, bottom, ticks, low, high)
    if limit > 0:
        y = _y(math.log10(limit), low, high, top, bottom)
        yield (
            f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="{GREY}" stroke-dasharray="2 3"/>'
            f'<text x="{LEFT + 6}" y="{y - 4:.1f}" fill="{GREY}">limit '
            f"{100 * limit:.3g} %</text>"
        )
    if not found:
        yield f'<text x="{LEFT + 8}" y="{bottom - 8}">no step that both report</text>'
        return
    first, last = found[0][0], found[-1][0]
    yield from _step_axis(first, last, bottom)
    points = [
        (_x(step, first, last), _y(_log(d, low, high), low, high, top, bottom)) for step, d in found
    ]
    yield _curve(points, 2)
    if not positive and all(d == 0 for _, d in found):
        yield f'<text x="{LEFT + 8}" y="{bottom - 18}">equal in every step</text>'


def _bars(
    title: str, unit: str, values: Sequence[float | None], labels: tuple[str, str], top: int
) -> Iterator[str]:
    yield f'<text x="8" y="{top + 14}" font-weight="bold">{title}</text>'
    known = [v for v in values if v is not None and math.isfinite(v)]
    longest = max([*known, 0.0])
    for number, (value, label) in enumerate(zip(values, labels, strict=True)):
        y = top + 22 + 22 * number
        yield f'<text x="8" y="{y + 12}">{escape(label[:14])}</text>'
        start = LEFT if max(map(len, labels)) < 8 else 108
        if value is None or not math.isfinite(value):
            yield f'<text x="{start + 4}" y="{y + 12}" fill="{GREY}">no figure</text>'
            continue
        width = (RIGHT - start - 92) * (max(value, 0.0) / longest) if longest else 0.0
        fill = (BASELINE, "url(#h)")[number]
        yield (
            f'<rect x="{start}" y="{y}" width="{width:.1f}" height="16" fill="{fill}" '
            f'stroke="{(BASELINE, COMPARE)[number]}"/>'
            f'<text x="{start + width + 6:.1f}" y="{y + 12}">{_figure(value)} {unit}</text>'
        )


def _frame(
    title: str, top: int, bottom: int, ticks: Sequence[tuple[float, str]], low: float, high: float
) -> Iterator[str]:
    yield f'<path d="M{LEFT} {top}V{bottom}H{RIGHT}" fill="none" stroke="{GREY}"/>'
    middle = (top + bottom) / 2
    yield (
        f'<text x="12" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 12 {middle})">{title}</text>'
    )
    for value, text in ticks:
        y = _y(value, low, high, top, bottom)
        yield f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'


def _step_axis(first: int, last: int, bottom: int) -> Iterator[str]:
    yield f'<text x="{LEFT}" y="{bottom + 14}">step {first}</text>'
    if last > first:
        yield f'<text x="{RIGHT}" y="{bottom + 14}" text-anchor="end">{last}</text>'


def _curve(points: Points, number: int) -> str:
    """Return a line with markers: solid with discs, dashed with squares, thin with crosses."""
    if not points:
        return ""
    colour = (BASELINE, COMPARE, "#222")[number]
    dash = ("", ' stroke-dasharray="6 4"', "")[number]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in _thinned(points, MOST_POINTS))
    marks = []
    for x, y in _thinned(points, MOST_MARKERS):
        if number == 0:
            marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        elif number == 1:
            marks.append(
                f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9" fill="none" '
                f'stroke="{colour}" stroke-width="1.5"/>'
            )
        else:
            marks.append(_cross(x, y, colour))
    return (
        f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="{2 if number < 2 else 1}"'
        f"{dash}/>{''.join(marks)}"
    )


def _cross(x: float, y: float, colour: str) -> str:
    return f'<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0-6l-6 6" stroke="{colour}" stroke-width="1.5"/>'


def _thinned(items: Sequence[T], most: int) -> Sequence[T]:
    if len(items) <= most:
        return items
    stride = (len(items) - 1) / (most - 1)
    return [items[round(n * stride)] for n in range(most)]


def _x(step: float, first: int, last: int) -> float:
    share = 0.5 if last == first else (step - first) / (last - first)
    return LEFT + 8 + share * (RIGHT - LEFT - 16)


def _y(value: float, low: float, high: float, top: int, bottom: int) -> float:
    # Halved, since the largest and the smallest double are infinitely far apart.
    share = (value / 2 - low / 2) / (high / 2 - low / 2)
    return bottom - 6 - share * (bottom - top - 12)


def _log(difference: float, low: float, high: float) -> float:
    """Return the place of *difference* on the axis: 0 at its foot, infinity at its head."""
    if difference <= 0:
        return low
    return high if math.isinf(difference) else min(max(math.log10(difference), low), high)


def _figure(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1e9 else f"{value:.4g}"


def _short(value: float) -> str:
    return f"{value:.4g}"
