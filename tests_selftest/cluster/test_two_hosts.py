"""A CogVideoX campaign over two hosts with two workers each, torchrun and msrun for real."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests_selftest.cluster.hosts import Hosts

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.stacks


def project(folder: Path, block: dict[str, Any] | None) -> Path:
    """A project whose CogVideoX takes one sample at a time, so that four workers share a batch."""
    folder.mkdir(parents=True)
    shutil.copytree(ROOT / "mm_configs/cogvideox", folder / "mm_configs/cogvideox")
    path = folder / "mm_configs/cogvideox/cpu/args.json"
    arguments = {**json.loads(path.read_text()), "micro-batch-size": 1}
    path.write_text(json.dumps(arguments))
    if block is not None:
        config = {"MULTI_NODE": {"ENABLED": True, **block}}
        (folder / "nodes.json").write_text(json.dumps(config))
    return folder


def words(workers: int, *more: str) -> list[str]:
    options = ["--model=cogvideox", "--iters=2", "--lmsv-steps=2", "--lmsv-device=cpu"]
    options += [f"--lmsv-cpu-workers={workers}", "-p", "no:cacheprovider", "-q", *more]
    return [sys.executable, "-m", "pytest", *options]


def records(folder: Path) -> list[dict[str, Any]]:
    """The stored iterations of the only campaign in *folder*."""
    paths = sorted(folder.glob("output/2*/iters/cogvideox/iter_*/record.json"))
    return [json.loads(path.read_text()) for path in paths]


def losses(record: dict[str, Any], side: str) -> list[float]:
    return [loss for _, loss in record[side]["metrics"]["losses"]]


def test_losses_are_those_of_one_host_with_the_same_batch(hosts: Hosts, tmp_path: Path) -> None:
    master, worker = hosts
    block = {
        "MASTER_ADDR": master.address,
        "OTHER_NODES": [
            {"HOST": f"root@{worker.address}", "SSH_PORT": worker.port, "LMSV_PATH": worker.work}
        ],
    }
    place = f"{master.work}/project"
    project(master.outside(place), block)
    variables = [f"{name}={os.environ[name]}" for name in ("PATH", "XDG_CACHE_HOME") if name in
                 os.environ]  # fmt: skip
    command = master.command("env", f"--chdir={place}", *variables, "PYTHONDONTWRITEBYTECODE=1",
                             *words(2, "--lmsv-config=nodes.json"))  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    two = records(master.outside(place))
    for host in hosts:
        assert host.processes() == {}
        assert not list(host.outside(host.work).glob("output/2*/*/cogvideox"))

    alone = project(tmp_path / "alone", None)
    done = subprocess.run(words(4), cwd=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    one = records(alone)
    assert len(one) == len(two) == 2
    for single, double in zip(one, two, strict=True):
        assert single["mutation"]["edits"] == double["mutation"]["edits"]
        for side in ("baseline_run", "compare_run"):
            assert len(losses(double, side)) == 2
            assert losses(double, side) == pytest.approx(losses(single, side), rel=1e-5)
            run = double[side]
            assert run["nodes"] == 2
            assert [node["exit_status"] for node in run["per_node"]] == [0, 0]
            assert sorted(item["rank"] for item in run["completions"]) == [0, 1, 2, 3]
            assert {item["world_size"] for item in run["completions"]} == {4}
