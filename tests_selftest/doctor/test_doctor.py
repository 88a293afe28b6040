"""``lmsv doctor`` on a machine laid out in a folder: all well, then one thing wrong at a time."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lmsv import catalog, doctor
from pytest_lmsv.doctor.rows import Row
from pytest_lmsv.doctor.site import Site, ini
from pytest_lmsv.launch import ascend
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.npu.standin import ROOT, build, write
from tests_selftest.npu.test_npus import TABLE

PACKAGES = {
    "mindspeed": {
        "torch": "2.7.1",
        "torch_npu": "2.7.1.post2",
        "numpy": "1.26.0",
        "safetensors": "0.5.1",
        "diffusers": "0.30.3",
        "simplejson": "3.19",
        "transformers": "4.53.0",
        "qwen_vl_utils": "0.0.8",
    },
    "msadapter": {
        "mindspore": "2.7.1",
        "msadapter": "0.0.5",
        "numpy": "1.26.0",
        "ml_dtypes": "0.3.0",
        "scipy": "1.11.4",
        "safetensors": "0.5.1",
        "diffusers": "0.30.3",
        "simplejson": "3.19",
        "transformers": "4.51.0",
        "qwen_vl_utils": "0.0.8",
    },
}
FREE = "".join(
    line.replace("Alarm", "OK   ") for line in TABLE.splitlines(keepends=True) if "4242" not in line
)


def install(machine: Path, environment: str, package: str, version: str) -> None:
    site = machine / "conda/envs" / environment / "lib/python3.10/site-packages"
    for old in site.glob(f"{package}-*.dist-info"):
        old.rmdir()
    if version:
        (site / f"{package}-{version}.dist-info").mkdir(parents=True)


def smi(machine: Path, text: str) -> None:
    write(machine / "bin/npu-smi", f"#!/bin/sh\ncat <<'END'\n{text}END\n", program=True)


def weights(folder: Path, storage: str = "BFloat16Storage") -> None:
    write(folder / ascend.CHECKPOINT, "release")
    (folder / "release/mp_rank_00").mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "release/mp_rank_00/model_optim_rng.pt", "w") as archive:
        archive.writestr("archive/data.pkl", f"torch {storage}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is wrong for Qwen2.5-VL on one NPU."""
    place = build(tmp_path.resolve() / "site")
    for environment, packages in PACKAGES.items():
        for package, version in packages.items():
            install(place, environment, package, version)
    adaptor = "mindspeed/mindspore/mindspore_adaptor.py"
    write(place / "ws/MindSpeed" / adaptor, "'safetensors.torch.load_file'")
    (place / "ws/Megatron-LM").mkdir()
    code = place / "ws/MindSpeed-MM"
    write(code / "examples/internvl3/model_8B.json", "{}")
    write(code / "examples/qwen2vl/demo.jpeg", "")
    weights(place / "data/qwen2.5vl/ckpt/Qwen2.5-VL-7B-Instruct")
    write(place / "Ascend/cann/version.cfg", "version=8.3.RC1\n")
    write(place / "proc/net/tcp", "sl local\n 0: 00000000:0016 00000000:0000 0A\n")
    write(place / "proc/sys/net/ipv4/ip_local_reserved_ports", "61000-61015\n")
    write(place / "proc/sys/net/ipv4/ip_local_port_range", "32768 65000\n")
    (place / "shm").mkdir()
    smi(place, FREE)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.defpath}")
    monkeypatch.delenv("CONDA_EXE", raising=False)
    return place


def site(machine: Path, **changed: object) -> Site:
    found = Site(
        device="npu",
        models=(catalog.load([ROOT / "mm_configs"])["qwenvl"],),
        mindspeed_mm=machine / "ws",
        dataset_root=machine / "data",
        output=machine / "output",
        ascend_root=machine / "Ascend",
        proc=machine / "proc",
        shm=machine / "shm",
        master_port=free_port(),
    )
    return replace(found, **changed)  # type: ignore[arg-type]


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("", 0))
        port: int = trial.getsockname()[1]
        return port


def rows(found: Site) -> dict[str, Row]:
    return {row.check: row for row in doctor.checks(found)}


