"""NPUs, evidence and weights: what a campaign on npu asks for, without an NPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_lmsv.campaign import weights
from pytest_lmsv.launch import ascend, evidence, npus
from pytest_lmsv.problems import EnvironmentProblem

TABLE = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0.3                 Version: 24.1.0.3                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B1               | OK            | 93.1        45                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3355 / 65536         |
+===========================+===============+====================================================+
| 1     910B1               | Alarm         | 98.0        47                0    / 0             |
| 0                         | 0000:01:00.0  | 71          0    / 0          40110/ 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| No running processes found in NPU 0                                                            |
+===========================+===============+====================================================+
| 1       0                 | 4242          | python                   | 36755                   |
+===========================+===============+====================================================+
"""
FREE = TABLE.replace("4242 ", "4243 ").replace("| 1       0 ", "| 5       0 ")


def test_the_table_is_read() -> None:
    found = npus.parse(TABLE)
    assert found.driver == "24.1.0.3"
    assert found.npus == (
        npus.Npu(0, "910B1", "OK", 3355, 65536),
        npus.Npu(1, "910B1", "Alarm", 40110, 65536),
    )
    assert found.processes == (npus.NpuProcess(1, 4242, "python", 36755),)


def test_only_processes_of_others_on_our_devices_count() -> None:
    found = npus.parse(TABLE)
    assert npus.busy(found, [0]) == ()
    assert npus.busy(found, [0, 1], ours=[4242]) == ()
    assert npus.named(npus.busy(found, [1])) == "python (pid 4242, NPU 1, 36755 MB)"


def test_a_run_waits_until_the_devices_are_free() -> None:
    tables, said = iter([TABLE, TABLE, FREE]), list[str]()
    npus.wait_until_free(
        [0, 1], limit=5, poll=0.01, looking=lambda: npus.parse(next(tables)), say=said.append
    )
    assert said == ["waiting for NPUs: python (pid 4242, NPU 1, 36755 MB)"]


def test_the_wait_is_bounded_and_names_who_is_there() -> None:
    with pytest.raises(EnvironmentProblem, match=r"python \(pid 4242, NPU 1") as caught:
        npus.wait_until_free([1], limit=0.05, poll=0.01, looking=lambda: npus.parse(TABLE))
    assert caught.value.category == "device_busy"
    assert npus.wait_until_free([1], limit=0, looking=lambda: None) is None


