"""With the same weights our networks compute what the published classes compute.

Those are transformers' and diffusers'.

``LMSV_PARITY_ENV`` names an environment with the packages of the extra ``parity``; without it one
is built beside the PTA environment, which lends it torch.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import LAUNCHERS, changed

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

ROOT = Path(__file__).resolve().parents[2]
CLOSE = 1e-5
"""Relative to the largest value; 2e-6 is what was measured."""
VISION, PROJECTOR = "/model/image_encoder/vision_encoder", "/model/image_encoder/vision_projector"
TEXT, DATA = "/model/text_decoder", "/data/dataset_param"
GENERATION = "/model/generation_config"
INTERNVL3: dict[str, dict[str, Any]] = {
    "unmutated": {},
    "vision": {
        f"{VISION}/qk_layernorm": True,
        f"{VISION}/num_attention_heads": 2,
        f"{VISION}/normalization": "RMSNorm",
        f"{VISION}/downsample_ratio": 0.25,
        f"{PROJECTOR}/downsample_ratio": 0.25,
        f"{DATA}/down_sample_ratio": 0.25,
        f"{DATA}/max_dynamic_patch": 6,
    },
    "text": {
        f"{VISION}/add_qkv_bias": False,
        f"{VISION}/layernorm_epsilon": 1e-4,
        f"{TEXT}/num_query_groups": 1,
        f"{TEXT}/rotary_base": 500,
    },
    "sizes": {
        f"{TEXT}/hidden_size": 64,
        f"{PROJECTOR}/llm_hidden_size": 64,
        f"{TEXT}/num_layers": 3,
        f"{TEXT}/pipeline_num_layers": [3],
        f"{VISION}/patch_size": 4,
        f"{DATA}/patch_size": 4,
        f"{DATA}/use_thumbnail": False,
    },
}
QWENVL: dict[str, dict[str, Any]] = {
    "unmutated": {},
    "windows": {
        f"{VISION}/window_attn_size": 16,
        f"{TEXT}/num_query_groups": 1,
        f"{TEXT}/mrope_section": [4, 2, 2],
        "/model/image_path": "qwenvl/images/003.png",
        "/model/max_pixels": 4096,
    },
    "layers": {
        f"{VISION}/num_layers": 4,
        f"{VISION}/pipeline_num_layers": [4],
        f"{VISION}/fullatt_block_indexes": [0, 3],
        f"{TEXT}/rope_theta": 100.0,
        f"{GENERATION}/repetition_penalty": 1.3,
        f"{GENERATION}/kv_cache": False,
        "/model/image_path": "qwenvl/images/001.png",
    },
    "sizes": {
        f"{VISION}/spatial_merge_size": 4,
        f"{VISION}/temporal_patch_size": 1,
        f"{VISION}/llm_hidden_size": 96,
        f"{PROJECTOR}/ffn_hidden_size": 512,
        f"{PROJECTOR}/hidden_size": 96,
        f"{TEXT}/hidden_size": 96,
        f"{TEXT}/mrope_section": [4, 4, 4],
        f"{GENERATION}/no_repeat_ngram_size": 2,
        "/model/min_pixels": 12288,
    },
}
PREDICTOR = "/model/predictor"
# diffusers gives the norms of queries and keys, we the last norm, an eps of their own: 1e-6.
COGVIDEOX: dict[str, dict[str, Any]] = {
    "unmutated": {},
    "patches": {
        f"{PREDICTOR}/num_layers": 3,
        f"{PREDICTOR}/head_dim": 32,
        f"{PREDICTOR}/patch_size": [1, 4, 4],
        f"{PREDICTOR}/attention_bias": False,
    },
    "heads": {
        f"{PREDICTOR}/num_heads": 3,
        f"{PREDICTOR}/activation_fn": "gelu",
        f"{PREDICTOR}/time_embed_dim": 48,
        f"{PREDICTOR}/text_length": 20,
    },
    "frames": {
        "/data/dataset_param/preprocess_parameters/num_frames": 17,
        "/data/dataset_param/preprocess_parameters/max_height": 96,
        f"{PREDICTOR}/in_channels": 6,
        f"{PREDICTOR}/out_channels": 6,
        f"{PREDICTOR}/text_hidden_size": 32,
    },
}
JOBS = [
    (model, name, changes)
    for model, configurations in (("internvl3", INTERNVL3), ("qwenvl", QWENVL))
    for name, changes in configurations.items()
]


def built(pta_env: StackEnvironment, folder: Path) -> Path:
    """An environment with the packages of the extra ``parity``, those of *pta_env* among them."""
    done = pta_env.run(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    lent = done.stdout.strip()
    subprocess.run([pta_env.python, "-m", "venv", folder], check=True, timeout=300)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", where], check=True, capture_output=True, text=True)
    (Path(own.stdout.strip()) / "lent.pth").write_text(f"{lent}\n", encoding="utf-8")
    wanted = [str(python), "-m", "pip", "install", "--quiet", f"{ROOT}[parity]"]
    subprocess.run(wanted, check=True, timeout=900)
    return folder


@pytest.fixture(scope="module")
def parity_env(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment that ``LMSV_PARITY_ENV`` names, else one that is built."""
    named = os.environ.get("LMSV_PARITY_ENV")
    if named:
        return Path(named)
    folder = tmp_path_factory.mktemp("parity") / "environment"
    return built(request.getfixturevalue("pta_env"), folder)


