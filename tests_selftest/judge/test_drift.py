"""The verdict drift: every step against the noise floor (docs/drift.md)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge.curves import FLOAT32, Floor, Limits, differences, limits, noise_floor
from pytest_lmsv.judge.drift import drift, of_runs, output_drift, verdict
from pytest_lmsv.judge.output import Sample, Text, Unreadable, Video
from pytest_lmsv.judge.output import differences as samples
from pytest_lmsv.records import Curve, Metrics, RunRecord, SampleDifference, Stack

NAN, INF = math.nan, math.inf
STEPS = (1, 2, 3)
PARAMETERS = {"embed": 1.0, "block": 2.0, "head": 3.0}


def curve(
    losses: tuple[float, ...] = (3.0, 2.0, 1.0),
    norms: tuple[float, ...] = (4.0, 4.0, 4.0),
    first: dict[str, float] | None = None,
    last: dict[str, float] | None = None,
) -> Curve:
    return Curve(
        tuple(zip(STEPS, losses, strict=False)),
        tuple(zip(STEPS, norms, strict=False)),
        ((1, PARAMETERS | (first or {})), (3, PARAMETERS | (last or {}))),
    )


def run(*curves: Curve, stack: Stack = "pta", **more: Any) -> RunRecord:
    return RunRecord(stack, 1, "ok", True, Metrics(), curves=curves, **more)


REFERENCE = curve()
FLOOR = noise_floor(REFERENCE, [curve((3.0, 2.000002, 1.0))])


def test_equal_curves_are_ok_with_and_without_a_floor() -> None:
    for floor in (FLOOR, None):
        found = drift(REFERENCE, REFERENCE, floor)
        assert (found.result, found.ratio, found.gradient) == ("OK", 0.0, "")


@pytest.mark.parametrize(
    ("other", "step", "quantity", "gradient"),
    [
        (curve(losses=(3.0001, 2.0, 1.0)), 1, "loss", ""),
        (curve(losses=(3.0, 2.1, 1.1)), 2, "loss", ""),
        (curve(norms=(4.0, 4.001, 4.0)), 2, "grad norm", ""),
        # The last in the network's order is the first in backward order.
        (curve(first={"embed": 1.1, "block": 2.2}), 1, "gradient of block", "block"),
        (curve(last={"embed": 1.1}), 3, "gradient of embed", "embed"),
        (curve(losses=(3.1, 2.0, 1.0), first={"head": 0.0}), 1, "loss", "head"),
        (curve(losses=(3.0, 2.0, 1.1), first={"head": 0.0}), 1, "gradient of head", "head"),
    ],
)
def test_the_first_step_and_quantity_are_named(
    other: Curve, step: int, quantity: str, gradient: str
) -> None:
    for floor in (FLOOR, None):
        found = drift(REFERENCE, other, floor)
        assert (found.result, found.step, found.quantity, found.gradient) == (
            "NG",
            step,
            quantity,
            gradient,
        )
        assert found.ratio is not None
        assert found.ratio > 1
        assert quantity in found.reason


def test_the_floor_is_a_running_maximum_and_widens_later_limits_alone() -> None:
    assert FLOOR is not None
    assert FLOOR.values["loss", 1, ""] == 0.0
    assert FLOOR.values["loss", 2, ""] == pytest.approx(1e-6)
    assert FLOOR.values["loss", 3, ""] == pytest.approx(1e-6)
    at_third = curve(losses=(3.0, 2.0, 1.000009))  # below 10 x 1e-6, above 10 x 2.5e-7
    assert drift(REFERENCE, at_third, FLOOR).result == "OK"
    at_first = curve(losses=(3.000027, 2.0, 1.0))
    assert drift(REFERENCE, at_first, FLOOR).result == "NG"


def test_without_a_floor_the_stated_constants_hold() -> None:
    assert drift(REFERENCE, curve((3.000029, 2.0, 1.0)), None).result == "OK"  # 9.7e-6
    assert drift(REFERENCE, curve((3.000031, 2.0, 1.0)), None).result == "NG"  # 1.03e-5
    assert drift(REFERENCE, curve(first={"head": 3.00005}), None).result == "OK"  # 1.7e-5
    assert drift(REFERENCE, curve(first={"head": 3.00007}), None).result == "NG"  # 2.3e-5


def test_a_small_gradient_is_compared_relative_to_a_share_of_the_global_norm() -> None:
    ours = curve(first={"head": 1e-11})
    assert drift(ours, curve(first={"head": 3e-11}), None).result == "OK"
    assert drift(ours, curve(first={"head": 1e-6}), None).result == "NG"


@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_what_is_no_finite_number_on_one_side_is_ng(wrong: float) -> None:
    odd = [
        curve(losses=(3.0, wrong, 1.0)),
        curve(norms=(4.0, 4.0, wrong)),
        curve(last={"block": wrong}),
    ]
    for other in odd:
        for pair in ((REFERENCE, other), (other, REFERENCE)):
            found = drift(*pair, FLOOR)
            assert (found.result, found.ratio) == ("NG", INF)
        assert drift(other, other, FLOOR).result == "N/A"  # never OK


def test_a_missing_value_is_ng() -> None:
    without = [
        curve(losses=(3.0, 2.0)),
        curve(norms=(4.0,)),
        replace(REFERENCE, parameter_norms=REFERENCE.parameter_norms[:1]),
        replace(REFERENCE, parameter_norms=()),
        replace(REFERENCE, losses=()),
        replace(REFERENCE, parameter_norms=((1, {"embed": 1.0}), (3, PARAMETERS))),
        Curve(),
    ]
    for other in without:
        for pair in ((REFERENCE, other), (other, REFERENCE)):
            assert drift(*pair, FLOOR).result == "NG", other


def test_a_side_that_has_none_by_nature_is_not_available_with_its_reason() -> None:
    found = drift(REFERENCE, Curve(), FLOOR, may_lack=True)
    assert (found.result, found.reason) == ("N/A", "MSA recorded no loss")
    norms_only_here = replace(REFERENCE, parameter_norms=())
    assert drift(REFERENCE, norms_only_here, FLOOR, may_lack=True).result == "OK"
    assert drift(Curve(), Curve(), None).reason == "PTA and MSA recorded no loss"


def test_a_noise_run_that_lost_something_measures_nothing() -> None:
    assert noise_floor(REFERENCE, []) is None
    assert noise_floor(REFERENCE, [Curve()]) is None
    assert noise_floor(REFERENCE, [curve((3.0, NAN, 1.0))]) is None
    good = curve((3.0, 2.000002, 1.0))
    assert noise_floor(REFERENCE, [Curve(), good]) == noise_floor(REFERENCE, [good])


def test_a_steady_difference_is_taken_off() -> None:
    other = curve((3.06, 2.04, 1.02), (4.08, 4.08, 4.08))
    steady = Curve(tuple((s, 0.02) for s in STEPS), tuple((s, 0.02) for s in STEPS))
    assert drift(REFERENCE, other, FLOOR).result == "NG"
    assert drift(REFERENCE, other, FLOOR, bias=steady).result == "OK"
    assert drift(REFERENCE, REFERENCE, FLOOR, bias=steady).result == "NG"


def test_a_rank_of_its_own_mind_is_seen() -> None:
    wrong = curve(first={"head": 1.5})
    for compare in (run(REFERENCE, wrong), run(wrong, REFERENCE)):
        found = of_runs(run(REFERENCE, noise=(REFERENCE,)), compare, "training")
        assert (found.result, found.gradient) == ("NG", "head")
    assert of_runs(run(REFERENCE, wrong), run(REFERENCE), "training").result == "NG"
    assert of_runs(run(REFERENCE), run(REFERENCE), "training").result == "OK"


def test_a_run_that_failed_or_was_stored_before_has_no_drift() -> None:
    failed = replace(run(), outcome="error")
    assert of_runs(run(REFERENCE), failed, "training").result == "N/A"
    assert of_runs(run(REFERENCE), None, "training").result == "N/A"
    old = replace(run(REFERENCE), curves=None)
    assert of_runs(old, run(REFERENCE), "training").result == "N/A"
    assert of_runs(run(REFERENCE), run(), "training").result == "NG"


finite = st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-3)


@given(st.lists(finite, min_size=3, max_size=3), st.lists(finite, min_size=3, max_size=3))
def test_ok_means_that_every_figure_is_within_its_limit(
    ours: list[float], theirs: list[float]
) -> None:
    left, right = curve(tuple(ours)), curve(tuple(theirs))
    found = drift(left, right, None)
    gaps = [abs(value) for value in differences(left, right).values()]
    assert (found.result == "OK") == all(gap <= 1e-5 for gap in gaps)
    assert verdict(found).ratio == found.ratio


@given(st.floats(1.0, 100.0), st.floats(0.0, 1e-3))
def test_a_larger_factor_or_floor_never_makes_ng_of_ok(factor: float, gap: float) -> None:
    other = curve((3.0 * (1 + gap), 2.0, 1.0))
    strict = drift(REFERENCE, other, FLOOR)
    wide = Floor({name: 10 * value for name, value in FLOOR.values.items()}) if FLOOR else None
    for found in (
        drift(REFERENCE, other, FLOOR, Limits(factor=10.0 * factor)),
        drift(REFERENCE, other, wide),
    ):
        assert strict.result == "NG" or found.result == "OK"


def test_limits_of_a_device_take_what_a_person_set() -> None:
    assert limits("cpu", 10.0) == FLOAT32
    given = limits("cpu", 5.0, ("loss=1e-6", "first=2e-6"))
    assert (given.factor, given.loss, given.first, given.last) == (5.0, 1e-6, 2e-6, 2e-6)
    assert limits("npu", 10.0).assumed_curve * 10 == pytest.approx(0.01)


def made(ours: Sample, theirs: Sample) -> tuple[SampleDifference, ...]:
    return samples({"it": ours}, {"it": theirs})


def noise(**figures: Any) -> list[Curve]:
    return [Curve(outputs=(SampleDifference("it", **figures),))]


def test_a_video_is_held_against_the_floor_of_its_output() -> None:
    found = made(Video((2,), [1.0, 0.0]), Video((2,), [1.0, 2e-6]))
    assert output_drift(found, noise(kind="video", difference=1e-7)).result == "OK"
    assert output_drift(found, noise(kind="video", difference=1e-9)).result == "OK"
    found = made(Video((2,), [1.0, 0.0]), Video((2,), [1.0, 4e-6]))
    assert output_drift(found, noise(kind="video", difference=1e-7)).result == "NG"
    assert output_drift(found, noise(kind="video", difference=1e-6)).result == "OK"
    assert output_drift(found, noise(kind="video", difference=NAN)).floor == "constants"


def test_tokens_and_their_log_probabilities_are_compared() -> None:
    ours = Text((1, 2, 3), "", (-1.0, -1.0, -1.0))
    assert output_drift(made(ours, ours), []).ratio == 0.0
    close = Text((1, 2, 3), "", (-1.0, -1.000005, -1.0))
    assert output_drift(made(ours, close), noise(kind="text", difference=0, logprob=0.0)).ratio == (
        pytest.approx(0.5)
    )
    far = Text((1, 2, 3), "", (-1.0, -1.01, -1.0))
    assert output_drift(made(ours, far), []).quantity == "log probabilities of it"
    other = Text((1, 9, 3), "", (-1.0, -1.0, -1.0))
    found = output_drift(made(ours, other), [])
    assert (found.result, found.step, found.quantity) == ("NG", 2, "tokens of it")


def test_a_tie_that_noise_alone_decides_is_no_difference() -> None:
    ours, other = (Text((1, token, 3), "", (-1.0, -0.7, -1.0)) for token in (2, 9))
    tie = noise(kind="text", difference=1, place=2, logprob=1e-7)
    assert output_drift(made(ours, other), tie).result == "OK"
    early = Text((9, 2, 3), "", (-1.0, -0.7, -1.0))
    assert output_drift(made(ours, early), tie).result == "NG"


def test_a_text_stored_without_the_place_of_its_difference_still_differs() -> None:
    assert output_drift([SampleDifference("it", "text", 3.0)], []).result == "NG"
    assert output_drift([SampleDifference("it", "text", 0.0)], []).result == "OK"


def test_what_an_inference_did_not_make_or_can_not_be_read_is_never_ok() -> None:
    ours = Text((1,))
    assert output_drift(samples({"a": ours, "b": ours}, {"a": ours}), []).result == "NG"
    assert output_drift(made(ours, Unreadable("no sample")), [], may_lack=True).result == "NG"
    broken = made(Unreadable("no sample"), ours)
    assert output_drift(broken, []).result == "NG"
    assert output_drift(broken, [], may_lack=True).result == "N/A"
    assert output_drift((), []).result == "N/A"
    assert output_drift(made(Text((1,), "", (-1.0,)), ours), []).result == "NG"
