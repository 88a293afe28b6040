"""OpenSora 1.2: its parts are as published, and both stacks make the same video of a prompt."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.settings import CPU_OUTPUT
from tests_selftest.network.generated import (
    LAUNCHERS,
    OPENSORA,
    changed,
    differences,
    launched,
    videos,
)
from tests_selftest.network.trained import completion

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

PUBLISHED = Path(__file__).with_name("published_stdit3.py")
CLOSE = 5e-6
"""Relative: 5e-7 is the median over the whole space, 8e-7 the most, guidance included."""
PORTS = itertools.count(19600)
MUTATED: dict[str, dict[str, Any]] = {
    "layers and heads": {"/model/predictor/num_layers": 3, "/model/predictor/num_heads": 8},
    "no norms, strong guidance": {
        "/model/predictor/qk_norm": False,
        "/model/diffusion/cfg_scale": 9.0,
    },
    "odd sizes": {"/model/pipeline_config/input_size": [20, 24, 40]},
    "padding counts": {
        "/model/pipeline_config/use_attention_mask": False,
        "/model/ae/vae_micro_frame_size": 9,
    },
}


@pytest.mark.stacks
@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_the_parts_are_as_published(stack: str, request: pytest.FixtureRequest) -> None:
    environment: StackEnvironment = request.getfixturevalue(f"{stack}_env")
    boot = "from cpu import stack; stack.boot()\n" + PUBLISHED.read_text(encoding="utf-8").replace(
        "from __future__ import annotations\n", ""
    )
    env = {"PYTHONPATH": str(LAUNCHERS), "LMSV_STACK": stack, "OMP_NUM_THREADS": "1"}
    done = environment.run(["-c", boot], env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 8
    assert {part: away for part, away in found.items() if not away < 2e-6} == {}


@pytest.mark.stacks
def test_both_stacks_make_the_same_video(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    records = []
    for environment in (pta_env, msa_env):
        folder = tmp_path / environment.stack
        done = launched(environment, folder, {}, MASTER_PORT=str(next(PORTS)), TRAIN_ITERS="3")
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout + done.stderr
        assert "3/3 [" in printed
        assert "Saved 1 samples to" in printed
        assert "Inference finished." in printed
        records.append(completion(folder))
    pta, msa = records
    for field in ("parameters", "parameter_count", "echo", "documents", "steps", "world_size"):
        assert pta[field] == msa[field], field
    assert pta["steps"] == 3
    for record in records:
        assert 0 < record["generation_s"] < 60
        assert list(record["samples"]) == ["video_0.gif", "video_0.npy"]
    paths = [tmp_path / stack / "samples" / "video_0.npy" for stack in ("pta", "msa")]
    assert differences(pta_env, paths[0], paths[1:])[0] < CLOSE
    shown = (tmp_path / "msa" / "samples" / "video_0.gif").read_bytes()
    assert shown[:6] == b"GIF89a"
    assert struct.unpack("<HH", shown[6:10]) == (48, 32)
    assert shown.count(b"\x21\xf9\x04") == 34


@pytest.mark.stacks
def test_mutated_configurations_make_the_same_video_in_one_process(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    documents = [changed(changes) for changes in MUTATED.values()]
    pta, msa = (videos(env, tmp_path / env.stack, documents) for env in (pta_env, msa_env))
    for name, ours, theirs in zip(MUTATED, pta, msa, strict=True):
        assert "error" not in ours | theirs, name
        assert ours["parameters"] == theirs["parameters"]
        assert ours["echo"] == theirs["echo"]
        assert differences(pta_env, ours["path"], [theirs["path"]])[0] < CLOSE, name


@pytest.mark.stacks
@pytest.mark.slow
def test_every_value_of_the_space_makes_the_same_video(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    single = [
        changed(dict.fromkeys((key.path, *key.sets), value))
        for key in OPENSORA.space("cpu").drawn()
        for value in key.values
    ]
    pta, msa = (videos(env, tmp_path / env.stack, single) for env in (pta_env, msa_env))
    for configuration, ours, theirs in zip(single, pta, msa, strict=True):
        assert "error" not in ours | theirs, configuration
        away = differences(pta_env, ours["path"], [theirs["path"]])[0]
        assert away < CLOSE, (away, configuration)


@pytest.mark.stacks
def test_prompts_of_a_file_and_bad_configurations(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "prompts.txt").write_text("a red fox\n\na blue lake\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n", encoding="utf-8")
    size, prompt = "/model/pipeline_config/input_size", "/model/prompt"
    documents = [
        changed(changes)
        for changes in (
            {prompt: str(tmp_path / "prompts.txt")},
            {prompt: "a red fox"},
            {prompt: str(tmp_path / "empty.txt")},
            {size: [17, 30, 48]},
            {size: [9, 32, 48]},
            {"/model/predictor/num_heads": 5},
            {"/model/predictor/model_max_length": 20},
            {"/model/diffusion/sample_method": "normal"},
        )
    ]
    first, alone, *bad = videos(pta_env, tmp_path / "made", documents, steps=1)
    assert differences(pta_env, first["path"], [alone["path"]]) == [0.0]
    wanted = (
        "holds no prompts",
        "input_size must be divisible by 8",
        "needs 1 frame or at least 17, found 9",
        "hidden_size 48 is not divisible by num_heads 5",
        "model_max_length 20 != tokenizer model_max_length 24",
        "sample_method must be uniform or logit-normal",
    )
    for text, answer in zip(wanted, bad, strict=True):
        assert text in answer["error"]


READ_BACK = """
import json, sys
from pathlib import Path
import numpy as np
from PIL import Image, ImageSequence
from cpu import gif

