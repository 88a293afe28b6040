"""The entry wrapper's patch points, on a package with MindSpeed-MM's names and real torch."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.npu.mindspeed_standin import write
from tests_selftest.npu.standin import ROOT

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

pytestmark = pytest.mark.stacks
MODEL: dict[str, Any] = {
    "dtype": "fp32",
    "text_decoder": {"hidden_size": 5, "num_key_value_heads": 2},
    "generation_config": {"max_new_tokens": 3, "top_k": 1},
}
SORA = "mindspeed_mm.tasks.inference.pipeline.opensora_pipeline:OpenSoraPipeline.__call__"
GENERATE = "mindspeed_mm.tasks.inference.pipeline.qwen2vl_pipeline:Qwen2VlPipeline.generate"


def run(
    environment: StackEnvironment, folder: Path, script: str, model: dict[str, Any], **more: str
) -> tuple[int, str, dict[str, Any] | None, list[dict[str, Any]]]:
    """Exit status, stderr, completion record and step records of *script* under the wrapper."""
    folder.mkdir()
    package = write(folder / "mm")
    (folder / "model.json").write_text(json.dumps(model), encoding="utf-8")
    (folder / "data.json").write_text("{}", encoding="utf-8")
    (folder / "args.txt").write_text("", encoding="utf-8")
    variables = {
        "LMSV_DEVICE": "npu",
        "LMSV_STACK": "pta",
        "LMSV_RUN_DIR": str(folder),
        "LMSV_RUN_ID": "run-1",
        "LMSV_SEED": "43",
        "LMSV_FRESH_WEIGHTS": "1",
        "TRAIN_ITERS": "3",
        "MM_MODEL": str(folder / "model.json"),
        "MM_DATA": str(folder / "data.json"),
        "LMSV_ARGS": str(folder / "args.txt"),
        "PYTHONPATH": str(package),
        **more,
    }
    ended = environment.run(
        [ROOT / "launchers/entry.py", package / script],
        cwd=folder,
        env=variables,
        timeout=120,
    )
    record, steps = folder / "record/rank_0.json", folder / "record/steps_0.jsonl"
    return (
        ended.returncode,
        ended.stderr,
        json.loads(record.read_text(encoding="utf-8")) if record.is_file() else None,
        [json.loads(line) for line in steps.read_text(encoding="utf-8").splitlines()]
        if steps.is_file()
        else [],
    )


@pytest.fixture(scope="module")
def trained(
    pta_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Record and steps of a training under the given variables; each kind of run is made once."""
    made: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}

    def train(name: str, **more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if name not in made:
            folder = tmp_path_factory.mktemp("runs") / name
            status, stderr, record, steps = run(pta_env, folder, "pretrain_vlm.py", MODEL, **more)
            assert status == 0, stderr
            assert record is not None
            made[name] = record, steps
        return made[name]

    return train


Trained = Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]
SHARED = {"LMSV_SHARED_RANDOMNESS": "on"}


def digests(record: dict[str, Any]) -> dict[str, str]:
    return {name: held["digest"] for name, held in record["parameters"].items()}


def test_training_leaves_a_record_of_what_it_began_with_and_did(trained: Trained) -> None:
    record, steps = trained("shared", **SHARED)
    assert record["steps"] == 3
    assert [step["step"] for step in steps] == [1, 2, 3]
    assert all(math.isfinite(step["loss"]) and step["grad_norm"] > 0 for step in steps)
    assert set(record["parameters"]) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert record["parameters"]["0.weight"]["shape"] == [5, 3]
    assert record["versions"]["torch"]


def test_fresh_weights_belong_to_the_seed_and_not_to_torch(trained: Trained) -> None:
    one, again = trained("shared", **SHARED)[0], trained("again", **SHARED)[0]
    other = trained("seed", **SHARED, LMSV_SEED="44")[0]
    own = trained("own", LMSV_FRESH_WEIGHTS="0")[0]
    assert digests(one) == digests(again)
    assert digests(one) != digests(other)
    assert digests(one) != digests(own)


def test_a_noise_run_starts_from_weights_that_are_moved_alike_each_time(trained: Trained) -> None:
    still, moved = trained("shared", **SHARED), trained("noise", **SHARED, LMSV_NOISE_RUN="1")
    again = trained("noise again", **SHARED, LMSV_NOISE_RUN="1")
    other = trained("noise 2", **SHARED, LMSV_NOISE_RUN="2")
    assert digests(moved[0]) == digests(again[0])
    assert all(a != b for a, b in zip(*map(values, (still, moved)), strict=True))
    assert digests(moved[0]) != digests(other[0])
    gaps = [abs(a["loss"] - b["loss"]) / a["loss"] for a, b in zip(still[1], moved[1], strict=True)]
    assert 0 < max(gaps) < 1e-5


def values(run: tuple[dict[str, Any], list[dict[str, Any]]]) -> list[str]:
    return list(digests(run[0]).values())


