"""What decides a run is drawn by NumPy alike on both stacks; its log lines are MindSpeed-MM's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import LAUNCHERS

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

DRAWN = """
import hashlib, json
import numpy as np
from cpu.randomness import Draws, permutation
from cpu.weights import initial

def digest(values):
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]

draws = Draws(43, 1, 0, 0)
first = digest(draws.normal("noise", (3, 4)))
others = [
    digest(draws.uniform("time_steps", (5,))),
    digest(draws.kept("blocks.0.attention", (4, 4), 0.5)),
    permutation(6, 43, 0).tolist(),
    digest(initial("blocks.0.attention.q.weight", (4, 8), 43)),
]
again = digest(draws.normal("noise", (3, 4)))
elsewhere = [
    digest(Draws(*place).normal("noise", (3, 4)))
    for place in ((44, 1, 0, 0), (43, 2, 0, 0), (43, 1, 1, 0), (43, 1, 0, 1))
]
print(json.dumps([first, again, others, elsewhere]))
"""
PRINTED = """
from cpu.training import iteration_line
for loss in (1.5, 0.0, float("nan"), -1.0, float("inf")):
    print(iteration_line(2, 5, 4, 12.34, 1e-5, loss, float("nan"), 1))
"""


def answer(environment: StackEnvironment, code: str) -> str:
    done = environment.run(["-c", code], env={"PYTHONPATH": str(LAUNCHERS)}, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.stacks
def test_random_numbers_belong_to_their_place_and_not_to_the_stack(
    pta_env: StackEnvironment, msa_env: StackEnvironment
) -> None:
    found: list[Any] = [json.loads(answer(each, DRAWN)) for each in (pta_env, msa_env)]
    assert found[0] == found[1]
    first, again, others, elsewhere = found[0]
    assert first == again
    assert len({first, *elsewhere}) == 5
    # A stored campaign is repeated with these numbers: they must never change.
    assert first == "7c00ff9ba02c"
    assert others == ["a6ec1dc857e6", "f77380cfb887", [1, 4, 5, 3, 0, 2], "c486d0f7d122"]


@pytest.mark.stacks
def test_a_loss_that_is_nan_or_negative_is_left_out_of_the_line(pta_env: StackEnvironment) -> None:
    lines = answer(pta_env, PRINTED).splitlines()
    shown = [line.partition("| loss: ")[2].split(" ")[0] for line in lines]
    assert shown == ["1.500000E+00", "0.000000E+00", "", "", "INF"]
    assert all("| number of nan iterations:   1 |" in line for line in lines)
    assert all("| grad norm: nan |" in line for line in lines)