def said(environment: Path, folder: Path, program: str, *arguments: Path) -> list[dict[str, Any]]:
    """The JSON lines that *program* of launchers/cpu prints."""
    done = subprocess.run(
        [environment / "bin" / "python", LAUNCHERS / "cpu" / program, *arguments],
        env={**os.environ, "LMSV_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def compared(
    parity_env: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What the published classes and ours compute for each of JOBS."""
    lines = [
        json.dumps({"model": model, "documents": changed(changes, model)})
        for model, _, changes in JOBS
    ]
    folder = tmp_path_factory.mktemp("published")
    jobs = folder / "jobs.jsonl"
    jobs.write_text("\n".join(lines), encoding="utf-8")
    found = said(parity_env, folder, "published.py", jobs)
    return {f"{model}-{name}": line for (model, name, _), line in zip(JOBS, found, strict=True)}


@pytest.mark.slow
@pytest.mark.stacks
@pytest.mark.parametrize("name", INTERNVL3)
def test_internvl3_is_the_published_network(compared: dict[str, dict[str, Any]], name: str) -> None:
    found = compared[f"internvl3-{name}"]
    assert found["logits"] < CLOSE
    assert found["loss"] < CLOSE
    assert found["tiles"] > 1


@pytest.mark.slow
@pytest.mark.stacks
@pytest.mark.parametrize("name", QWENVL)
def test_qwenvl_is_the_published_network(compared: dict[str, dict[str, Any]], name: str) -> None:
    found = compared[f"qwenvl-{name}"]
    assert found["logits"] < CLOSE
    assert len(found["ours"]) == 16
    assert found["ours"] == found["tokens"]


@pytest.fixture(scope="module")
def compared_videos(
    parity_env: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """How CogVideoX's published class differs from ours for each of COGVIDEOX."""
    eps = {f"{PREDICTOR}/norm_eps": 1e-6}
    jobs = [{"documents": changed(changes | eps)} for changes in COGVIDEOX.values()]
    folder = tmp_path_factory.mktemp("published")
    (folder / "jobs.jsonl").write_text("\n".join(map(json.dumps, jobs)), encoding="utf-8")
    found = said(parity_env, folder, "published_video.py", folder / "jobs.jsonl")
    return dict(zip(COGVIDEOX, found, strict=True))


@pytest.mark.slow
@pytest.mark.stacks
@pytest.mark.parametrize("name", COGVIDEOX)
def test_cogvideox_is_the_published_network(
    compared_videos: dict[str, dict[str, Any]], name: str
) -> None:
    assert compared_videos[name]["blocks"] < CLOSE
    assert compared_videos[name]["output"] < CLOSE


@pytest.mark.slow
@pytest.mark.stacks
def test_pictures_are_scaled_cut_and_read_as_published(parity_env: Path, tmp_path: Path) -> None:
    (found,) = said(parity_env, tmp_path, "published_pictures.py")
    assert found["scaled"] <= 1  # of 255: the last bit of a rounding
    assert (found["sizes"], found["grids"]) == (0, 0)
    assert found["patches"] < 1e-6
    assert found["read_alike"]
