"""Jobs over hosts, and what they leave there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.running import NodeJob
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.launch.job import Job
from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.launch.awkward import AWKWARD, carriers, new_run_id

STAY = "while :; do sleep 0.2; done"
AWKWARD_JOB = f"rm -rf pids\n{AWKWARD}\n{STAY}"
"""Descendants that are hard to end, on each node."""


def node(hosts: Hosts, rank: int, machine: Host, /, **given: object) -> Node:
    """*machine* as the configuration of a run names it."""
    values: dict[str, object] = {
        "name": machine.name,
        "rank": rank,
        "host": machine.address,
        "address": machine.address,
        "user": "root",
        "port": machine.port,
        "keys": (hosts.key,),
        "known_hosts": hosts.known_hosts,
    }
    return Node(**{**values, **given})  # type: ignore[arg-type]


def here(hosts: Hosts) -> Node:
    return Node("master", 0, None, hosts.master)


def job(folder: str | Path, script: str, run_id: str, **given: object) -> Job:
    """A bash script as a job in *folder*."""
    values: dict[str, object] = {
        "argv": ("bash", "-c", script),
        "env": {},
        "cwd": Path(folder),
        "log": Path(folder) / "log",
        "run_id": run_id,
        "time_limit": 60.0,
        "silence_limit": 60.0,
    }
    return Job(**{**values, **given})  # type: ignore[arg-type]


def on_hosts(hosts: Hosts, scripts: Sequence[str], **given: object) -> list[NodeJob]:
    """One script on each host, under one run id."""
    run_id = new_run_id()
    return [
        NodeJob(found := node(hosts, k, host), job(host.work, script, run_id, **given), to(found))
        for k, (host, script) in enumerate(zip(hosts, scripts, strict=True))
    ]


def to(found: Node) -> Connection:
    return Connection(found, connect_timeout=5.0)


def local_job(hosts: Hosts, folder: Path, script: str, run_id: str, **given: object) -> NodeJob:
    """The master's part, in *folder*.

    With an id of its own: the hosts' processes are to be seen from this machine, so that its guard
    would end theirs, which no guard of a real machine can.
    """
    folder.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"]}
    return NodeJob(here(hosts), job(folder, script, f"{run_id}-master", **{"env": env, **given}))


def left_on(hosts: Hosts, run_id: str) -> list[str]:
    """All that runs on any host, and what carries *run_id* on this machine outside of them."""
    left = [f"{host.name}: {words}" for host in hosts for words in host.processes().values()]
    others = {space(host.pid) for host in hosts}
    return left + [f"here: {pid}" for pid in carriers(run_id) if space(pid) not in {None, *others}]


def space(pid: int) -> Path | None:
    """The PID namespace of a process; None if it is gone."""
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None


def said(host: Host, path: str = "log") -> str:
    """What *host* has in a file of its work folder; empty where there is none."""
    try:
        return host.outside(f"{host.work}/{path}").read_text(errors="replace")
    except OSError:
        return ""


def kill_one(host: Host, words: str) -> int:
    """SIGKILL the first process of *host* whose command line contains *words*; its pid here."""
    pid = next(pid for pid, command in host.processes().items() if words in command)
    os.kill(pid, 9)
    return pid
