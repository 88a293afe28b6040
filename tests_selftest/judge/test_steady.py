"""The steady difference between the stacks on npu: bias, spread and floor."""

from __future__ import annotations

import math

import pytest

from pytest_lmsv.campaign.stored import from_plain, to_plain
from pytest_lmsv.judge.curves import limits
from pytest_lmsv.judge.drift import of_runs
from pytest_lmsv.judge.steady import pairs, steady, with_history
from pytest_lmsv.records import Curve, Metrics, RunRecord, Steady

LIMITS = limits("npu", 10.0)


def curve(*losses: float) -> Curve:
    return Curve(tuple(enumerate(losses, start=1)), tuple((n, 1.0) for n in range(1, 4)))


def run(made: Curve) -> RunRecord:
    return RunRecord("pta", 1, "ok", True, Metrics(), curves=(made,))


HERE = curve(3.0, 2.0, 1.0)
THERE = curve(3.06, 2.04, 1.02)


def test_a_difference_that_is_always_there_is_the_bias() -> None:
    found = steady([(HERE, THERE)], HERE, [curve(3.003, 2.0, 1.0)])
    assert [round(value, 9) for _, value in found.bias.losses] == [0.02] * 3
    assert [value for _, value in found.spread.losses] == [0.0] * 3
    assert [value for _, value in found.floor.losses] == pytest.approx([1e-3] * 3)
    far = curve(3.1, 2.07, 1.03)
    assert of_runs(run(HERE), run(far), "training", (), LIMITS, may_lack=True).result == "NG"
    assert of_runs(run(HERE), run(THERE), "training", (), LIMITS, steady=found).result == "OK"
    # 1.0133 of 1 is what it was; without the bias it is new
    assert of_runs(run(HERE), run(HERE), "training", (), LIMITS, steady=found).result == "NG"


def test_history_moves_the_bias_and_widens_the_spread() -> None:
    first = [(HERE, THERE)]
    found = with_history(steady(first), first, [(HERE, curve(3.12, 2.08, 1.04))])
    assert [round(value, 9) for _, value in found.bias.losses] == [0.03] * 3
    assert [round(value, 9) for _, value in found.spread.losses] == [0.01] * 3
    assert found.pairs == 2


def test_what_one_pair_lacks_has_no_bias() -> None:
    found = steady([(HERE, THERE), (HERE, curve(3.0, math.nan, 1.0))])
    assert [step for step, _ in found.bias.losses] == [1, 3]
    assert steady([]) == Steady()
    assert pairs([(run(HERE), None), (None, run(HERE)), (run(HERE), run(THERE))]) == [(HERE, THERE)]


def test_it_can_be_stored() -> None:
    found = steady([(HERE, THERE)], HERE, [curve(3.003, 2.0, 1.0)])
    assert from_plain(Steady, to_plain(found)) == found
