"""Each key of InternVL3's mutation space does on cpu what space.yaml says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.mutation import draw
from pytest_lmsv.mutation.apply import apply
from tests_selftest.network.trained import MODELS, changed, curves, mended, relative

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

MODEL = "internvl3"
SPACE = MODELS[MODEL].space("cpu")
VALUES = [(key, value) for key in SPACE.drawn() for value in key.values]
VISIBLE = 1e-6
"""Relative: ten times what separates the two stacks on the same configuration."""
RESIZE = "/data/dataset_param/preprocess_parameters/train_pipeline/image/1/param"
WITHOUT_EFFECT = {
    "/model/text_decoder/num_key_value_heads": 1,
    "/model/text_decoder/rotary_percent": 0.5,
    "/model/text_decoder/rope_scaling/factor": 4.0,
    "/model/text_decoder/max_position_embeddings": 1024,
    "/model/select_layer": -2,
    "/args/seq-length": 512,
    "/data/dataset_param/group_by_length": False,
    f"{RESIZE}/interpolation": "BILINEAR",
    "/data/dataloader_param/collate_param/pad_id": 3,
}


def name(entry: tuple[Any, Any]) -> str:
    key, value = entry
    return f"{key.path[1:]}={json.dumps(value)}".replace(" ", "")


@pytest.fixture(scope="module")
def trained(
    pta_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What the unmutated configuration and each value give on PTA, all in one process."""
    documents = {"unmutated": changed({}, MODEL)}
    documents |= {name(entry): changed(mended(*entry, MODEL), MODEL) for entry in VALUES}
    documents |= {path: changed({path: value}, MODEL) for path, value in WITHOUT_EFFECT.items()}
    folder = tmp_path_factory.mktemp("keys")
    found = curves(pta_env, folder, documents.values(), steps=4, model=MODEL)
    return dict(zip(documents, found, strict=True))


def test_keys_of_every_component_can_be_mutated() -> None:
    paths = [key.path for key in SPACE.drawn()]
    assert len(paths) > 40
    for component in (
        "/model/image_encoder/vision_encoder/",
        "/model/text_decoder/",
        "/data/",
        "/args/",
    ):
        assert sum(path.startswith(component) for path in paths) >= 5, component


@pytest.mark.stacks
@pytest.mark.parametrize("entry", VALUES, ids=name)
def test_a_value_of_the_space_changes_the_run(
    trained: dict[str, dict[str, Any]], entry: tuple[Any, Any]
) -> None:
    unmutated, mutated = trained["unmutated"], trained[name(entry)]
    assert "error" not in mutated
    assert mutated["echo"][entry[0].path] == entry[1]
    assert (
        mutated["parameter_count"] != unmutated["parameter_count"]
        or relative(unmutated["losses"], mutated["losses"]) > VISIBLE
        or relative(unmutated["grad_norms"], mutated["grad_norms"]) > VISIBLE
    )


@pytest.mark.stacks
@pytest.mark.parametrize("path", WITHOUT_EFFECT)
def test_a_key_marked_dead_changes_nothing(trained: dict[str, dict[str, Any]], path: str) -> None:
    assert path not in {key.path for key in SPACE.drawn()}
    unmutated, same = trained["unmutated"], trained[path]
    assert same["losses"] == unmutated["losses"]
    assert same["grad_norms"] == unmutated["grad_norms"]


@pytest.mark.stacks
def test_200_drawn_mutations_all_run(pta_env: StackEnvironment, tmp_path: Path) -> None:
    drawn = [
        draw.draw(MODELS[MODEL], "cpu", seed=43, iteration=number, attempt=0, count=3)
        for number in range(1, 201)
    ]
    documents = [apply(changed({}, MODEL), mutation.edits) for mutation in drawn]
    found = curves(pta_env, tmp_path, documents, steps=1, model=MODEL)
    assert [answer["error"] for answer in found if "error" in answer] == []