def test_a_moved_weight_is_its_neighbour_in_its_own_type(pta_env: StackEnvironment) -> None:
    code = """
import sys; sys.path.insert(0, "launchers")
import numpy as np, torch, npu_weights as w
start = w.initial("a.weight", (300, 40), 1)
start[0, :4] = [0.0, 1.0, -1.0, 2.0**-20]
for kind, digits, least in (
    (torch.bfloat16, 7, -126), (torch.float16, 10, -14), (torch.float32, 23, -126)
):
    given = torch.tensor(start).to(kind)
    values = given.float().numpy().reshape(-1)
    moved = w.moved(values, digits, least, np.random.RandomState(1))
    back = torch.tensor(moved).to(kind).float().numpy()
    assert np.array_equal(back, moved), kind  # nothing lies between two neighbours
    normal = np.abs(values) > 1e-4
    share = np.abs(moved - values)[normal] / np.abs(values)[normal]
    assert (share > 2.0**-digits / 2.1).all() and (share <= 2.0**-digits).all(), kind
    assert abs(moved[values == 0]).max() <= 2.0 ** (least - digits), kind
    assert 0.4 < (moved > values).mean() < 0.6
"""
    ended = pta_env.run(["-c", code], cwd=ROOT, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_shared_randomness_makes_two_runs_the_same(trained: Trained) -> None:
    one, again = trained("shared", **SHARED)[1], trained("again", **SHARED)[1]
    assert one == again
    assert one != trained("seed", **SHARED, LMSV_SEED="44")[1]
    assert len({step["loss"] for step in one}) == 3


def test_the_echo_holds_what_was_read_and_only_that(trained: Trained) -> None:
    echo = trained("shared", **SHARED)[0]["echo"]
    assert echo["/model/text_decoder/hidden_size"] == 5
    assert echo["/model/dtype"] == "fp32"
    assert "/model/text_decoder/num_key_value_heads" not in echo
    assert echo["/args/lr"] == 2e-5
    assert echo["/args/no-masked-softmax-fusion"] is True


def test_the_generation_call_is_timed(pta_env: StackEnvironment, tmp_path: Path) -> None:
    more = {"LMSV_PATCH_POINT": GENERATE}
    status, stderr, record, _ = run(pta_env, tmp_path / "a", "inference_vlm.py", MODEL, **more)
    assert status == 0, stderr
    assert record is not None
    assert 0 < record["generation_s"] < 60
    assert record["output_shape"] == [1, 3]
    assert record["parameters"]["weight"]["shape"] == [2, 3]


def test_an_inference_that_makes_nothing_leaves_no_record(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    model = {**MODEL, "generation_config": {"max_new_tokens": 0}}
    more = {"LMSV_PATCH_POINT": GENERATE}
    status, stderr, record, _ = run(pta_env, tmp_path / "a", "inference_vlm.py", model, **more)
    assert status != 0
    assert "no output was made" in stderr
    assert record is None


@pytest.mark.parametrize("adaptor", ["off", "on"])
def test_opensora_gets_the_mindspore_adaptor_only_where_it_is_asked_for(
    pta_env: StackEnvironment, tmp_path: Path, adaptor: str
) -> None:
    more = {"LMSV_STACK": "msa", "LMSV_PATCH_POINT": SORA, "LMSV_OPENSORA_MSA_ADAPTOR": adaptor}
    status, stderr, record, _ = run(pta_env, tmp_path / "a", "inference_sora.py", MODEL, **more)
    assert status == 0, stderr
    assert record is not None
    assert record["output_shape"] == [1, 2, 8, 8, 3]
    assert {name.split(".")[0] for name in record["parameters"]} == {
        "vae",
        "text_encoder",
        "predictor",
    }
    assert (tmp_path / "a" / "adaptor").read_text() == str(adaptor == "on")


def test_shards_of_a_weight_make_up_the_whole(pta_env: StackEnvironment) -> None:
    code = """
import sys; sys.path.insert(0, "launchers")
import numpy as np, npu_weights as w
w.BLOCK = 16  # several blocks, and shards that begin inside one
whole = w.initial("a.weight", (12, 5), 1)
for parts, dim in ((2, 0), (3, 0), (4, 0), (5, 1)):
    found = [w.initial("a.weight", (12, 5), 1, dim, part, parts) for part in range(parts)]
    assert np.array_equal(np.concatenate(found, axis=dim), whole), (parts, dim)
assert not np.array_equal(w.initial("b.weight", (12, 5), 1), whole)
assert abs(w.initial("norm.weight", (4096,), 1).mean() - 1) < 0.01
assert 0.015 < w.initial("a.bias", (4096,), 1).std() < 0.025
assert w.initial("scale", (), 1).shape == ()
"""
    ended = pta_env.run(["-c", code], cwd=ROOT, timeout=60)
    assert ended.returncode == 0, ended.stderr
