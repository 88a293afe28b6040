"""The recorder on real torch: calls that repeat, recomputed ones, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.judge import modules
from tests_selftest.npu.standin import ROOT

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

pytestmark = pytest.mark.stacks
CODE = """
import json, os, sys
sys.path.insert(0, "launchers")
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from cpu import recording

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, x, scale=None):
        return self.linear(x) * (1.0 if scale is None else scale)

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.again = Part(), Part()
        self.unused = nn.Linear(2, 2)
        self.pair = nn.Identity()
    def forward(self, x):
        x = self.part(self.part(x), scale=torch.full((1,), 2.0))
        x = checkpoint(self.again, x, use_reentrant=False)
        return self.pair((x, None))[0].pow(2).mean()

torch.manual_seed(1)
network = Network()
plain = torch.autograd.grad(network(torch.ones(2, 4)), list(network.part.parameters()))
recorder = recording.from_environment()
watched = recorder.observed(network)
for step in (1, 2, 3):
    recorder.begin(step, network)
    found = torch.autograd.grad(watched(torch.ones(2, 4)), list(network.part.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(plain, found)), "the recorder changes gradients"
    recorder.end(0, loss=1.0)
assert not network.part._forward_hooks
"""


@pytest.fixture(scope="module")
def steps(
    pta_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> tuple[modules.Step, ...]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "record").mkdir()
    (folder / "record" / "modules_0.jsonl").write_text('{"step": 9, "calls": []}\n')
    more = {"LMSV_RUN_DIR": str(folder), "LMSV_LOCATE": "1,3"}
    ended = pta_env.run(["-c", CODE], cwd=ROOT, env=more, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return modules.read((folder / "record" / "modules_0.jsonl").read_text())


def test_only_the_steps_that_were_asked_for_are_recorded(steps: tuple[modules.Step, ...]) -> None:
    assert [step.step for step in steps] == [1, 3]


def test_children_come_before_parents_and_repeated_calls_have_numbers(
    steps: tuple[modules.Step, ...],
) -> None:
    # What checkpoint runs again in the backward pass is not a call of the forward.
    assert [call.name for call in steps[0].calls] == [
        *("part.linear", "part", "part.linear#2", "part#2"),
        *("again.linear", "again", "pair", "<network>"),
    ]


def test_what_goes_in_and_out_is_measured(steps: tuple[modules.Step, ...]) -> None:
    calls = {call.name: call for call in steps[0].calls}
    assert calls["part"].type == "Part"
    assert calls["part"].inputs[0].shape == (2, 4)
    assert calls["part"].inputs[0].values["mean"] == 1.0
    assert len(calls["part#2"].inputs) == 2  # a tensor given by keyword, too
    assert calls["part#2"].output.values["norm"] > 0
    assert set(steps[0].weights) >= {"part.linear.weight", "unused.weight"}


SAME = """
import sys; sys.path.insert(0, "launchers")
import numpy as np
from cpu.recording import figures, plain
a = np.arange(6.0).reshape(2, 3)
one, other = figures(a), figures(a[:, ::-1])
assert {k: one[k] for k in ("mean", "spread", "largest", "norm")} == {
    k: other[k] for k in ("mean", "spread", "largest", "norm")}
assert abs(one["mixed"] - other["mixed"]) > 0.1 * one["norm"]
assert figures(np.zeros((0, 3))) == {"shape": [0, 3]}
assert plain({"a": [float("nan"), -float("inf")]}) == {"a": ["NaN", "-Infinity"]}
"""


def test_values_that_trade_places_are_seen(pta_env: StackEnvironment) -> None:
    ended = pta_env.run(["-c", SAME], cwd=ROOT, timeout=60)
    assert ended.returncode == 0, ended.stderr


PLANTED = {"scaled": {"blocks.1.feed_forward": 1.001}}
HALVED = {"halved": ["blocks.0.attention.q_norm"]}


def test_a_planted_module_or_gradient_is_named_and_a_clean_pair_is_not(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    from pytest_lmsv import catalog
    from pytest_lmsv.judge.locating import locate

    spec = catalog.load(catalog.default_folders())["cogvideox"]
    base: dict[str, Any] = {
        "documents": spec.documents("cpu"),
        "model": "cogvideox",
        "steps": 2,
        "seed": 43,
        "record": [1, 2],
    }

    def recorded(environment: StackEnvironment, stack: str, *kinds: dict[str, Any]) -> list[Any]:
        folders = [tmp_path / f"{stack}{number}" for number in range(len(kinds))]
        lines = [
            json.dumps({**base, **kind, "folder": str(folder)})
            for kind, folder in zip(kinds, folders, strict=True)
        ]
        (tmp_path / f"{stack}.jsonl").write_text("\n".join(lines))
        ended = environment.run(
            [
                Path(__file__).with_name("record.py"),
                ROOT / "launchers",
                tmp_path / f"{stack}.jsonl",
            ],
            cwd=tmp_path,
            env={
                "LMSV_STACK": stack,
                "OMP_NUM_THREADS": "1",
                "GLOG_v": "3",
                "DATASET_ROOT": str(tmp_path / "pta0" / "dataset"),  # written by the first run
            },
            timeout=300,
        )
        assert ended.stdout.count("{}") == len(kinds), ended.stdout + ended.stderr
        return [modules.read((f / "record" / "modules_0.jsonl").read_text()) for f in folders]

    (ours,) = recorded(pta_env, "pta", {})
    clean, planted, halved = recorded(msa_env, "msa", {}, PLANTED, HALVED)
    assert locate(ours, clean).kind == "nothing"
    found = locate(ours, planted)
    assert (found.kind, found.step, found.name) == ("module", 1, "blocks.1.feed_forward")
    assert found.relative == pytest.approx(1e-3, rel=0.01)
    found = locate(ours, halved)
    assert (found.kind, found.step) == ("gradient", 1)
    assert found.name.startswith("blocks.0.attention.q_norm.")
    assert not any(name.startswith("blocks.0.attention.q") for name in found.right)
    assert found.right
