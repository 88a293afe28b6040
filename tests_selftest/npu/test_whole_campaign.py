"""A campaign on device npu from the outside: real pytest, launchers, wrapper and doctor.

Only what an Ascend machine brings is a stand-in: MindSpeed-MM's package, CANN's variables, npu-smi,
and starters that run one rank.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.doctor.test_doctor import smi
from tests_selftest.npu import mindspeed_standin
from tests_selftest.npu.standin import ROOT, write
from tests_selftest.npu.test_npus import TABLE

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

pytestmark = pytest.mark.stacks
PACKAGES = {
    "mindspeed": ("torch", "torch_npu", "numpy", "safetensors", "diffusers", "transformers"),
    "msadapter": ("mindspore", "msadapter", "numpy", "ml_dtypes", "scipy", "safetensors",
                  "diffusers", "simplejson", "transformers"),
}  # fmt: skip
# Both run the wrapper as rank 0 of 1; msrun's worker writes into the folder that it was given.
TORCHRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift 2; done
RANK=0 WORLD_SIZE=1 exec python "$@"
"""
MSRUN = """#!/bin/bash
while [[ $1 == --* ]]; do
  if [[ $1 == --log_dir ]]; then folder=$2; fi
  if [[ $1 == *=* ]]; then shift; else shift 2; fi
done
mkdir -p "$folder"
RANK_ID=0 RANK_SIZE=1 python "$@" > "$folder/worker_0.log" 2>&1
"""


def machine(folder: Path, python: Path) -> Path:
    """An Ascend machine on which InternVL3's stand-in trains."""
    code = mindspeed_standin.write(folder / "ws" / "MindSpeed-MM")
    write(code / "examples/internvl3/model_8B.json", "{}")
    for name in ("pretrain_sora.py", "inference_sora.py", "mindspeed_mm/tools/tools.json"):
        write(code / name, "")
    adaptor = "MindSpeed/mindspeed/mindspore/mindspore_adaptor.py"
    write(folder / "ws" / adaptor, "'safetensors.torch.load_file'")
    (folder / "ws/Megatron-LM").mkdir()
    for name, text in (("mindspeed", TORCHRUN), ("msadapter", MSRUN)):
        starter = "torchrun" if name == "mindspeed" else "msrun"
        environment = folder / "envs" / name
        write(environment / "bin" / starter, text, program=True)
        write(environment / "bin/python", f'#!/bin/sh\nexec {python} "$@"\n', program=True)
    for name, packages in PACKAGES.items():
        site = folder / "envs" / name / "lib/python3.10/site-packages"
        for package in packages:
            version = "1.26.0" if package == "numpy" else "2.7.1"
            (site / f"{package}-{version}.dist-info").mkdir(parents=True)
    data = folder / "data/internvl3"
    for name in ("playground/opensource/ai2d_train_12k.jsonl", "playground/data/ai2d/a"):
        write(data / name, "")
    (data / "raw_ckpt/InternVL3-8B").mkdir(parents=True)
    eight = "".join(
        f"| {n}     910B1               | OK            | 93.1    45          0    / 0    |\n"
        f"| 0                         | 0000:C{n}:00.0  | 0       0    / 0    3355 / 65536 |\n"
        for n in range(8)
    )
    smi(folder, eight)
    return folder


def campaign(
    place: Path, project: Path, *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """One iteration of InternVL3 by real pytest, on the machine at *place*."""
    project.mkdir()
    (project / "pytest.ini").write_text(
        f"""[pytest]
lmsv_device = npu
lmsv_mindspeed_mm_path = {place / "ws"}
lmsv_dataset_root = {place / "data"}
lmsv_pta_env = {place / "envs/mindspeed"}
lmsv_msa_env = {place / "envs/msadapter"}
lmsv_shared_randomness = true
lmsv_save_weights = never
lmsv_gate = accuracy
""",
        encoding="utf-8",
    )
    environment = {
        **os.environ,
        "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "ASCEND_HOME_PATH": "/opt/cann",
        "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "XDG_CACHE_HOME": str(project / "cache"),
        "STANDIN_READS_ALL": "1",
        **more,
    }
    given = ["-p", "pytest_lmsv.plugin", "--model", "internvl3", "--iters", "1", "-q", *words]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *given],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def iteration(project: Path) -> Path:
    (folder,) = (project / "output").glob("2*/iters/internvl3/iter_1")
    return folder


