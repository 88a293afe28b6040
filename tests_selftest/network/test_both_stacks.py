"""CogVideoX on both stacks, by the launchers: equal weights, equal losses, equal gradients."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import (
    COGVIDEOX,
    changed,
    completion,
    curves,
    launched,
    relative,
    steps,
)

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

CLOSE = 1e-5
"""Relative: 2e-7 (loss) and 2e-6 (gradients) are what was measured over the whole space."""
MUTATED: dict[str, dict[str, Any]] = {
    "layers and heads": {"/model/predictor/num_layers": 3, "/model/predictor/num_heads": 3},
    "learned positions": {"/model/predictor/use_rope": False, "/args/lr": 5e-3},
    "one modulation": {
        "/model/predictor/norm_type": "ada_norm_single",
        "/model/predictor/dropout": 0.2,
    },
    "text by time": {
        "/model/predictor/concat_text_embed": False,
        "/model/text_encoder/ucg_rate": 0.5,
    },
    "geglu and patches": {
        "/model/predictor/activation_fn": "geglu",
        "/model/predictor/patch_size": [1, 4, 4],
    },
    "optimizer": {"/args/adam-eps": 1e-4, "/args/lr-decay-style": "inverse-square-root"},
    "data": {
        "/data/dataset_param/preprocess_parameters/num_frames": 17,
        "/data/dataloader_param/shuffle": False,
    },
}
LINE = re.compile(
    r"^ \[[-0-9]{10} [:0-9]{8}\] iteration +(\d+)/ +5 \| consumed samples: +\d+ \|"
    r" elapsed time per iteration \(ms\): [0-9.]+ \| learning rate: [0-9.E+-]+ \|"
    r" global batch size: +4 \| loss: ([0-9.E+-]+) \| loss scale: 1\.0 \| grad norm: [0-9.]+ \|"
    r" number of skipped iterations:   0 \| number of nan iterations:   0 \|$",
    re.MULTILINE,
)


def free_port() -> str:
    """A port that nobody has, below those that the system gives away by itself."""
    start = 20000 + os.getpid() * 7 % 10000
    for port in itertools.chain(range(start, 30000), range(20000, start)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)
    raise AssertionError("no free port")


def of_both(
    pta_env: StackEnvironment,
    msa_env: StackEnvironment,
    folder: Path,
    changes: dict[str, Any],
    workers: int = 1,
) -> tuple[Path, Path, str, str]:
    """Run *changes* on both stacks; the folders of the runs and what they printed."""
    found: list[Any] = []
    for environment in (pta_env, msa_env):
        place = folder / environment.stack
        done = launched(
            environment,
            place,
            changes,
            MASTER_PORT=free_port(),
            NPUS_PER_NODE=str(workers),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found += [place, done.stdout]
    return found[0], found[2], found[1], found[3]


def assert_aligned(pta: Path, msa: Path, rank: int = 0) -> None:
    """Weights, losses and gradients of one rank agree between the runs in *pta* and *msa*."""
    records = [completion(folder, rank) for folder in (pta, msa)]
    for field in ("parameters", "parameter_count", "echo", "documents", "steps", "world_size"):
        assert records[0][field] == records[1][field], field
    curves_of = [steps(folder, rank) for folder in (pta, msa)]
    for figure in ("loss", "grad_norm"):
        one, other = ([step[figure] for step in curve] for curve in curves_of)
        assert relative(one, other) < CLOSE, figure
    for place in (0, -1):
        one, other = (curve[place]["parameter_grad_norms"] for curve in curves_of)
        whole = curves_of[0][place]["grad_norm"]
        assert list(one) == list(records[0]["parameters"]) == list(other)
        for name, norm in one.items():
            assert norm > 0.0, f"{name} is not trained"
            assert abs(norm - other[name]) < CLOSE * max(norm, 1e-3 * whole), name


@pytest.mark.stacks
def test_the_unmutated_model_trains_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    pta, msa, printed, tailed = of_both(pta_env, msa_env, tmp_path, {})
    assert_aligned(pta, msa)
    worker = (msa / "msrun_log" / "worker_0.log").read_text(encoding="utf-8")
    for folder, text in ((pta, printed), (msa, worker)):
        lines = LINE.findall(text)
        assert [int(step) for step, _ in lines] == [1, 2, 3, 4, 5]
        for (_, loss), step in zip(lines, steps(folder), strict=True):
            assert float(loss) == pytest.approx(step["loss"], rel=1e-6)
        record = completion(folder)
        assert record["complete"]
        assert record["memory_kind"] == "rss"
        assert 0 < record["memory_mb"] < 2000
        assert record["run_id"] == folder.name
        assert set(record["documents"]) == {"model", "data", "args"}
        assert record["echo"]["/args/lr"] == COGVIDEOX.documents("cpu")["args"]["lr"]
    assert "torch" in completion(pta)["versions"]
    assert "mindspore" in completion(msa)["versions"]
    assert not LINE.findall((msa / "msrun_log" / "scheduler.log").read_text(encoding="utf-8"))
    assert len(list((msa / "record").iterdir())) == 2
    assert "arguments" in tailed


@pytest.mark.stacks
def test_two_workers_share_the_batch_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    pta, msa, printed, _ = of_both(pta_env, msa_env, tmp_path, {}, workers=2)
    for rank in (0, 1):
        assert_aligned(pta, msa, rank)
        assert completion(pta, rank)["world_size"] == 2
    assert [step["loss"] for step in steps(pta, 0)] == [step["loss"] for step in steps(pta, 1)]
    assert len(LINE.findall(printed)) == 5  # the last rank prints


@pytest.mark.stacks
def test_torchrun_shows_what_one_process_computes(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    changes = {"/model/predictor/num_layers": 3}
    folder = tmp_path / "pta"
    done = launched(pta_env, folder, changes, MASTER_PORT=free_port())
    assert done.returncode == 0, done.stdout + done.stderr
    plain, mutated = curves(pta_env, tmp_path, [changed({}), changed(changes)])
    by_launcher = [step["loss"] for step in steps(folder)]
    assert relative(mutated["losses"], by_launcher) < 1e-8
    assert relative(plain["losses"], by_launcher) > 1e-3


@pytest.mark.stacks
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATED)
def test_a_mutated_model_trains_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path, name: str
) -> None:
    pta, msa, _, _ = of_both(pta_env, msa_env, tmp_path, MUTATED[name])
    assert_aligned(pta, msa)


@pytest.mark.stacks
@pytest.mark.slow
def test_every_value_of_the_space_trains_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    single = [
        changed(dict.fromkeys((key.path, *key.sets), value))
        for key in COGVIDEOX.space("cpu").drawn()
        for value in key.values
    ]
    both = (curves(environment, tmp_path, single, steps=3) for environment in (pta_env, msa_env))
    for configuration, pta, msa in zip(single, *both, strict=True):
        assert "error" not in pta | msa, configuration
        assert pta["parameters"] == msa["parameters"]
        assert pta["echo"] == msa["echo"]
        assert relative(pta["losses"], msa["losses"]) < CLOSE, configuration
        assert relative(pta["grad_norms"], msa["grad_norms"]) < CLOSE, configuration


@pytest.mark.stacks
@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_a_failing_run_ends_with_its_error_and_leaves_no_record(
    stack: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = tmp_path / stack
    changes = {"/model/predictor/norm_type": "group_norm"}
    environment = request.getfixturevalue(f"{stack}_env")
    done = launched(environment, folder, changes, MASTER_PORT=free_port())
    assert done.returncode == 1
    assert "ValueError: norm_type must be one of" in done.stdout + done.stderr
    assert not (folder / "record" / "rank_0.json").exists()
    if stack == "msa":  # the scheduler did not wait 30 s for the heartbeat of the dead worker
        scheduler = (folder / "msrun_log" / "scheduler.log").read_text(encoding="utf-8")
        assert "timed out" not in scheduler
