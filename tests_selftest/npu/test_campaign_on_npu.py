"""What a campaign does around a run on npu."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import catalog
from pytest_lmsv.campaign import on_npu
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.sides import sides
from pytest_lmsv.launch import ascend, npus
from pytest_lmsv.launch.devices import DeviceSet
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Metrics, RunRecord
from pytest_lmsv.settings import Settings, Source, resolve
from tests_selftest.npu.standin import ROOT
from tests_selftest.npu.test_npus import TABLE

MODELS = catalog.load([ROOT / "mm_configs"])
PTA, MSA = sides("pta_msa")


def settings(folder: Path, **values: Any) -> Settings:
    given = {"device": "npu", "dataset_root": folder / "data", **values}
    return resolve(folder, [Source(given, lambda option: option.field)])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "iter_1", "iter1")


@pytest.fixture
def devices(tmp_path: Path) -> DeviceSet:
    return DeviceSet(0, "npu0", (4, 5), 29505, 61000, tmp_path)


def test_variables_of_a_training_with_fresh_weights(
    tmp_path: Path, place: Place, devices: DeviceSet
) -> None:
    spec = MODELS["internvl3"]
    found = on_npu.variables(settings(tmp_path), spec, MSA, place, devices)
    assert found["LOAD_PATH"] == ""
    assert found["SAVE_PATH"] == str(place.weights(MSA))
    assert found["ASCEND_RT_VISIBLE_DEVICES"] == "4,5"
    assert not on_npu.starts_from_checkpoint(settings(tmp_path), spec)
    never = settings(tmp_path, save_weights="never")
    assert on_npu.variables(never, spec, MSA, place, devices)["SAVE_PATH"] == ""


def test_variables_of_an_inference_from_a_checkpoint(
    tmp_path: Path, place: Place, devices: DeviceSet
) -> None:
    spec = MODELS["qwenvl"]
    weights = tmp_path / "data" / ascend.DEFAULT_WEIGHTS["qwenvl"]
    weights.mkdir(parents=True)
    (weights / ascend.CHECKPOINT).touch()
    found = on_npu.variables(settings(tmp_path), spec, PTA, place, devices)
    assert found["LOAD_PATH"] == str(weights)
    assert found["SAVE_PATH"] == ""
    assert found["LMSV_PATCH_POINT"].endswith(":Qwen2VlPipeline.generate")
    assert on_npu.starts_from_checkpoint(settings(tmp_path), spec)


def test_before_a_run_its_own_npus_must_be_free(
    tmp_path: Path, place: Place, devices: DeviceSet
) -> None:
    given, spec = settings(tmp_path, save_weights="never"), MODELS["qwenvl"]
    look = lambda: npus.parse(TABLE)  # noqa: E731
    on_npu.before(given, spec, place, devices, limit=0, looking=look)
    busy = dataclasses.replace(devices, devices=(1,))
    with pytest.raises(EnvironmentProblem, match="pid 4242"):
        on_npu.before(given, spec, place, busy, limit=0, looking=look)


@pytest.mark.parametrize("outcome", ["ok", "error", "timeout"])
def test_after_a_run_evidence_is_kept_of_a_failed_one(place: Place, outcome: Any) -> None:
    logs = place.run_folder(MSA) / "plog" / "debug"
    logs.mkdir(parents=True)
    (logs / "plog-1.log").write_text("E40021", encoding="utf-8")
    place.keep_run(MSA)
    run = RunRecord("msa", 1, outcome, outcome == "ok", Metrics(), versions={"mindspore": "2.7.1"})
    left = on_npu.after(
        run,
        MSA,
        place,
        run_id="run-1",
        launcher=("bash", "/l/msa_qwenvl.sh"),
        given={"MM_MODEL": "/m.json"},
        looking=lambda: npus.parse(TABLE),
    )
    assert left == ()
    kept = {path.name for path in place.folder.rglob("*") if path.is_file()}
    expected = {"by_hand.sh", "versions.json", "npu-smi.txt", "plog-1.log"}
    assert kept == (set() if outcome == "ok" else expected)
    assert on_npu.evidence_folder(place, MSA).exists() is (outcome != "ok")
