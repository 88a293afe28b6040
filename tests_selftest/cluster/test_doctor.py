"""``lmsv doctor`` over hosts: every machine, what differs between them, mapped paths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.doctor import nodes
from pytest_lmsv.doctor.rows import ok
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.task6_config import MultiNode, NodeConfig
from tests_selftest.cluster import hosts as machines
from tests_selftest.cluster.conftest import unavailable
from tests_selftest.cluster.hosts import Hosts

ROOT = Path(__file__).parents[2]


def look(hosts: Hosts, folder: Path, *more: str, **block: Any) -> dict[tuple[str, str], Any]:
    """The rows of a doctor that steers, by machine and check."""
    folder.mkdir(exist_ok=True)
    entries = [
        {"HOST": f"root@{host.address}", "SSH_PORT": host.port, "LMSV_PATH": host.work}
        for host in hosts
    ]
    block = {"ENABLED": True, "OTHER_NODES": entries, **block}
    (folder / "config.json").write_text(json.dumps({"task_type": 6, "MULTI_NODE": block}))
    code = "import sys; from pytest_lmsv import doctor; sys.exit(doctor.main(sys.argv[1:]))"
    words = ["--json", "--device", "cpu", "--controller", "--model", "cogvideox", *more]
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(hosts.home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["ok"] else 1)
    return {(row["node"], row["check"]): row for row in found["rows"]}


def test_every_machine_is_looked_at(hosts: Hosts, tmp_path: Path) -> None:
    data = {"/data/sets": "/mnt/sets"}
    rows = look(hosts, tmp_path / "project", PATH_MAP=data)
    assert [row for row in rows.values() if row["state"] != "OK"] == []
    for host in hosts:
        row = {check: rows[host.address, check]["found"] for name, check in rows
               if name == host.address}  # fmt: skip
        assert row["LMSV_PATH"] == host.work
        assert row["interface"] == f"{host.address} on eth0"
        assert "/data/sets -> /mnt/sets" in row["mapped paths"]
        assert f"{tmp_path / 'project'} -> {host.work}" in row["mapped paths"]
        assert row["launchers"].startswith("digest ")
        assert {"ssh", "agent python", "clock", "disk", "/dev/shm", "own doctor"} <= row.keys()
        assert host.processes() == {}
        assert not list(host.outside(host.work).glob("output/*"))


def test_what_is_wrong_is_told_with_its_remedy(hosts: Hosts, tmp_path: Path) -> None:
    hosts[0].outside(f"{hosts[0].work}/launchers").mkdir()
    hosts[0].outside(f"{hosts[0].work}/launchers/own.sh").write_text("")
    hosts[1].outside(hosts[1].work).rename(hosts[1].outside("/elsewhere"))
    (hosts.home / ".ssh/known_hosts").write_text(
        (hosts.home / ".ssh/known_hosts").read_text().splitlines()[1] + "\n"
    )
    rows = look(hosts, tmp_path / "project")
    assert rows[hosts[0].address, "ssh"]["state"] == "FAIL"
    assert "an unknown host" in rows[hosts[0].address, "ssh"]["found"]
    assert rows[hosts[1].address, "LMSV_PATH"]["state"] == "FAIL"
    accepted = look(hosts, tmp_path / "project", SSH_HOST_KEYS="accept-new")
    assert accepted[hosts[0].address, "ssh"]["state"] == "OK"
    assert accepted[hosts[0].address, "launchers"]["state"] == "WARN"
    assert all(row["remedy"] for row in accepted.values() if row["state"] != "OK")


def test_a_wrong_clock_is_seen(hosts: Hosts, tmp_path: Path) -> None:
    if machines.faketime() is None:
        unavailable("libfaketime is not installed: apt-get install faketime")
    shifted = f"export LD_PRELOAD={machines.faketime()} FAKETIME=+3600s\n"
    hosts[1].outside("/root/.bashrc").write_text(shifted)
    rows = look(hosts, tmp_path / "project")
    assert rows[hosts[0].address, "clock"]["state"] == "OK"
    assert rows[hosts[1].address, "clock"]["state"] == "WARN"
    assert "+3600" in rows[hosts[1].address, "clock"]["found"]


def test_versions_that_differ_are_a_warning() -> None:
    first = {"pta torch": "2.7.1", "CANN": "8.3.RC1", "MindSpeed-MM commit": "abc", "disk": "1 GB"}
    there = [ok("pta torch", "2.6.0"), ok("CANN", "8.3.RC1"), ok("MindSpeed-MM commit", "def"),
             ok("disk", "2 GB"), ok("msa mindspore", "2.7.1")]  # fmt: skip
    found = list(nodes.differences(first, there))
    assert [(row.check, row.state) for row in found] == [
        ("same pta torch", "WARN"),
        ("same MindSpeed-MM commit", "WARN"),
    ]
    assert "2.6.0, first machine: 2.7.1" in found[0].found


ENTRY = NodeConfig(host="b", user=None, ssh_port=22, lmsv_path="/l")


def made(*entries: NodeConfig, controller: bool = False, **block: Any) -> tuple[Node, ...]:
    from pytest_lmsv.cluster.nodes import nodes as machines_of

    given = MultiNode(enabled=True, other_nodes=entries, **block)
    return machines_of(given, controller=controller)


def test_the_master_is_this_machine_or_the_first_of_the_others() -> None:
    assert [(n.rank, n.host) for n in made(ENTRY)] == [(0, None), (1, "b")]
    assert [(n.rank, n.host) for n in made(ENTRY, controller=True)] == [(0, "b")]
    assert made(ENTRY, master_addr="127.0.0.1")[0].address == ""
    assert made(ENTRY, master_addr="10.0.0.1")[0].address == "10.0.0.1"


def test_nnodes_must_agree() -> None:
    assert len(made(ENTRY, nnodes=2)) == 2
    assert len(made(ENTRY, nnodes=1, controller=True)) == 1
    with pytest.raises(InputProblem, match="NNODES is 3, but OTHER_NODES and this machine make 2"):
        made(ENTRY, nnodes=3)


def test_containers_of_one_machine_get_names_of_their_own() -> None:
    other = NodeConfig(host="b", user=None, ssh_port=2222, lmsv_path="/l")
    assert [n.name for n in made(ENTRY, other, controller=True)] == ["b", "b-2222"]
    with pytest.raises(InputProblem, match="listed twice"):
        made(ENTRY, other, other)
    odd = NodeConfig(host="fe80::1%eth0", user=None, ssh_port=22, lmsv_path="/l")
    assert made(odd, controller=True)[0].name == "fe80-1-eth0"