random = np.random.RandomState(1)
for height, width in ((1, 1), (7, 5), (64, 64), (90, 130)):
    cube = random.randint(0, 6, (3, height, width, 3))
    cube[1] = 2  # a plain frame makes the longest codes
    path = Path(sys.argv[1]) / "video.gif"
    gif.write(path, cube / 5.0 * 2.0 - 1.0, 10)
    image = Image.open(path)
    frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]
    assert image.info["duration"] == 100 and image.info["loop"] == 0
    shown = [cube[0], *(each for last, each in zip(cube, cube[1:]) if (last != each).any())]
    assert len(frames) == len(shown), (height, width, len(frames))
    for frame, wanted in zip(frames, shown):
        assert (frame == wanted * 51).all(), (height, width)
"""


@pytest.mark.stacks
def test_a_gif_is_read_as_it_was_written(msa_env: StackEnvironment, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(LAUNCHERS)}  # MindSpore brings pillow, PyTorch does not
    done = msa_env.run(["-c", READ_BACK, tmp_path], env=env, timeout=60)
    assert done.returncode == 0, done.stderr


FAULTS = {
    "another GELU": "gelu = torch.nn.functional.gelu\n"
    "torch.nn.functional.gelu = lambda x, approximate='none': gelu(x)",
    "no RoPE": "stdit3.turned = lambda heads, cosines, sines: heads",
    "half precision": "attended = stdit3.attended\n"
    "stdit3.attended = lambda *all: attended(*all).half().float()",
    "a mask that lets through": "stdit3.HIDDEN = -10.0",
}
FAULTY = """
import runpy, sys
from cpu import stack; stack.boot()
import torch
from cpu import stdit3
FAULT
sys.argv = ["videos.py", *sys.argv[1:]]
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.mark.stacks
def test_planted_faults_are_beyond_the_default_limit(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    (good,) = videos(pta_env, tmp_path, [OPENSORA.documents("cpu")])
    script = LAUNCHERS / "cpu" / "videos.py"
    env = {"PYTHONPATH": str(LAUNCHERS), "LMSV_STACK": "pta", "OMP_NUM_THREADS": "1"}
    for name, fault in FAULTS.items():
        folder = tmp_path / name.replace(" ", "_")
        folder.mkdir()
        code = FAULTY.replace("FAULT", fault)
        done = pta_env.run(["-c", code, script, tmp_path / "jobs.jsonl", folder], env=env)
        assert done.returncode == 0, done.stderr
        away = differences(pta_env, good["path"], [folder / "0.npy"])[0]
        assert away > 5 * CPU_OUTPUT[0], (name, away)
