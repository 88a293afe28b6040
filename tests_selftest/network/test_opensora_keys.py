"""Every value of OpenSora's mutation space on cpu changes the video: all in one process on PTA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.mutation import draw
from pytest_lmsv.mutation.apply import apply
from tests_selftest.network.generated import OPENSORA, changed, differences, videos

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

SPACE = OPENSORA.space("cpu")
VALUES = [(key, value) for key in SPACE.drawn() for value in key.values]
VISIBLE = 1e-4
"""Relative: ten times what separates the two stacks on the same configuration, at most."""
WITHOUT_EFFECT = {
    "/model/diffusion/num_inference_steps": 30,
    "/model/diffusion/sample_method": "uniform",
    "/model/diffusion/use_discrete_timesteps": True,
    "/model/predictor/space_scale": 1.0,
    "/model/predictor/time_scale": 0.5,
    "/model/predictor/input_size": [8, 16, 16],
    "/model/predictor/enable_flashattn": False,
    "/model/ae/micro_frame_size": 9,
    "/model/ae/cal_loss": True,
    "/model/ae/freeze_vae_2d": True,
    "/model/ae/dtype": "bf16",
    "/model/use_prompt_preprocess": False,
    "/model/save_path": "elsewhere",
    "/args/lr": 1e-3,
}


def name(entry: tuple[Any, Any]) -> str:
    key, value = entry
    return f"{key.path[1:]}={json.dumps(value)}".replace(" ", "")


@pytest.fixture(scope="module")
def made(
    pta_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What the unmutated configuration and each value make on PTA, with ``difference`` to it."""
    documents = {"unmutated": OPENSORA.documents("cpu")}
    documents |= {
        name((key, value)): changed(dict.fromkeys((key.path, *key.sets), value))
        for key, value in VALUES
    }
    documents |= {path: changed({path: value}) for path, value in WITHOUT_EFFECT.items()}
    found = videos(pta_env, tmp_path_factory.mktemp("keys"), documents.values())
    assert [answer["error"] for answer in found if "error" in answer] == []
    paths = [answer["path"] for answer in found]
    for answer, away in zip(found, differences(pta_env, paths[0], paths), strict=True):
        answer["difference"] = away
    return dict(zip(documents, found, strict=True))


def test_more_than_15_keys_of_every_component_can_be_mutated() -> None:
    parts = [key.path.split("/")[2] for key in SPACE.drawn()]
    assert len(parts) > 15
    components = {"predictor", "diffusion", "pipeline_config", "ae", "fps", "prompt"}
    assert components <= set(parts)


@pytest.mark.stacks
@pytest.mark.parametrize("entry", VALUES, ids=name)
def test_a_value_of_the_space_changes_the_video(
    made: dict[str, dict[str, Any]], entry: tuple[Any, Any]
) -> None:
    answer = made[name(entry)]
    assert answer["echo"][entry[0].path] == entry[1]
    assert answer["difference"] > VISIBLE


@pytest.mark.stacks
@pytest.mark.parametrize("path", WITHOUT_EFFECT)
def test_a_key_marked_dead_changes_nothing(made: dict[str, dict[str, Any]], path: str) -> None:
    assert path not in {key.path for key in SPACE.drawn()}
    assert made[path]["difference"] == 0.0


@pytest.mark.stacks
def test_200_drawn_mutations_all_make_a_video(pta_env: StackEnvironment, tmp_path: Path) -> None:
    drawn = [
        draw.draw(OPENSORA, "cpu", seed=43, iteration=number, attempt=0, count=3)
        for number in range(1, 201)
    ]
    documents = [apply(OPENSORA.documents("cpu"), mutation.edits) for mutation in drawn]
    found = videos(pta_env, tmp_path, documents, steps=1)
    assert [answer["error"] for answer in found if "error" in answer] == []