def test_nothing_is_wrong(machine: Path) -> None:
    found = doctor.checks(site(machine))
    assert [row for row in found if row.state != "OK"] == []
    assert len(found) > 30
    doctor.demand(found)


Break = Callable[[Path], None]


@pytest.mark.parametrize(
    ("break_it", "check", "state", "told"),
    [
        (
            lambda m: write(m / "bin/conda", "#!/bin/sh\n"),
            "pta environment",
            "FAIL",
            "no conda environment mindspeed",
        ),
        (
            lambda m: install(m, "msadapter", "mindspore", ""),
            "msa mindspore",
            "FAIL",
            "not installed",
        ),
        (
            lambda m: install(m, "msadapter", "mindspore", "2.8.0"),
            "msa mindspore",
            "WARN",
            "2.8.0, wanted 2.7.1",
        ),
        (
            lambda m: install(m, "msadapter", "numpy", "2.0.1"),
            "msa numpy",
            "FAIL",
            "2.0.1, wanted <=1.26.0",
        ),
        (
            lambda m: install(m, "msadapter", "ml_dtypes", "0.5.4"),
            "msa ml-dtypes",
            "WARN",
            "wanted 0.3.0",
        ),
        (
            lambda m: install(m, "msadapter", "safetensors", "0.7.0"),
            "msa safetensors",
            "WARN",
            "0.7.0, wanted 0.5.1",
        ),
        (
            lambda m: install(m, "msadapter", "simplejson", ""),
            "msa simplejson",
            "FAIL",
            "not installed",
        ),
        (
            lambda m: install(m, "mindspeed", "transformers", "4.57.6"),
            "pta transformers",
            "WARN",
            "wanted 4.53.0",
        ),
        (
            lambda m: install(m, "mindspeed", "qwen_vl_utils", ""),
            "pta qwen-vl-utils",
            "FAIL",
            "not installed",
        ),
        (
            lambda m: write(m / "ws/MindSpeed/mindspeed/mindspore/mindspore_adaptor.py", ""),
            "msa safetensors patch",
            "WARN",
            "does not replace",
        ),
        (lambda m: shutil.rmtree(m / "Ascend"), "CANN", "FAIL", "no set_env.sh"),
        (
            lambda m: write(m / "Ascend/cann/version.cfg", "version=8.2.RC1\n"),
            "CANN",
            "WARN",
            "8.2.RC1",
        ),
        (lambda m: (m / "bin/npu-smi").unlink(), "npu-smi", "FAIL", "missing"),
        (lambda m: smi(m, TABLE), "NPU health", "WARN", "NPU 1 Alarm"),
        (lambda m: smi(m, TABLE), "NPUs free", "WARN", "python (pid 4242, NPU 1"),
        (lambda m: smi(m, "+---+\n"), "NPUs", "FAIL", "0, 1 are needed"),
        (
            lambda m: (m / "ws/MindSpeed-MM/inference_vlm.py").unlink(),
            "qwenvl script",
            "FAIL",
            "no inference_vlm.py",
        ),
        (lambda m: shutil.rmtree(m / "ws/MindSpeed"), "MindSpeed", "FAIL", "not in"),
        (
            lambda m: shutil.rmtree(m / "ws/MindSpeed-MM"),
            "MindSpeed-MM",
            "FAIL",
            "no pretrain_vlm.py",
        ),
        (
            lambda m: (m / "ws/MindSpeed-MM/examples/qwen2vl/demo.jpeg").unlink(),
            "qwenvl files",
            "FAIL",
            "demo.jpeg",
        ),
        (lambda m: shutil.rmtree(m / "data/qwen2.5vl"), "qwenvl weights", "WARN", "fresh weights"),
        (
            lambda m: weights(m / "data/qwen2.5vl/ckpt/Qwen2.5-VL-7B-Instruct", "HalfStorage"),
            "qwenvl weights",
            "WARN",
            "fp16",
        ),
        (
            lambda m: write(m / "proc/net/tcp", "sl\n 0: 0100007F:EE49 0:0 0A\n"),
            "HCCL ports",
            "FAIL",
            "61001 is in use",
        ),
        (
            lambda m: write(m / "proc/sys/net/ipv4/ip_local_reserved_ports", "\n"),
            "HCCL ports",
            "WARN",
            "not reserved",
        ),
    ],
)
def test_one_thing_is_wrong(
    machine: Path, break_it: Break, check: str, state: str, told: str
) -> None:
    break_it(machine)
    found = rows(site(machine))
    assert (found[check].state, told in found[check].found) == (state, True), found[check]
    assert found[check].remedy
    assert all(row.remedy for row in found.values() if row.state != "OK")


