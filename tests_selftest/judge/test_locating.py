"""Where two recordings differ first."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge import modules
from pytest_lmsv.judge.locating import locate
from pytest_lmsv.judge.modules import Call, Figures, Step

NAMES = ("embed", "blocks.0.norm", "blocks.0.mix", "blocks.0", "blocks.1.norm", "blocks.1", "head")
GRADIENTS = {f"{name}.weight": 1.0 + n for n, name in enumerate(NAMES) if name != "blocks.0"}


def tensor(scale: float = 1.0, shape: tuple[int, ...] = (2, 3)) -> Figures:
    values = {"mean": 0.1, "spread": 1.0, "largest": 2.0, "norm": 2.5, "mixed": 0.7}
    return Figures(shape, {name: value * scale for name, value in values.items()})


def step(number: int = 1, **changes: Any) -> Step:
    calls = tuple(Call(name, "Linear", (tensor(),), tensor()) for name in NAMES)
    made = Step(
        number,
        calls,
        {name: tensor() for name in GRADIENTS},
        dict(GRADIENTS),
        dict(GRADIENTS),
        1.25,
    )
    return replace(made, **changes)


def with_outputs(scale: float, *names: str, given: tuple[str, ...] = ()) -> tuple[Call, ...]:
    return tuple(
        replace(
            call,
            output=tensor(scale) if call.name in names else call.output,
            inputs=(tensor(scale),) if call.name in given else call.inputs,
        )
        for call in step().calls
    )


def test_two_equal_recordings_differ_nowhere() -> None:
    found = locate([step(1), step(2)], [step(1), step(2)])
    assert (found.kind, found.step, found.compared) == ("nothing", 2, 7)
    assert found.sentence == "step 2: all 7 module calls and 6 gradients agree"
    assert found.steps == (1, 2)


def test_the_first_module_that_differs_is_the_innermost() -> None:
    wrong = with_outputs(1.01, "blocks.0.mix", "blocks.0", "blocks.1", given=("blocks.1",))
    found = locate([step()], [step(calls=wrong, loss=1.3)])
    assert (found.kind, found.name, found.differing) == ("module", "blocks.0.mix", 3)
    assert found.right == ("embed", "blocks.0.norm")
    assert found.then == ("blocks.0", "blocks.1")
    assert found.relative == pytest.approx(0.01, rel=0.02)
    assert "it was given the same values" in found.sentence


def test_a_module_that_was_given_other_values_points_before_itself() -> None:
    wrong = with_outputs(1.01, "blocks.1.norm", "blocks.1", given=("blocks.1.norm",))
    found = locate([step()], [step(calls=wrong)])
    assert (found.kind, found.name) == ("between", "blocks.1.norm")
    assert "between blocks.0 (right) and it" in found.sentence


def test_code_between_two_parts_of_a_block_is_the_block_s() -> None:
    wrong = with_outputs(1.01, "blocks.0.mix", given=("blocks.0.mix",))
    assert "in the code of blocks.0 or" in locate([step()], [step(calls=wrong)]).sentence


def test_forwards_that_agree_lead_to_the_first_wrong_gradient_in_backward_order() -> None:
    wrong = {
        n: v * (2.0 if n.startswith(("embed", "blocks.0")) else 1) for n, v in GRADIENTS.items()
    }
    found = locate([step()], [step(own=wrong, gradients=wrong)])
    assert (found.kind, found.name) == ("gradient", "blocks.0.mix.weight")
    assert found.right == ("blocks.1.norm.weight", "blocks.1.weight", "head.weight")
    assert found.then == ("blocks.0.norm.weight", "embed.weight")
    assert "one of: blocks.1.norm, blocks.0, blocks.0.mix" in found.sentence


def test_own_gradients_that_agree_lead_to_the_sum_over_the_workers() -> None:
    wrong = {name: value * 2 for name, value in GRADIENTS.items()}
    found = locate([step()], [step(gradients=wrong)])
    assert (found.kind, found.differing) == ("sum", 0)
    assert "their sum over the workers does not" in found.sentence


def test_weights_that_differ_after_an_agreeing_step_lead_to_the_update() -> None:
    moved = {name: tensor(1.01) if name == "head.weight" else tensor() for name in GRADIENTS}
    found = locate([step(1), step(2)], [step(1), step(2, weights=moved)])
    assert (found.kind, found.step, found.name) == ("update", 2, "head.weight")
    assert "after step 1 differs (optimizer or schedule)" in found.sentence
    assert locate([step()], [step(weights=moved)]).kind == "weights"


def test_a_weight_whose_gradient_is_rounding_is_not_compared() -> None:
    tiny = {**GRADIENTS, "head.weight": 1e-9}
    moved = {name: tensor(1.01) if name == "head.weight" else tensor() for name in GRADIENTS}
    ours = [step(1, gradients=tiny, own=tiny), step(2)]
    assert locate(ours, [ours[0], step(2, weights=moved)]).kind == "nothing"


def test_modules_that_agree_under_another_loss_lead_behind_the_last_one() -> None:
    found = locate([step()], [step(loss=1.26)])
    assert (found.kind, found.right) == ("loss", ("head",))


def test_calls_of_one_side_are_counted_and_not_compared() -> None:
    other = step(calls=(*step().calls[1:], Call("extra", "Linear", (), tensor())))
    found = locate([step()], [other])
    assert (found.kind, found.compared, found.unmatched) == ("nothing", 6, ("embed", "extra"))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_on_one_side_differs(value: float) -> None:
    odd = replace(tensor(), values={**tensor().values, "norm": value})
    assert modules.difference(tensor(), odd).relative == math.inf
    assert modules.difference(odd, tensor()).relative == math.inf
    assert modules.difference(odd, odd).relative == 0.0


def test_another_shape_differs() -> None:
    found = modules.difference(tensor(), tensor(shape=(3, 2)))
    assert (found.measure, found.relative) == ("shape", math.inf)


def test_a_mean_about_zero_is_compared_with_the_values() -> None:
    a, b = (replace(tensor(), values={**tensor().values, "mean": m}) for m in (1e-9, -1e-9))
    assert modules.difference(a, b).relative < 1e-8


@given(at=st.integers(0, len(NAMES) - 1), scale=st.floats(1.0001, 3.0))
def test_a_module_and_all_after_it_wrong_names_that_module(at: int, scale: float) -> None:
    wrong = with_outputs(scale, *NAMES[at:], given=NAMES[at + 1 :])
    found = locate([step()], [step(calls=wrong)])
    assert (found.kind, found.name) == ("module", NAMES[at])


def test_a_recording_is_read_and_a_cut_line_left_out() -> None:
    figures = {
        "shape": [2],
        "mean": 0.0,
        "spread": "NaN",
        "largest": 1.0,
        "norm": 1.0,
        "mixed": 0.0,
    }
    line = {
        "step": 3,
        "calls": [{"name": "a#2", "type": "Linear", "inputs": [figures], "output": figures}],
        "weights": {"a.w": figures},
        "own_gradients": {"a.w": "Infinity"},
        "gradients": {"a.w": 2.0},
        "loss": 1.5,
    }
    (found,) = modules.read(json.dumps(line) + '\n{"step": 4, "ca')
    assert (found.step, found.calls[0].name, found.gradients) == (3, "a#2", {"a.w": 2.0})
    assert math.isnan(found.calls[0].output.values["spread"])
    assert found.own == {"a.w": math.inf}


def test_a_parameter_without_a_called_module_stands_behind_the_one_before_it() -> None:
    gradients = {"embed.weight": 1.0, "table": 1.0, "head.weight": 1.0}
    where = modules.places(step(gradients=gradients))
    assert modules.in_backward_order(gradients, where) == ["head.weight", "table", "embed.weight"]


def test_of_one_module_the_last_registered_is_reached_first() -> None:
    gradients = {"head.weight": 1.0, "head.bias": 1.0}
    where = modules.places(step(gradients=gradients))
    assert modules.in_backward_order(gradients, where) == ["head.bias", "head.weight"]
