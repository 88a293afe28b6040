"""Noise runs: the same work from moved weights, after the run itself and without a trace in it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.judge.outcome import run_record
from pytest_lmsv.records import RunRecord
from tests_selftest.network.trained import changed, completion, curves, free_port, launched, steps

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

pytestmark = pytest.mark.stacks
SHORT = {"TRAIN_ITERS": "2"}


def noise(folder: Path, rank: int = 0) -> dict[str, Any]:
    text = (folder / "record" / f"noise_{rank}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def read(folder: Path, output: str) -> RunRecord:
    """The run as a campaign reads it."""
    log = folder / "run.log"
    log.write_text(output, encoding="utf-8")
    return run_record(
        stack="pta",
        kind="training",
        logs=[log],
        steps=2,
        exit_status=0,
        record=folder / "record",
        run_id=folder.name,
    )


def test_a_noise_run_leaves_its_curve_and_nothing_else(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    plain, noisy = tmp_path / "plain", tmp_path / "noisy"
    still = launched(pta_env, plain, {}, MASTER_PORT=free_port(), **SHORT)
    done = launched(pta_env, noisy, {}, MASTER_PORT=free_port(), LMSV_NOISE="2", **SHORT)
    assert still.returncode == done.returncode == 0, done.stderr
    assert done.stdout.count("consumed samples") == still.stdout.count("consumed samples") == 2
    assert steps(plain) == steps(noisy)
    assert completion(plain)["parameters"] == completion(noisy)["parameters"]
    assert not (plain / "record" / "noise_0.json").exists()
    found = read(noisy, done.stdout + done.stderr)
    assert found.outcome == "ok"
    assert found.curves is not None
    (own,) = found.curves
    assert len(found.noise) == 2
    for run in found.noise:
        assert [step for step, _ in run.losses] == [1, 2]
        assert [step for step, _ in run.parameter_norms] == [1, 2]
        assert list(run.parameter_norms[0][1]) == list(own.parameter_norms[0][1])
        assert run != own
        for (_, ours), (_, theirs) in zip(own.losses, run.losses, strict=True):
            assert math.isclose(ours, theirs, rel_tol=1e-5)
    assert found.noise[0] != found.noise[1]


def test_a_noise_run_that_fails_leaves_the_run_as_it_was(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2] / "launchers")!r})
os.environ.update(LMSV_RUN_DIR={str(tmp_path)!r}, LMSV_NOISE="1", LMSV_RUN_ID={tmp_path.name!r})
from cpu import noise
def fails(number): raise MemoryError("no more")
noise.measure(fails)
"""
    done = pta_env.run(["-c", code], timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert completion(tmp_path)["complete"] is True
    assert noise(tmp_path)["error"] == "MemoryError: no more"
    found = read(tmp_path, "")
    assert found.noise == ()
    assert [note.text for note in found.notes if note.code == "noise"] == [
        "the noise run failed: MemoryError: no more"
    ]


def test_two_workers_move_their_weights_alike(pta_env: StackEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    more = {"MASTER_PORT": free_port(), "NPUS_PER_NODE": "2", "LMSV_NOISE": "1", **SHORT}
    done = launched(pta_env, folder, {}, **more)
    assert done.returncode == 0, done.stderr
    first, second = (noise(folder, rank)["runs"] for rank in (0, 1))
    assert first == second
    assert noise(folder)["error"] is None


@pytest.mark.parametrize("model", ["opensora", "qwenvl"])
def test_an_inference_leaves_how_far_its_outputs_move(
    pta_env: StackEnvironment, tmp_path: Path, model: str
) -> None:
    folder = tmp_path / "run"
    done = launched(pta_env, folder, {}, model, MASTER_PORT=free_port(), LMSV_NOISE="1", **SHORT)
    assert done.returncode == 0, done.stderr
    found = read(folder, done.stdout)
    ((made,),) = (run.outputs for run in found.noise)
    if model == "opensora":
        assert (made.name, made.kind) == ("video_0.npy", "video")
        assert made.difference is not None
        assert 0 < made.difference < 1e-5
    else:
        assert (made.name, made.kind) == ("answer_0.json", "text")
        assert (made.difference, made.place) == (0.0, None)
        assert made.logprob is not None
        assert 0 < made.logprob < 1e-4


def test_both_stacks_are_moved_alike(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    """The baseline may be MSA (``--lmsv-compare msa_msa``)."""
    losses = []
    for environment in (pta_env, msa_env):
        folder = tmp_path / environment.stack
        folder.mkdir()
        (found,) = curves(environment, folder, [changed({})], steps=2, noise=1)
        losses.append(([loss for _, loss in found["noise"][0]["losses"]], found["losses"]))
    (moved, still), (moved_on_msa, _) = losses
    assert moved != still
    assert moved == pytest.approx(moved_on_msa, rel=1e-6)
