"""The fault table: a campaign over two hosts meets each fault, and all is clean soon after.

Each row notes the seconds from the fault until nothing of the run is left on any host. The model
is a toy whose runs start descendants that are hard to end; test_launcher_faults.py does the same
with torchrun and msrun. This process steers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests_selftest.cluster import hosts as machines
from tests_selftest.cluster.conftest import unavailable
from tests_selftest.cluster.faults import SCRIPT, FaultTable, Watched, awkward_runs, empty, kill
from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.cluster.toys import Toy, toy
from tests_selftest.launch.awkward import until

slow = pytest.mark.slow
GUARD = "a guard is killed, but for a scrubbed process"
AWKWARD = {"pta0": "script", "pta1": "script"}
SQUATTED = """\
if [[ $NODE_RANK == 0 ]] && mkdir /tmp/squatted 2>/dev/null; then
  python3 -c 'import socket, sys, time
s = socket.socket(); s.bind(("", int(sys.argv[1]))); s.listen(); time.sleep(600)' $MASTER_PORT &
  sleep 0.5
fi
"""


FULL = """\
if [[ $NODE_RANK == 1 ]]; then
  sleep 5.5
  exec dd if=/dev/zero of=big bs=1M count=50
fi
"""


def awkward(hosts: Hosts, folder: Path) -> Toy:
    return toy(folder / "project", hosts, AWKWARD, more={"script": SCRIPT})


@contextmanager
def started(project: Toy, hosts: Hosts | None = None) -> Iterator[subprocess.Popen[str]]:
    """The campaign, killed at the latest at the end; with *hosts*: when the run is there on all."""
    with project.start() as process:
        try:
            if hosts is not None:
                assert until(lambda: all(awkward_runs(host) for host in hosts), 90)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=slow),
        pytest.param(signal.SIGTERM, marks=slow),
        signal.SIGKILL,
    ],
    ids=lambda number: number.name,
)
def test_a_signal_to_pytest(
    hosts: Hosts, tmp_path: Path, fault_table: FaultTable, number: signal.Signals
) -> None:
    with started(awkward(hosts, tmp_path), hosts) as process:
        watched = Watched(hosts)
        process.send_signal(number)
        seconds, left = watched.clean()
        output = process.communicate(timeout=60)[0]
    assert empty(hosts)
    assert process.returncode == (-9 if number == signal.SIGKILL else 2), output
    fault_table.add(f"pytest gets {number.name}", seconds, left, f"exit {process.returncode}")


def of_the_worker(host: Host) -> None:
    """The launcher itself stays: only what it had started as its worker dies."""
    kill(host, "while :; do sleep 0.2")


@pytest.mark.parametrize(
    ("fault", "act"),
    [
        pytest.param("the launcher's command is killed", of_the_worker, marks=slow),
        pytest.param(GUARD, lambda host: kill(host, "guard of one run"), marks=slow),
        pytest.param("a node is killed", Host.kill, marks=slow),
        pytest.param("a node loses its power", Host.power_off, marks=slow),
        pytest.param("a link goes down", Host.link_down),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_worker_node_fails(
    hosts: Hosts,
    tmp_path: Path,
    fault_table: FaultTable,
    fault: str,
    act: Callable[[Host], None],
) -> None:
    with started(awkward(hosts, tmp_path), hosts) as process:
        watched = Watched(hosts)
        if fault == GUARD:  # what left the tree and scrubbed its environment was its alone to know
            watched = watched.only("innocent")
        act(hosts[1])
        seconds, left = watched.clean()
        process.send_signal(signal.SIGINT)  # it has begun the second try
        output = process.communicate(timeout=90)[0]
    hosts[1].link_up() if "link" in fault else None
    assert empty(hosts) or fault == GUARD, output
    fault_table.add(f"{fault} (toy)", seconds, left)


@slow
def test_a_link_comes_back_after_two_seconds(
    hosts: Hosts, tmp_path: Path, fault_table: FaultTable
) -> None:
    project = toy(tmp_path / "project", hosts, seconds=4.0)
    with started(project) as process:
        assert until(
            lambda: bool(hosts[1].processes()) and "toy_node" in str(hosts[1].processes()), 60
        )
        began = time.monotonic()
        hosts[1].link_down()
        time.sleep(2)
        hosts[1].link_up()
        output = process.communicate(timeout=120)[0]
    assert process.returncode == 0, output
    assert project.record()["baseline_run"]["outcome"] == "ok"
    left = [] if empty(hosts) else ["processes"]
    fault_table.add("a link comes back after 2 s", time.monotonic() - began, left, "passed")


def changed(hosts: Hosts, tmp_path: Path) -> str:
    hosts[1].new_host_key()
    time.sleep(0.5)
    return "not the known one"


def unknown(hosts: Hosts, tmp_path: Path) -> str:
    hosts.known_hosts.write_text(hosts.known_hosts.read_text().splitlines(keepends=True)[0])
    return "an unknown host"


def wrong_key(hosts: Hosts, tmp_path: Path) -> str:
    hosts.key.unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(hosts.key)],
                   input=b"y\n", check=True)  # fmt: skip
    return "none of your keys is accepted"


def closed(hosts: Hosts, tmp_path: Path) -> str:
    path = tmp_path / "project" / "nodes.yaml"
    path.write_text(path.read_text().replace(f": {hosts[1].port}", ": 2299"))
    return "nothing listens on port 2299"


def dead(hosts: Hosts, tmp_path: Path) -> str:
    path = tmp_path / "project" / "nodes.yaml"
    path.write_text(path.read_text().replace(hosts[1].address, f"{hosts[1].address[:-2]}99"))
    return "no answer"


@pytest.mark.parametrize(
    ("fault", "plant"),
    [
        ("a changed host key", changed),
        pytest.param("an unknown host", unknown, marks=slow),
        pytest.param("a wrong user key", wrong_key, marks=slow),
        pytest.param("a closed port", closed, marks=slow),
        pytest.param("a dead address", dead, marks=slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_node_that_lets_nobody_in(
    hosts: Hosts,
    tmp_path: Path,
    fault_table: FaultTable,
    fault: str,
    plant: Callable[[Hosts, Path], str],
) -> None:
    project = toy(tmp_path / "project", hosts)
    message = plant(hosts, tmp_path)
    began = time.monotonic()
    done = project.run()
    seconds = time.monotonic() - began
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    left = [] if empty(hosts, 5) else ["processes"]
    fault_table.add(fault, seconds, left, f"exit {done.returncode}, whole session; {message!r}")


def other_clock(hosts: Hosts) -> None:
    if machines.faketime() is None:
        unavailable("libfaketime is not installed: apt-get install faketime")
    hosts[1].set_clock(-3600)


@pytest.mark.parametrize(
    ("fault", "plant", "megabytes"),
    [
        ("rsync is missing on a node", lambda hosts: hosts[1].run("rm", "/usr/bin/rsync"), 40),
        ("the clock of a node is one hour off", other_clock, 0),
        ("a log of 500 MB", lambda hosts: None, 500),
    ],
    ids=["no rsync", "clock", "500 MB"],
)
@slow
def test_a_fault_that_a_campaign_lives_with(
    hosts: Hosts,
    tmp_path: Path,
    fault_table: FaultTable,
    fault: str,
    plant: Callable[[Hosts], None],
    megabytes: int,
) -> None:
    plant(hosts)
    on = {"pta1": "flood"} if megabytes else {}
    project = toy(tmp_path / "project", hosts, on, more={"megabytes": megabytes})
    began = time.monotonic()
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    if megabytes:
        log = next((project.iteration / "runtime_logs").glob(f"pta*{hosts[1].address}.log"))
        assert log.stat().st_size > megabytes << 20
    left = [] if empty(hosts, 5) else ["processes"]
    fault_table.add(fault, time.monotonic() - began, left, "passed; whole session")


@slow
def test_a_full_disk_on_a_node(hosts: Hosts, tmp_path: Path, fault_table: FaultTable) -> None:
    project = toy(tmp_path / "project", hosts, AWKWARD, more={"script": FULL + SCRIPT})
    with started(project) as process:
        assert until(lambda: "sleep 5.5" in hosts[1].processes().values(), 90)
        hosts[1].fill_disk()
        began = time.monotonic()
        output = process.communicate(timeout=120)[0]
    hosts[1].empty_disk()
    assert process.returncode != 0
    assert "no space" in output.lower() or "no_space" in output, output
    left = [] if empty(hosts) else ["processes"]
    fault_table.add("the disk of a node is full", time.monotonic() - began, left, "both tries")


@slow
def test_an_environment_value_that_a_shell_would_read(
    can_have_hosts: None, tmp_path: Path, fault_table: FaultTable
) -> None:
    nasty = '/data/it\'s "q" $HOME `touch pwned` $(id)'
    with machines.hosts(tmp_path, 2, hidden=[tmp_path]) as found:
        for host in found:
            host.run("mkdir", "-p", nasty)
        project = toy(tmp_path / "project", found, work=[nasty] * 2)
        began = time.monotonic()
        done = project.run()
        assert done.returncode == 0, done.stdout + done.stderr
        left = [] if empty(found, 5) else ["processes"]
        for host in found:
            left += host.run("find", "/data", "/root", "-name", "pwned").split()
        fault_table.add("quotes, spaces, $ and backticks in an environment value",
                        time.monotonic() - began, left, "passed")  # fmt: skip


def test_a_master_port_that_is_taken(hosts: Hosts, tmp_path: Path, fault_table: FaultTable) -> None:
    project = toy(tmp_path / "project", hosts, {"pta0": "serve"})
    launcher = project.folder / "scripts" / "pta_toy.sh"
    launcher.write_text(SQUATTED + launcher.read_text())
    began = time.monotonic()
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert hosts[0].outside("/tmp/squatted").is_dir()
    left = [] if empty(hosts, 5) else ["processes"]
    fault_table.add("MASTER_PORT is taken", time.monotonic() - began, left,
                    "passed with another port; whole session")  # fmt: skip


@slow
def test_two_campaigns_at_once_and_one_is_killed(
    hosts: Hosts, tmp_path: Path, fault_table: FaultTable
) -> None:
    other = toy(tmp_path / "other", hosts, seconds=6.0)
    with started(other) as lives, started(awkward(hosts, tmp_path), hosts) as dies:
        watched = Watched(hosts).only("innocent")
        os.kill(dies.pid, signal.SIGKILL)
        seconds, left = watched.clean()
        output = lives.communicate(timeout=180)[0]
        assert lives.returncode == 0, output
    assert empty(hosts)
    fault_table.add(
        "one of two campaigns on the same nodes is killed", seconds, left, "the other passed"
    )
