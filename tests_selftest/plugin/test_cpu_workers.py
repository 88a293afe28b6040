"""``--lmsv-cpu-workers``: the workers of a run share its batch, alike on both stacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_lmsv import catalog, data
from pytest_lmsv.problems import InputProblem
from tests_selftest.plugin.conftest import Toy, properties

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment


def test_mutations_are_drawn_for_so_many_workers() -> None:
    spec = catalog.load([data.mm_configs()])["cogvideox"]
    more = spec.with_workers("cpu", 2)
    assert (spec.layouts["cpu"].devices, more.layouts["cpu"].devices) == (1, 2)
    assert more.space("cpu").layout.devices == 2
    assert more.space("cpu").digest != spec.space("cpu").digest
    assert more.layouts["npu"] == spec.layouts["npu"]


def test_a_number_of_workers_that_does_not_fit_the_batch_is_refused() -> None:
    spec = catalog.load([data.mm_configs()])["cogvideox"]
    with pytest.raises(InputProblem, match=r"cogvideox can't run on 3 workers: .*batch"):
        spec.with_workers("cpu", 3)


def test_a_wrong_number_ends_the_session(toy: Toy) -> None:
    result = toy.run("--lmsv-cpu-workers=0")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--lmsv-cpu-workers: found '0'; give a whole number of at *"])


@pytest.mark.stacks
def test_two_workers_of_each_run_have_equal_losses(
    pytester: pytest.Pytester, pta_env: StackEnvironment, msa_env: StackEnvironment
) -> None:
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", "--model=cogvideox", "--iters=1", "--lmsv-steps=2"),
        *("--lmsv-cpu-workers=2", "--junitxml=junit.xml"),
        *("-o", f"lmsv_pta_env={pta_env.path}", "-o", f"lmsv_msa_env={msa_env.path}"),
        timeout=300,
    )
    result.assert_outcomes(passed=1)
    (case,) = properties(pytester.path / "junit.xml")
    assert case["lmsv.accuracy"] == "OK"
    assert float(case["lmsv.accuracy.diff"]) < 1e-5
    (campaign,) = (pytester.path / "output").iterdir()
    for stack in ("pta", "msa"):
        folder = campaign / "iters" / "cogvideox" / "iter_1" / "record" / stack
        losses = []
        for rank in (0, 1):
            record = json.loads((folder / f"rank_{rank}.json").read_text("utf-8"))
            assert record["world_size"] == 2
            lines = (folder / f"steps_{rank}.jsonl").read_text("utf-8").splitlines()
            losses.append([json.loads(line)["loss"] for line in lines])
        assert losses[0] == losses[1]  # of the whole batch, on each worker
        assert len(losses[0]) == 2
