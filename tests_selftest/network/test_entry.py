"""The entry wrapper runs a script as Python would, and writes a record when its work is done."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lmsv import data

ENTRY = data.launchers() / "entry.py"
SCRIPT = """
import json, sys
from pathlib import Path
import beside
print(json.dumps([sys.argv, sys.path[0], __name__, beside.__file__]))
"""


def run(
    folder: Path, script: str, *argv: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run *script*, written to ``folder/real/script.py``, under the entry wrapper."""
    real = folder / "real"
    real.mkdir(exist_ok=True)
    (real / "script.py").write_text(script, encoding="utf-8")
    (real / "beside.py").touch()
    env = {"PATH": os.environ["PATH"], "LMSV_RUN_DIR": str(folder), "LMSV_RUN_ID": "this-run"}
    return subprocess.run(
        [sys.executable, str(ENTRY), str(real / "script.py"), *argv],
        env={**env, **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_script_sees_what_it_would_see_alone(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "--lr", "1e-5", "")
    real = tmp_path / "real"
    assert json.loads(done.stdout) == [
        [str(real / "script.py"), "--lr", "1e-5", ""],
        str(real),
        "__main__",
        str(real / "beside.py"),
    ]


def test_the_record_says_whose_work_is_complete(tmp_path: Path) -> None:
    model = tmp_path / "model.json"
    model.write_text("{}", encoding="utf-8")
    contract = {"LMSV_STACK": "pta", "LMSV_DEVICE": "cpu", "MM_MODEL": str(model)}
    assert run(tmp_path, "", RANK="1", WORLD_SIZE="2", **contract).returncode == 0
    record = json.loads((tmp_path / "record" / "rank_1.json").read_text(encoding="utf-8"))
    assert record["complete"] is True
    assert record["run_id"] == "this-run"
    assert (record["rank"], record["world_size"]) == (1, 2)
    assert (record["stack"], record["device"]) == ("pta", "cpu")
    assert record["documents"] == {"model": "sha256:" + hashlib.sha256(b"{}").hexdigest()}
    assert record["memory_mb"] is None  # nothing was measured: no figure
    assert [path.name for path in (tmp_path / "record").iterdir()] == ["rank_1.json"]


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("raise RuntimeError('no')", 1),
        ("import sys; sys.exit(3)", 3),
        ("import os; os._exit(4)", 4),
    ],
)
def test_a_failing_script_leaves_no_record(tmp_path: Path, script: str, status: int) -> None:
    assert run(tmp_path, "").returncode == 0  # an earlier run in the same folder left its record
    assert run(tmp_path, script).returncode == status
    assert not (tmp_path / "record" / "rank_0.json").exists()


@pytest.mark.parametrize("code", ["", "0", "None"])
def test_a_script_that_exits_with_0_is_complete(tmp_path: Path, code: str) -> None:
    assert run(tmp_path, f"import sys; sys.exit({code})").returncode == 0
    assert (tmp_path / "record" / "rank_0.json").exists()


def test_the_scheduler_of_msrun_writes_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "print('serving')", MS_ROLE="MS_SCHED").stdout == "serving\n"
    assert not (tmp_path / "record").exists()


def test_figures_that_are_no_numbers_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(data.launchers())
    number = importlib.import_module("lmsv_record").number
    infinite = float("inf")
    assert [number(value) for value in (float("nan"), infinite, -infinite)] == [
        "NaN",
        "Infinity",
        "-Infinity",
    ]
    assert number(1.23456789012) == 1.23456789
