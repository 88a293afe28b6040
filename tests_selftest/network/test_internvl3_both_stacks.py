"""InternVL3 on both stacks, by the launchers: equal weights, equal losses, equal gradients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import (
    MODELS,
    changed,
    completion,
    curves,
    free_port,
    launched,
    mended,
    relative,
    steps,
)

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

MODEL = "internvl3"
CLOSE = 1e-5
"""Relative: 1e-6 is what was measured over the whole space."""
VISION, TEXT = "/model/image_encoder/vision_encoder", "/model/text_decoder"
MUTATED: dict[str, dict[str, Any]] = {
    "vision": {
        f"{VISION}/qk_layernorm": True,
        f"{VISION}/normalization": "RMSNorm",
        f"{VISION}/drop_path_rate": 0.4,
        f"{VISION}/hidden_dropout": 0.2,
    },
    "text": {
        f"{TEXT}/num_query_groups": 1,
        f"{TEXT}/activation_func": "quick_gelu",
        f"{TEXT}/attention_dropout": 0.2,
        f"{TEXT}/add_bias_linear": True,
    },
    "data": {
        "/data/dataset_param/max_dynamic_patch": 8,
        "/data/dataset_param/min_dynamic_patch": 4,
        "/args/calculate-per-sample-loss": True,
        f"{VISION}/freeze": True,
    },
}


def assert_aligned(
    pta_env: StackEnvironment,
    msa_env: StackEnvironment,
    tmp_path: Path,
    changes: dict[str, Any],
    workers: str = "1",
) -> None:
    """Both launched runs of *changes* agree in weights, losses and gradients."""
    folders = []
    for environment in (pta_env, msa_env):
        folder = tmp_path / environment.stack
        told = {"MASTER_PORT": free_port(), "NPUS_PER_NODE": workers}
        done = launched(environment, folder, changes, MODEL, **told)
        assert done.returncode == 0, done.stdout + done.stderr
        folders.append(folder)
    records = [completion(folder) for folder in folders]
    for field in ("parameters", "parameter_count", "echo", "documents", "steps"):
        assert records[0][field] == records[1][field], field
    both = [steps(folder) for folder in folders]
    assert len(both[0]) == 5
    for figure in ("loss", "grad_norm"):
        one, other = ([step[figure] for step in curve] for curve in both)
        assert relative(one, other) < CLOSE, figure
    for place in (0, -1):
        one, other = (curve[place]["parameter_grad_norms"] for curve in both)
        whole = both[0][place]["grad_norm"]
        frozen = changes.get(f"{VISION}/freeze", False)
        trained = [
            name
            for name in records[0]["parameters"]
            if not (frozen and name.startswith("vision_encoder."))
        ]
        assert list(one) == trained == list(other)
        for name, norm in one.items():
            assert norm > 0.0, f"{name} is not trained"
            assert abs(norm - other[name]) < CLOSE * max(norm, 1e-3 * whole), name


@pytest.mark.stacks
def test_the_unmutated_model_trains_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    assert_aligned(pta_env, msa_env, tmp_path, {})


@pytest.mark.stacks
@pytest.mark.slow
def test_two_workers_train_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    assert_aligned(pta_env, msa_env, tmp_path, {}, workers="2")


@pytest.mark.stacks
@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATED)
def test_a_mutated_model_trains_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path, name: str
) -> None:
    assert_aligned(pta_env, msa_env, tmp_path, MUTATED[name])


@pytest.mark.stacks
@pytest.mark.slow
def test_every_value_of_the_space_trains_alike_on_both_stacks(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    single = [
        changed(mended(key, value, MODEL), MODEL)
        for key in MODELS[MODEL].space("cpu").drawn()
        for value in key.values
    ]
    both = (
        curves(environment, tmp_path, single, steps=2, model=MODEL)
        for environment in (pta_env, msa_env)
    )
    for configuration, pta, msa in zip(single, *both, strict=True):
        assert "error" not in pta | msa, configuration
        assert pta["parameters"] == msa["parameters"]
        assert pta["echo"] == msa["echo"]
        assert relative(pta["losses"], msa["losses"]) < CLOSE, configuration
        assert relative(pta["grad_norms"], msa["grad_norms"]) < CLOSE, configuration
