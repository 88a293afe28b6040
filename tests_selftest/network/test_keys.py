"""Each key of CogVideoX's mutation space does on cpu what space.yaml says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.mutation import draw
from pytest_lmsv.mutation.apply import apply
from tests_selftest.network.trained import COGVIDEOX, changed, curves, relative

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

SPACE = COGVIDEOX.space("cpu")
VALUES = [(key, value) for key in SPACE.drawn() for value in key.values]
VISIBLE = 1e-6
"""Relative: ten times what separates the two stacks on the same configuration."""
WITHOUT_EFFECT = {
    "/model/frames": 17,
    "/model/predictor/input_size": [8, 20, 32],
    "/model/predictor/num_embeds_ada_norm": 10,
    "/model/ae/num_res_blocks": 1,
    "/model/text_encoder/load_in_8bit": True,
    "/data/dataloader_param/drop_last": False,
    "/args/num-workers": 1,
    "/args/recompute-num-layers": 1,
}


def name(entry: tuple[Any, Any]) -> str:
    key, value = entry
    return f"{key.path[1:]}={json.dumps(value)}".replace(" ", "")


@pytest.fixture(scope="module")
def trained(
    pta_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What the unmutated configuration and each value give on PTA, all in one process."""
    documents = {"unmutated": COGVIDEOX.documents("cpu")}
    documents |= {
        name((key, value)): changed(dict.fromkeys((key.path, *key.sets), value))
        for key, value in VALUES
    }
    documents |= {path: changed({path: value}) for path, value in WITHOUT_EFFECT.items()}
    found = curves(pta_env, tmp_path_factory.mktemp("keys"), documents.values())
    return dict(zip(documents, found, strict=True))


def test_more_than_25_keys_can_be_mutated() -> None:
    assert len(SPACE.drawn()) > 25
    documents = {key.path.split("/")[1] for key in SPACE.drawn()}
    assert documents == {"model", "data", "args"}


def keys(value: Any, at: str = "") -> set[str]:
    """The pointers of all that is no mapping."""
    if not isinstance(value, dict) or not value:
        return {at}
    return {path for key, inner in value.items() for path in keys(inner, f"{at}/{key}")}


def test_the_cpu_profile_leaves_every_key_in_place() -> None:
    assert keys(COGVIDEOX.documents("cpu")) == keys(COGVIDEOX.documents("npu"))


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
        draw.draw(COGVIDEOX, "cpu", seed=43, iteration=number, attempt=0, count=3)
        for number in range(1, 201)
    ]
    documents = [apply(COGVIDEOX.documents("cpu"), mutation.edits) for mutation in drawn]
    found = curves(pta_env, tmp_path, documents, steps=1)
    assert [answer["error"] for answer in found if "error" in answer] == []
