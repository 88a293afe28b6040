"""How a fault is measured: from the moment it happens until nothing of its run is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.launch.awkward import AWKWARD, alive, until

LIMIT_S = 40.0
SCRIPT = f"{AWKWARD}\nwhile :; do sleep 0.2; done"
"""A run whose descendants are hard to end, and which does not end by itself."""
AGENT = "The agent: a program on a machine"


@dataclass
class Row:
    """One line of the table."""

    fault: str
    seconds: float
    left: list[str]
    note: str = ""

    def __str__(self) -> str:
        return f"{self.fault:55} {self.seconds:5.1f} s, {len(self.left)} left  {self.note}"


@dataclass
class FaultTable:
    """Rows, each said as soon as it is measured."""

    say: Callable[[str], None]

    def add(self, fault: str, seconds: float, left: Iterable[str] = (), note: str = "") -> None:
        """Note a row; what is left fails the test that measured it."""
        row = Row(fault, seconds, list(left), note)
        self.say(str(row))
        assert not row.left, row.left


class Watched:
    """What runs on hosts in one moment, and what later belongs to the same runs.

    *hosts* may be dead by then. The agents of a campaign are not of a run: they stay with it.
    """

    def __init__(self, hosts: Iterable[Host]) -> None:
        self.hosts = list(hosts)
        self.began = time.monotonic()
        self.seen: dict[int, tuple[str, str]] = {}
        self.run_ids: set[bytes] = set()
        for host in self.hosts:
            for pid, words in host.processes().items():
                if AGENT not in words:
                    self.seen[pid] = (started(pid), f"{host.name}: {words[:60]!r}")
                    self.run_ids |= run_id(pid)

    def only(self, words: str) -> Watched:
        """Without what belongs to other runs than the one that shows *words*."""
        self.run_ids = set().union(
            *(run_id(pid) for pid, seen in self.seen.items() if words in seen[1])
        )
        self.seen = {pid: seen for pid, seen in self.seen.items() if run_id(pid) & self.run_ids}
        return self

    def left(self) -> list[str]:
        """What is still there of it."""
        found = {
            pid: words
            for pid, (start, words) in self.seen.items()
            if alive(pid) and started(pid) == start
        }
        for host in self.hosts:
            for pid, words in host.processes().items():
                if pid not in found and run_id(pid) & self.run_ids:
                    found[pid] = f"{host.name}: {words[:60]!r}"
        return list(found.values())

    def clean(self) -> tuple[float, list[str]]:
        """Seconds since the moment until all was gone, and what was not gone by the limit."""
        assert self.seen, "nothing ran when the fault happened"
        until(lambda: not self.left(), LIMIT_S)
        seconds = time.monotonic() - self.began
        return seconds, self.left()


def started(pid: int) -> str:
    """When a process started; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def run_id(pid: int) -> set[bytes]:
    """The run that a process says it belongs to, as a set of one or none."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return set()
    return {entry for entry in entries if entry.startswith(b"LMSV_RUN_ID=")}


def awkward_runs(host: Host) -> bool:
    """Whether all of SCRIPT's descendants are there."""
    words = " ".join(host.processes().values())
    return "innocent" in words and "trap" in words and SCRIPT.count("sleep 300") >= 1


def kill(host: Host, words: str) -> None:
    """SIGKILL one process of *host* whose command line contains *words*."""
    os.kill(next(p for p, command in host.processes().items() if words in command), 9)


def empty(hosts: Hosts, seconds: float = 15.0) -> bool:
    """Whether nothing at all runs on any host, agents neither."""
    return until(lambda: not any(host.processes() for host in hosts), seconds)
