"""Each key of Qwen2.5-VL's mutation space does on cpu what space.yaml says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv.mutation import draw
from pytest_lmsv.mutation.apply import apply
from tests_selftest.network.trained import MODELS, answers, changed, mended, relative

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

MODEL = "qwenvl"
SPACE = MODELS[MODEL].space("cpu")
VALUES = [(key, value) for key in SPACE.drawn() for value in key.values]
VISIBLE = 1e-5
"""Relative, of the tokens' log-probabilities: 30 times what separates the two stacks."""
WITHOUT_EFFECT = {
    "/model/text_decoder/max_position_embeddings": 1024,
    "/model/text_decoder/hidden_dropout": 0.5,
    "/model/image_encoder/vision_encoder/tokens_per_second": 4,
    "/model/image_encoder/vision_encoder/intermediate_size": 96,
    "/model/image_encoder/vision_encoder/freeze": False,
    "/model/generation_config/max_new_tokens": 3,
    "/model/generation_config/kv_cache": False,
    "/model/generation_config/use_cache": False,
    "/model/generation_config/do_sample": False,
    "/model/generation_config/temperature": 0.7,
    "/model/generation_config/top_p": 0.5,
    "/model/generation_config/max_length": 3,
}


def name(entry: tuple[Any, Any]) -> str:
    key, value = entry
    return f"{key.path[1:]}={json.dumps(value)}".replace(" ", "")


@pytest.fixture(scope="module")
def answered(
    pta_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """What the unmutated configuration and each value answer on PTA, all in one process."""
    documents = {"unmutated": changed({}, MODEL)}
    documents |= {name(entry): changed(mended(*entry, MODEL), MODEL) for entry in VALUES}
    documents |= {path: changed({path: value}, MODEL) for path, value in WITHOUT_EFFECT.items()}
    found = answers(pta_env, tmp_path_factory.mktemp("keys"), documents.values())
    return dict(zip(documents, found, strict=True))


def test_keys_of_every_component_can_be_mutated() -> None:
    paths = [key.path for key in SPACE.drawn()]
    assert len(paths) > 35
    for component, least in (
        ("/model/image_encoder/vision_encoder/", 5),
        ("/model/image_encoder/vision_projector/", 5),
        ("/model/text_decoder/", 5),
        ("/model/generation_config/", 3),
        ("/model/image_path", 1),
    ):
        assert sum(path.startswith(component) for path in paths) >= least, component


@pytest.mark.stacks
@pytest.mark.parametrize("entry", VALUES, ids=name)
def test_a_value_of_the_space_changes_the_answer(
    answered: dict[str, dict[str, Any]], entry: tuple[Any, Any]
) -> None:
    unmutated, mutated = answered["unmutated"], answered[name(entry)]
    assert "error" not in mutated
    assert mutated["echo"][entry[0].path] == entry[1]
    assert (
        mutated["token_ids"] != unmutated["token_ids"]
        or relative(unmutated["logprobs"], mutated["logprobs"]) > VISIBLE
    )


@pytest.mark.stacks
@pytest.mark.parametrize("path", WITHOUT_EFFECT)
def test_a_key_marked_dead_changes_nothing(answered: dict[str, dict[str, Any]], path: str) -> None:
    assert path not in {key.path for key in SPACE.drawn()}
    unmutated, same = answered["unmutated"], answered[path]
    assert same["token_ids"] == unmutated["token_ids"]
    assert relative(unmutated["logprobs"], same["logprobs"]) < VISIBLE


@pytest.mark.stacks
def test_200_drawn_mutations_all_run(pta_env: StackEnvironment, tmp_path: Path) -> None:
    drawn = [
        draw.draw(MODELS[MODEL], "cpu", seed=43, iteration=number, attempt=0, count=3)
        for number in range(1, 201)
    ]
    documents = [apply(changed({}, MODEL), mutation.edits) for mutation in drawn]
    found = answers(pta_env, tmp_path, documents, steps=2)
    assert [answer["error"] for answer in found if "error" in answer] == []
