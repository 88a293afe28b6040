"""The launchers by the contract of DESIGN 6.3, with starters that only say what they were given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lmsv import data

LAUNCHERS = data.launchers()
STARTER = (
    f"#!{sys.executable}"
    + """
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}))
sys.exit(int(os.environ.get("STATUS", "0")))
"""
)


@pytest.fixture
def starters(tmp_path: Path) -> Path:
    """An environment folder whose torchrun and msrun print what they get."""
    folder = tmp_path / "an environment"
    (folder / "bin").mkdir(parents=True)
    for name in ("torchrun", "msrun"):
        (folder / "bin" / name).write_text(STARTER, encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    return folder


def launch(
    stack: str, environment: Path, cwd: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(LAUNCHERS / f"{stack}_cogvideox.sh")],
        env={"PATH": os.environ["PATH"], "LMSV_ENV": str(environment), **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_a_launcher_by_hand_needs_nothing_but_the_environment(
    stack: str, starters: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    done = launch(stack, starters, here)
    assert done.returncode == 0, done.stderr
    given = json.loads(done.stdout)
    run = here / f"run_{stack}_cogvideox"
    assert given["cwd"] == str(run)
    assert given["env"]["LMSV_STACK"] == stack
    assert given["env"]["OMP_NUM_THREADS"] == "1"
    assert given["env"]["PATH"].startswith(f"{starters}/bin:")
    assert "--lr" in given["argv"]
    assert given["argv"][given["argv"].index("--train-iters") + 1] == "5"
    assert [path.name for path in here.iterdir()] == [run.name]


def test_torchrun_is_told_nodes_and_address(starters: Path, tmp_path: Path) -> None:
    told = {"NNODES": "2", "NODE_RANK": "1", "NPUS_PER_NODE": "4", "MASTER_ADDR": "10.0.0.1"}
    done = launch("pta", starters, tmp_path, **told, MASTER_PORT="1234")
    options = json.loads(done.stdout)["argv"][:11]
    assert options == [
        *("--nproc_per_node", "4", "--nnodes", "2", "--node_rank", "1"),
        *("--master_addr", "10.0.0.1", "--master_port", "1234"),
        str(LAUNCHERS / "entry.py"),
    ]


@pytest.mark.parametrize(("nodes", "rank"), [("1", []), ("2", ["--node_rank", "1"])])
def test_msrun_is_told_its_node_only_among_several(
    starters: Path, tmp_path: Path, nodes: str, rank: list[str]
) -> None:
    told = {"NNODES": nodes, "NODE_RANK": "1", "NPUS_PER_NODE": "2", "LMSV_RUN_DIR": "a run"}
    options = json.loads(launch("msa", starters, tmp_path, **told).stdout)["argv"]
    assert options[:4] == ["--worker_num", str(2 * int(nodes)), "--local_worker_num", "2"]
    assert options[8 : 8 + len(rank)] == rank
    assert options[options.index("--log_dir") + 1] == str(tmp_path / "a run" / "msrun_log")
    assert "--join=True" in options


@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_arguments_with_spaces_and_an_exit_status_pass_through(
    stack: str, starters: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("--a\n$(touch broken) b\n", encoding="utf-8")
    told = {"LMSV_ARGS": str(tmp_path / "tokens"), "MM_MODEL": "/a model.json", "STATUS": "7"}
    done = launch(stack, starters, tmp_path, **told, LMSV_RUN_DIR=str(tmp_path / "run"))
    assert done.returncode == 7
    argv = json.loads(done.stdout)["argv"]
    assert argv[argv.index("--a") + 1] == "$(touch broken) b"
    assert argv[argv.index("--mm-model") + 1] == "/a model.json"
    assert not list(tmp_path.rglob("broken"))


def test_weights_that_cpu_can_not_load_are_not_passed_silently(
    starters: Path, tmp_path: Path
) -> None:
    done = launch("pta", starters, tmp_path, LOAD_PATH="/weights", SAVE_PATH="/out")
    said, given = done.stdout.splitlines()
    assert said.startswith("LOAD_PATH is not read on cpu")
    argv = json.loads(given)["argv"]
    assert "--load" not in argv
    assert argv[argv.index("--save") + 1] == "/out"