def test_a_named_load_path_without_a_checkpoint_fails(machine: Path) -> None:
    found = rows(site(machine, load_path=machine / "nowhere"))
    assert found["qwenvl weights"].state == "FAIL"
    assert "start from random" in found["qwenvl weights"].remedy


def test_opensora_needs_mindspeed_mm_2_2_0(machine: Path) -> None:
    opensora = catalog.load([ROOT / "mm_configs"])["opensora"]
    assert rows(site(machine, models=(opensora,)))["opensora script"].state == "OK"
    (machine / "ws/MindSpeed-MM" / ascend.OPENSORA).unlink()
    found = rows(site(machine, models=(opensora,)))
    assert found["opensora script"].state == "FAIL"
    assert found["opensora files"].state == "FAIL"
    assert "OpenSora-STDiT-v3/model.safetensors" in found["opensora files"].found


def test_space_for_weights_is_part_of_the_need(machine: Path) -> None:
    assert rows(site(machine, iters=1000000))["disk"].state == "FAIL"
    assert rows(site(machine, iters=100000, save_weights="always"))["disk"].state == "FAIL"


def test_a_port_in_use_is_seen(machine: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert rows(site(machine, master_port=port))["master port"].state == "WARN"


def test_a_campaign_is_refused_for_a_fail_only(machine: Path) -> None:
    smi(machine, TABLE)
    doctor.demand(doctor.checks(site(machine)))
    (machine / "bin/npu-smi").unlink()
    with pytest.raises(EnvironmentProblem, match="npu-smi: missing, or no answer"):
        doctor.demand(doctor.checks(site(machine)))


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from pytest_lmsv import doctor; sys.exit(doctor.main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_reads_config_json_and_says_by_its_status(
    machine: Path, tmp_path: Path
) -> None:
    config = {
        "MINDSPEED_MM_PATH": str(machine / "ws"),
        "DATASET_ROOT": str(machine / "data"),
        "PTA_NAME": str(machine / "conda/envs/mindspeed"),
        "tasks": {"6": {"MODEL_NAME": "qwen2.5vl"}},
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ended = run(tmp_path, "--device", "npu", "--json")
    found = json.loads(ended.stdout)
    by_check = {row["check"]: row for row in found["rows"]}
    assert found["device"] == "npu"
    assert by_check["pta environment"]["found"] == str(machine / "conda/envs/mindspeed")
    assert by_check["qwenvl weights"]["state"] == "OK"
    assert ended.returncode == (0 if found["ok"] else 1)
    shown = run(tmp_path, "--device", "npu", "--mindspeed-mm-path", "/nowhere")
    assert shown.returncode == 1
    assert "FAIL  MindSpeed-MM" in shown.stdout
    assert "-> name the folder of its code" in shown.stdout


def test_on_cpu_the_cpu_environments_are_checked(tmp_path: Path) -> None:
    named = tmp_path / "own"
    (named / "bin").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nlmsv_pta_env = {named}\nlmsv_env_dir = {tmp_path / 'envs'}\n", encoding="utf-8"
    )
    ended = run(tmp_path, "--device", "cpu", "--json")
    by_check = {row["check"]: row for row in json.loads(ended.stdout)["rows"]}
    assert ended.returncode == 1
    assert by_check["pta environment"]["state"] == "FAIL"
    assert "has no bin/python" in by_check["pta environment"]["found"]
    assert by_check["msa environment"]["state"] in ("WARN", "FAIL")
    assert "CANN" not in by_check


def test_ini_settings_are_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nlmsv_model = "qwenvl"\naddopts = "-q"\n', encoding="utf-8"
    )
    assert ini(tmp_path) == {"model": "qwenvl"}
    (tmp_path / "pytest.ini").write_text("[pytest]\nlmsv_iters = 3\n", encoding="utf-8")
    assert ini(tmp_path) == {"iters": "3"}
