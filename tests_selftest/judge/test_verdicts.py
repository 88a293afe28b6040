"""The rules of DESIGN 5.4, row by row."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge.verdicts import Tolerances, accuracy, run_time_ms, verdicts
from pytest_lmsv.records import Metrics, RunError, RunRecord, Stack

NAN, INF = math.nan, math.inf


def run(stack: Stack = "pta", **metrics: Any) -> RunRecord:
    return RunRecord(stack, 1, "ok", True, Metrics(**metrics))


def curve(*losses: float) -> tuple[tuple[int, float], ...]:
    return tuple(enumerate(losses, start=1))


@pytest.mark.parametrize(
    ("pta", "msa", "result", "difference"),
    [
        ((1.0, 0.5), (1.0, 0.5), "OK", 0.0),
        ((1.0, 1.0), (1.0, 1.0499), "OK", 0.0499),
        ((1.0, 1.0), (9.0, 0.9501), "OK", 0.0499),  # only the last step counts
        ((1.0,), (1.05,), "NG", 0.05),
        ((2.0,), (1.0,), "NG", 0.5),
        ((-2.0,), (-2.05,), "OK", 0.025),
        ((1.0, 1.0, 7.0), (1.0, 1.01), "OK", 0.01),  # the last step that both report
        ((1.0,), (NAN,), "NG", None),
        ((1.0,), (INF,), "NG", None),
        ((0.0,), (0.1,), "NG", None),
        ((0.0,), (0.0,), "OK", 0.0),
        ((), (1.0,), "N/A", None),
        ((1.0,), (), "N/A", None),
        ((), (), "N/A", None),
        ((NAN,), (1.0,), "N/A", None),
    ],
)
def test_accuracy(
    pta: tuple[float, ...], msa: tuple[float, ...], result: str, difference: float | None
) -> None:
    verdict = accuracy(run(losses=curve(*pta)), run("msa", losses=curve(*msa)), "training")
    assert verdict.result == result
    assert verdict.difference == (None if difference is None else pytest.approx(difference))
    assert verdict.result != "N/A" or verdict.reason


def test_what_is_equal_is_ok_by_any_tolerance() -> None:
    same = accuracy(run(losses=curve(1.5)), run("msa", losses=curve(1.5)), "training", 0.0)
    assert (same.result, same.difference) == ("OK", 0.0)


def test_an_inference_has_no_accuracy() -> None:
    verdict = accuracy(run(losses=curve(1.0)), run("msa", losses=curve(1.0)), "inference")
    assert (verdict.result, verdict.reason) == ("N/A", "an inference has no loss")


@pytest.mark.parametrize(
    ("pta", "msa", "tolerance", "result", "difference"),
    [
        (100.0, 100.0, 0.0, "OK", 0.0),
        (100.0, 90.0, 0.0, "OK", -10.0),
        (100.0, 100.1, 0.0, "NG", 0.1),
        (100.0, 109.0, 0.1, "OK", 9.0),
        (100.0, 111.0, 0.1, "NG", 11.0),
        (None, 100.0, 0.0, "N/A", None),
        (100.0, None, 0.0, "N/A", None),
        (100.0, NAN, 0.0, "N/A", None),
        (INF, 1.0, 0.0, "N/A", None),
        (100.0, 0.0, 0.0, "N/A", None),
        (100.0, -5.0, 0.0, "N/A", None),
    ],
)
def test_memory(
    pta: float | None, msa: float | None, tolerance: float, result: str, difference: float | None
) -> None:
    pair = run(memory_mb=pta), run("msa", memory_mb=msa)
    verdict = verdicts(*pair, "training", Tolerances(memory=tolerance))[1]
    assert (verdict.name, verdict.unit, verdict.result) == ("memory", "MB", result)
    assert verdict.difference == (None if difference is None else pytest.approx(difference))


def test_the_first_step_never_counts_for_time_where_there_are_others() -> None:
    assert run_time_ms(Metrics(step_time_ms=curve(47900.2, 1398.7, 1384.1)), "training") == (
        pytest.approx((1398.7 + 1384.1) / 2)
    )
    assert run_time_ms(Metrics(step_time_ms=curve(47900.2)), "training") == 47900.2
    assert run_time_ms(Metrics(), "training") is None


def test_time_of_an_inference_is_its_generation() -> None:
    metrics = Metrics(step_time_ms=curve(5.0), generation_s=2.5)
    assert run_time_ms(metrics, "inference") == 2500.0
    assert run_time_ms(Metrics(step_time_ms=curve(5.0)), "inference") is None


@pytest.mark.parametrize("failed", ["pta", "msa"])
def test_nothing_is_judged_where_a_run_failed(failed: str) -> None:
    good = run(losses=curve(1.0), memory_mb=1.0, step_time_ms=curve(1.0))
    bad = RunRecord("msa", 1, "error", False, good.metrics, RunError("E", "", "unknown"))
    pair = (bad, good) if failed == "pta" else (good, bad)
    found = verdicts(*pair, "training", Tolerances())
    assert [verdict.result for verdict in found] == ["N/A"] * 4
    assert all(failed.upper() in verdict.reason for verdict in found)


figures = st.one_of(st.none(), st.floats(), st.floats(min_value=0, max_value=1e9))


@given(pta=figures, msa=figures, tolerance=st.floats(min_value=0, max_value=1))
def test_ok_is_only_said_of_two_finite_figures(
    pta: float | None, msa: float | None, tolerance: float
) -> None:
    limits = Tolerances(loss=tolerance, memory=tolerance, time=tolerance)
    sides = [
        run(
            memory_mb=value,
            losses=() if value is None else curve(value),
            step_time_ms=() if value is None else curve(value),
        )
        for value in (pta, msa)
    ]
    for verdict in verdicts(sides[0], sides[1], "training", limits):
        if verdict.result == "OK":
            assert pta is not None
            assert msa is not None
            assert math.isfinite(pta)
            assert math.isfinite(msa)
        if verdict.result == "N/A":
            assert verdict.reason