def test_npu_smi_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "npu-smi"
    program.write_text(f"#!/bin/sh\n[ $1 = info ] && cat <<'END'\n{TABLE}END\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = npus.look()
    assert found is not None
    assert len(found.npus) == 2
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert npus.look() is None


def test_what_a_run_left_behind_is_found_by_its_run_id() -> None:
    child = subprocess.Popen(["sleep", "60"], env={"LMSV_RUN_ID": "run-é", "PATH": "/usr/bin:/bin"})
    try:
        assert npus.of_run("run-é") == {child.pid}
        assert npus.of_run("run") == frozenset()
        table = TABLE.replace("4242 ", f"{child.pid:<5}")
        assert [p.pid for p in npus.left_over(npus.parse(table), "run-é")] == [child.pid]
        assert npus.left_over(npus.parse(TABLE), "run-é") == ()
    finally:
        child.kill()
        child.wait()
    assert npus.left_over(None, "run-é") == ()


def test_an_environment_of_an_ascend_machine(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    (tmp_path / "lib/python3.10/site-packages/torch_npu-2.7.1.dist-info").mkdir(parents=True)
    found = ascend.environment("pta", str(tmp_path))
    assert (found.path, dict(found.versions)) == (tmp_path, {"torch-npu": "2.7.1"})
    with pytest.raises(EnvironmentProblem, match="no conda environment nobody's"):
        ascend.environment("msa", "nobody's")


def code(folder: Path, *files: str) -> Path:
    for name in ("pretrain_vlm.py", "examples/internvl3/model_8B.json", *files):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_the_version_of_mindspeed_mm(tmp_path: Path) -> None:
    older = code(tmp_path / "ws" / "MindSpeed-MM", ascend.OPENSORA)
    assert ascend.mindspeed_mm(tmp_path / "ws") == older
    assert ascend.mindspeed_mm(older) == older
    assert ascend.mindspeed_mm(tmp_path) is None
    assert ascend.mindspeed_mm_version(older) == "2.2.0"
    assert ascend.mindspeed_mm_version(code(tmp_path / "b")) == "2.3.0"
    newer = code(tmp_path / "c", "examples/mindspore/internvl3/x.sh")
    assert ascend.mindspeed_mm_version(newer) == "26.0.0"
    (newer / ".git").mkdir()
    (newer / ".git/HEAD").write_text("ref: refs/heads/2.2.0\n", encoding="utf-8")
    assert ascend.mindspeed_mm_version(newer) == "2.2.0"


def test_initial_weights(tmp_path: Path) -> None:
    assert ascend.initial_weights("qwenvl", tmp_path, tmp_path / "own") == tmp_path / "own"
    assert ascend.initial_weights("qwenvl", tmp_path, None) is None
    place = tmp_path / "qwen2.5vl/ckpt/Qwen2.5-VL-7B-Instruct"
    place.mkdir(parents=True)
    (place / ascend.CHECKPOINT).touch()
    assert ascend.initial_weights("qwenvl", tmp_path, None) == place
    assert ascend.initial_weights("opensora", tmp_path, None) == tmp_path / "opensora1.2"
    assert ascend.initial_weights("somebodys", tmp_path, None) is None
    assert ascend.starts_from_checkpoint("qwenvl", "npu", tmp_path, None)
    assert not ascend.starts_from_checkpoint("internvl3", "npu", tmp_path, None)
    assert not ascend.starts_from_checkpoint("qwenvl", "cpu", tmp_path, None)


def test_a_conda_environment_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "root/envs/mindspeed"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.delenv("MAMBA_EXE", raising=False)
    assert ascend.conda_environment("mindspeed", (tmp_path / "root",)) == folder
    assert ascend.conda_environment("other", (tmp_path / "root",)) is None
    assert ascend.conda_environment(str(folder)) == folder
    conda = tmp_path / "mamba"
    conda.write_text(f"#!/bin/sh\necho 'mine * {folder}'\n", encoding="utf-8")
    conda.chmod(0o755)
    assert ascend.conda_environment("mine", ()) == folder


def test_evidence_of_a_failed_run(tmp_path: Path) -> None:
    run, cann = tmp_path / "run", tmp_path / "Ascend/cann"
    (run / "plog/debug").mkdir(parents=True)
    (run / "plog/debug/plog-1.log").write_text("E40021", encoding="utf-8")
    cann.mkdir(parents=True)
    (cann / "version.cfg").write_text("toolkit_installed_version=[1:8.3.RC1]\n", encoding="utf-8")
    variables = {
        "ASCEND_PROCESS_LOG_PATH": str(run / "plog"),
        "LMSV_RUN_DIR": "/a b",
        "MM_MODEL": "/x; rm -rf $HOME",
        "SECRET": "s",
    }
    kept = evidence.keep(
        tmp_path / "kept",
        launcher=["bash", "/l/msa_qwenvl.sh"],
        variables=variables,
        versions={"mindspore": "2.7.1"},
        snapshot=npus.parse(TABLE),
        root=tmp_path / "Ascend",
    )
    names = {str(path.relative_to(tmp_path / "kept")) for path in kept}
    assert names == {
        "by_hand.sh",
        "versions.json",
        "npu-smi.txt",
        "ascend_log/debug/plog-1.log",
    }
    assert '"cann": "8.3.RC1"' in (tmp_path / "kept/versions.json").read_text()
    script = (tmp_path / "kept/by_hand.sh").read_text(encoding="utf-8")
    assert "SECRET" not in script
    shown = script.replace("bash /l/msa_qwenvl.sh", 'printf "%s|%s" "$LMSV_RUN_DIR" "$MM_MODEL"')
    done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert done.stdout == "/a b|/x; rm -rf $HOME"


def test_space_is_asked_for_before_the_run(tmp_path: Path) -> None:
    weights.check_space(tmp_path / "later" / "on", sides=2, side_gb=0)
    with pytest.raises(EnvironmentProblem, match="--lmsv-save-weights never") as caught:
        weights.check_space(tmp_path, sides=2, side_gb=1e9)
    assert caught.value.category == "no_space"
    (tmp_path / "model.pt").write_bytes(b"x" * 1024**2)
    assert weights.size_gb(tmp_path) == pytest.approx(1 / 1024)
