"""An iteration as a picture: sound whatever the figures are, and readable in black and white."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.records import IterationRecord
from pytest_lmsv.report.plots import differences, draw
from tests_selftest.judge.made import untested
from tests_selftest.page.campaigns import curve, failed, figures, fine

LABELS = ("PTA", "MSA")
SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
curves = st.lists(numbers, max_size=12)


def picture(record: IterationRecord, labels: tuple[str, str] = LABELS) -> ET.Element:
    return ET.fromstring(draw(record, labels, 0.05))


def texts(root: ET.Element) -> list[str]:
    return ["".join(found.itertext()) for found in root.iter(f"{SVG}text")]


@given(curves, curves, st.none() | numbers, numbers, st.sampled_from([0.0, 0.05, 5.0]))
def test_whatever_was_measured_the_picture_is_sound(
    ours: list[float], theirs: list[float], memory: float | None, ms: float, limit: float
) -> None:
    record = replace(
        fine(1),
        baseline_run=figures("pta", ours, memory, ms),
        compare_run=figures("msa", theirs, 1.0, 2.0),
    )
    root = ET.fromstring(draw(record, LABELS, limit))
    width, height = (float(root.get(name, "0")) for name in ("width", "height"))
    for found in root.iter():
        for name, text in found.attrib.items():
            if name in {"x", "y", "x1", "cx", "cy", "width", "height"}:
                assert -10 <= float(text) <= max(width, height) + 10, (found.tag, name, text)
            if name == "d":
                assert not re.search("nan|inf", text)


def test_sides_differ_by_dash_marker_and_hatching() -> None:
    root = picture(fine(3, 1.06))
    dashed = [path for path in root.iter(f"{SVG}path") if path.get("stroke-dasharray") == "6 4"]
    assert len(dashed) == 2  # the curve, and its sample in the legend
    assert len(list(root.iter(f"{SVG}circle"))) == 5 + 2
    assert [r.get("fill") for r in root.iter(f"{SVG}rect")].count("url(#h)") == 2


def test_figures_stand_beside_their_bars() -> None:
    found = texts(picture(fine(3, memory=-2771.72)))
    assert "36562.25 MB" in found
    assert "33790.53 MB" in found
    assert "limit 5 %" in found


def test_equal_curves_and_failed_sides_say_so() -> None:
    assert "equal in every step" in texts(picture(fine(1)))
    assert "MSA (failed)" in texts(picture(failed(6, "x", "other_python")))


def test_a_lost_loss_is_marked_where_it_was_lost() -> None:
    record = fine(5)
    losses = [*curve(5)[:3], float("nan"), float("nan")]
    record = replace(record, compare_run=figures("msa", losses, 1.0, 1.0))
    assert "not a number from step 4" in texts(picture(record))


def test_a_long_curve_stays_small() -> None:
    steps = 20_000
    record = replace(
        fine(1),
        baseline_run=figures("pta", curve(1, steps=steps), 1.0, 1.0),
        compare_run=figures("msa", curve(1, 1.01, steps=steps), 1.0, 1.0),
    )
    assert len(draw(record, LABELS, 0.05)) < 40_000


def test_names_are_never_markup() -> None:
    root = picture(replace(fine(1), model="<script>"), ("<b>", "&amp;"))
    assert not list(root.iter(f"{SVG}script"))
    assert "<b>" in texts(root)


@pytest.mark.parametrize("record", [untested(1), replace(fine(1), compare_run=None)])
def test_a_side_that_never_ran_has_no_figure(record: IterationRecord) -> None:
    assert "no figure" in texts(picture(record))


@given(curves, curves)
def test_a_difference_is_of_steps_that_both_have(ours: list[float], theirs: list[float]) -> None:
    found = differences(tuple(enumerate(ours)), tuple(enumerate(theirs)))
    assert [step for step, _ in found] == list(range(min(len(ours), len(theirs))))
    assert all(by >= 0 for _, by in found)