def test_a_campaign_on_npu(pta_env: StackEnvironment, tmp_path: Path) -> None:
    place, project = machine(tmp_path.resolve() / "machine", pta_env.python), tmp_path / "project"
    ended = campaign(place, project)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    metrics = json.loads((iteration(project) / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["pta"]["loss"] == metrics["msa"]["loss"]
    assert metrics["pta"]["memory"] == metrics["msa"]["memory"] == 20.0
    for stack in ("pta", "msa"):
        path = iteration(project) / f"record/{stack}/rank_0.json"
        record = json.loads(path.read_text(encoding="utf-8"))
        assert record["parameters"]
        assert record["echo"]["/args/lr"]
    assert (iteration(project) / "msrun_log/worker_0.log").is_file()
    assert not (iteration(project) / "evidence").exists()


def drift(project: Path) -> dict[str, Any]:
    metrics = json.loads((iteration(project) / "metrics.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = metrics["analysis"]["drift"]
    return found


def test_drift_is_judged_beside_the_steady_difference(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    place, project = machine(tmp_path.resolve() / "machine", pta_env.python), tmp_path / "project"
    ended = campaign(place, project, STANDIN_AWAY="1.018")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = drift(project)
    assert (found["result"], found["floor"]) == ("OK", "measured")
    assert found["difference"] < 1e-5
    unmutated = iteration(project).parent / "unmutated"
    steady = json.loads((unmutated / "steady.json").read_text(encoding="utf-8"))
    assert [round(value, 5) for _, value in steady["bias"]["losses"]] == [0.018] * 5
    assert all(value > 0 for _, value in steady["floor"]["losses"])
    assert {v["name"]: v["result"] for v in steady["verdicts"]}["accuracy"] == "OK"
    assert "unmutated: accuracy OK 1.80 %" in ended.stdout + ended.stderr
    assert steady["reason"] == ""


def test_a_new_difference_is_drift_although_accuracy_is_ok(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    place, project = machine(tmp_path.resolve() / "machine", pta_env.python), tmp_path / "project"
    words = ("--lmsv-gate", "accuracy,drift", "--lmsv-noise", "0")
    more = {"STANDIN_AWAY": "1.018", "STANDIN_NEW": "1.02"}
    ended = campaign(place, project, *words, **more)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "drift NG: loss of step 1 differs by 0.02" in ended.stdout
    found = drift(project)
    assert (found["result"], found["step"], found["quantity"]) == ("NG", 1, "loss")
    assert found["ratio"] > 1
    assert "accuracy OK" in ended.stdout


def test_evidence_of_an_msa_that_fails_is_kept(pta_env: StackEnvironment, tmp_path: Path) -> None:
    place, project = machine(tmp_path.resolve() / "machine", pta_env.python), tmp_path / "project"
    error = "aclnnInplaceCopyGetWorkspaceSize call failed, please check!"
    fails = f"raise RuntimeError('{error}')"
    text = f'#!/bin/bash\necho plog > "$ASCEND_PROCESS_LOG_PATH/plog"\npython -c "{fails}"\n'
    write(place / "envs/msadapter/bin/msrun", text, program=True)
    ended = campaign(place, project)
    assert ended.returncode == 1
    assert "aclnnInplaceCopy" in ended.stdout
    evidence = iteration(project) / "evidence/msa"
    assert sorted(path.name for path in evidence.iterdir()) == [
        "ascend_log",
        "by_hand.sh",
        "npu-smi.txt",
        "versions.json",
    ]
    assert "msa_internvl3.sh" in (evidence / "by_hand.sh").read_text(encoding="utf-8")
    assert not (iteration(project) / "evidence/pta").exists()


def test_a_machine_that_is_not_ready_ends_the_session_with_one_reason(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    place, project = machine(tmp_path.resolve() / "machine", pta_env.python), tmp_path / "project"
    smi(place, TABLE)
    ended = campaign(place, project)
    assert ended.returncode == 4
    assert "lmsv doctor: NPUs: 2, 8 are needed" in ended.stderr
