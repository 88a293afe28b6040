"""Dumps of two runs, compared by msprobe's own command and read by its numbers."""

from __future__ import annotations

import csv
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_lmsv.campaign import dumped
from pytest_lmsv.judge import msprobe
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.npu.standin import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

GOLDEN = Path(__file__).parent / "golden" / "msprobe_compare.csv"
"""Of mindstudio-probe 26.2.0: two dumps of dump_small.py, in one of which the result of a layer is
scaled by 1.05 behind it."""


def environment(folder: Path, script: str) -> StackEnvironment:
    """An environment whose python is the shell *script*."""
    python = folder / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return StackEnvironment("pta", folder / "env", {})


def dump(record: Path, step: int, framework: str, name: str = "proc7") -> None:
    folder = record / "msprobe" / f"step{step}" / name
    folder.mkdir(parents=True)
    tensor = {"type": f"{framework}.Tensor", "dtype": f"{framework}.float32", "shape": [2]}
    content = {
        "framework": framework,
        "data": {"Module.0.a.Linear.forward.0": {"output": [tensor]}},
    }
    (folder / "dump.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "construct.json").write_text("{}", encoding="utf-8")


def test_every_row_of_a_wrong_layer_is_called_a_pass_and_is_found_all_the_same() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert {row["Result"] for row in csv.DictReader(text.splitlines())} == {"pass"}
    found = msprobe.located(msprobe.rows(text), step=1)
    assert (found.kind, found.name, found.compared) == ("between", "0.2.narrow", 71)
    assert found.right[-1] == "0.2.widen"
    assert found.unmatched == ()


def test_forwards_that_agree_lead_to_the_first_wrong_weight_gradient() -> None:
    rows = [row for row in msprobe.rows(GOLDEN.read_text(encoding="utf-8")) if row.way != "forward"]
    found = msprobe.located(rows, step=1)
    assert (found.kind, found.name) == ("gradient", "0.2.narrow.weight")
    assert found.right == ("0.3", "0.3", "0.2.narrow")


@pytest.mark.parametrize("rank", ["rank0", "proc7"])
def test_both_dumps_reach_msprobe_as_those_of_torch(tmp_path: Path, rank: str) -> None:
    ours, theirs, out = (tmp_path / name for name in ("ours", "theirs", "out"))
    dump(ours, 0, "torch", rank)
    dump(theirs, 0, "mindspore", rank)
    # -c COMMAND compare -tp TARGET -gp BENCH -o OUT
    env = environment(tmp_path, f'cp "{GOLDEN}" "$9/compare_result_1.csv"')
    found = dumped.compared(env, ours, theirs, out)
    assert (found.step, found.name) == (1, "0.2.narrow")
    kinds = [
        json.loads((out / "compared_step1" / name / "dump.json").read_text(encoding="utf-8"))
        for name in ("bench", "target")
    ]
    assert kinds[0] == {**kinds[1]}
    assert kinds[0]["framework"] == "pytorch"
    assert (out / "compared_step1" / "bench" / "construct.json").is_file()


def test_no_dump_says_what_to_look_for(tmp_path: Path) -> None:
    env = environment(tmp_path, "exit 0")
    with pytest.raises(EnvironmentProblem, match=r"no dump in .*mindstudio-probe"):
        dumped.compared(env, tmp_path, tmp_path, tmp_path / "out")


def test_a_comparison_that_fails_is_one_line_with_its_reason(tmp_path: Path) -> None:
    for side in ("ours", "theirs"):
        dump(tmp_path / side, 0, "torch")
    env = environment(tmp_path, "echo first >&2; echo 'Unrecognized framework' >&2; exit 1")
    with pytest.raises(EnvironmentProblem, match=r"failed: Unrecognized framework$"):
        dumped.compared(env, tmp_path / "ours", tmp_path / "theirs", tmp_path / "out")


@pytest.mark.slow
@pytest.mark.stacks
def test_the_real_msprobe_names_the_layer_that_is_off(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    """Installs mindstudio-probe in an environment of its own, over PTA's torch."""
    venv = tmp_path / "venv"
    subprocess.run([pta_env.python.resolve(), "-m", "venv", venv], check=True, timeout=120)
    (packages,) = venv.glob("lib/python3*/site-packages")
    (theirs,) = pta_env.path.glob("lib/python3*/site-packages")
    (packages / "base.pth").write_text(f"{theirs}\n")
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "-q", "mindstudio-probe==26.2.0"]
    subprocess.run(pip, check=True, timeout=900, stdout=sys.stderr)
    own = StackEnvironment("pta", venv, {})

    def dumps(name: str, **more: str) -> Path:
        variables: Mapping[str, str] = {
            "LMSV_STACK": "pta",
            "LMSV_LOCATE": "1,2",
            "LMSV_RUN_DIR": str(tmp_path / name),
            **more,
        }
        script = Path(__file__).with_name("dump_small.py")
        ended = own.run([script, ROOT / "launchers"], cwd=tmp_path, env=variables, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return tmp_path / name / "record"

    right, again, wrong = dumps("right"), dumps("again"), dumps("wrong", SCALED="1.05")
    assert dumped.compared(own, right, again, tmp_path / "clean").kind == "nothing"
    found = dumped.compared(own, right, wrong, tmp_path / "planted")
    assert (found.kind, found.step, found.name) == ("module", 1, "0.2.widen")
