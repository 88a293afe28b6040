"""Qwen2.5-VL on both stacks, by the launchers: equal weights, equal tokens, equal chances."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import (
    MODELS,
    answers,
    changed,
    completion,
    free_port,
    launched,
    mended,
    relative,
)

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

MODEL = "qwenvl"
CLOSE = 1e-5
"""Relative, of the tokens' log-probabilities: 1e-6 is what was measured over the whole space."""
VISION, TEXT = "/model/image_encoder/vision_encoder", "/model/text_decoder"
MUTATED: dict[str, dict[str, Any]] = {
    "vision": {
        f"{VISION}/window_attn_size": 16,
        f"{VISION}/fullatt_block_indexes": [0, 2],
        f"{VISION}/activation_func": "quick_gelu",
        "/model/image_encoder/vision_projector/normalization": "LayerNorm",
        "/model/max_pixels": 4096,
    },
    "text": {
        f"{TEXT}/num_query_groups": 1,
        f"{TEXT}/mrope_section": [4, 2, 2],
        f"{TEXT}/gated_linear_unit": False,
        "/model/prompts": "What is in this picture?",
    },
    "generation": {
        "/model/generation_config/repetition_penalty": 1.2,
        "/model/generation_config/no_repeat_ngram_size": 1,
        "/model/generation_config/kv_cache": False,
        "/model/image_path": "qwenvl/images/003.png",
    },
}


def answer(folder: Path) -> dict[str, Any]:
    """What the first rank kept of its answer."""
    text = (folder / "samples" / "answer_0.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def assert_alike(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path, changes: dict[str, Any]
) -> dict[str, Any]:
    """Both launched runs of *changes* answer alike; returns PTA's answer."""
    folders = []
    for environment in (pta_env, msa_env):
        folder = tmp_path / environment.stack
        done = launched(environment, folder, changes, MODEL, MASTER_PORT=free_port())
        assert done.returncode == 0, done.stdout + done.stderr
        kept = answer(folder)
        log = folder / "msrun_log" / "worker_0.log"
        printed = log.read_text(encoding="utf-8") if log.exists() else done.stdout
        assert kept["text"] in printed
        assert len(list((folder / "samples").iterdir())) == 1
        folders.append(folder)
    records = [completion(folder) for folder in folders]
    for field in ("parameters", "parameter_count", "echo", "documents", "steps"):
        assert records[0][field] == records[1][field], field
    for record in records:
        assert record["complete"]
        assert record["steps"] == 5
        assert 0 < record["generation_s"] < 60
        assert record["memory_kind"] == "rss"
    one, other = (answer(folder) for folder in folders)
    assert one["token_ids"] == other["token_ids"]
    assert one["text"] == other["text"]
    assert relative(one["logprobs"], other["logprobs"]) < CLOSE
    return one


@pytest.mark.stacks
def test_the_unmutated_model_answers_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    found = assert_alike(pta_env, msa_env, tmp_path, {})
    here = tmp_path / "one process"
    here.mkdir()
    (again,) = answers(pta_env, here, [changed({}, MODEL)])
    assert found["token_ids"] == again["token_ids"]
    assert relative(found["logprobs"], again["logprobs"]) < 1e-8


@pytest.mark.stacks
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATED)
def test_a_mutated_model_answers_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path, name: str
) -> None:
    assert_alike(pta_env, msa_env, tmp_path, MUTATED[name])


@pytest.mark.stacks
@pytest.mark.slow
def test_every_value_of_the_space_answers_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    single = [
        changed(mended(key, value, MODEL), MODEL)
        for key in MODELS[MODEL].space("cpu").drawn()
        for value in key.values
    ]
    both = (answers(environment, tmp_path, single) for environment in (pta_env, msa_env))
    for configuration, pta, msa in zip(single, *both, strict=True):
        assert "error" not in pta | msa, configuration
        assert pta["parameters"] == msa["parameters"]
        assert pta["echo"] == msa["echo"]
        assert pta["token_ids"] == msa["token_ids"], configuration
        assert relative(pta["logprobs"], msa["logprobs"]) < CLOSE, configuration


@pytest.mark.stacks
def test_the_cache_changes_no_token(pta_env: StackEnvironment, tmp_path: Path) -> None:
    both = [changed({"/model/generation_config/kv_cache": kept}, MODEL) for kept in (True, False)]
    cached, plain = answers(pta_env, tmp_path, both, steps=16)
    assert len(cached["token_ids"]) == 16
    assert cached["token_ids"] == plain["token_ids"]
    assert relative(cached["logprobs"], plain["logprobs"]) < CLOSE


@pytest.mark.stacks
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({f"{VISION}/fullatt_block_indexes": None}, "ValueError: fullatt_block_indexes is needed"),
        ({f"{TEXT}/mrope_section": [4, 4, 4]}, "ValueError: mrope_section [4, 4, 4] must add up"),
        ({f"{TEXT}/pipeline_num_layers": [3]}, "pipeline_num_layers [3] must add up to 2"),
        ({f"{TEXT}/pipeline_num_layers": [1, 1]}, "pipeline_num_layers must equal to"),
        ({"/model/generation_config/top_k": 5}, "top_k 5: on cpu the next token is the most"),
        ({"/model/image_path": "/nowhere.png"}, "No such file or directory: '/nowhere.png'"),
    ],
)
def test_a_configuration_that_can_not_be_is_named(
    pta_env: StackEnvironment, tmp_path: Path, changes: dict[str, Any], error: str
) -> None:
    (found,) = answers(pta_env, tmp_path, [changed(changes, MODEL)])
    assert error in found["error"]
