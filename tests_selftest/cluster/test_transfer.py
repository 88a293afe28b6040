"""Files to a machine and back, and what its agent answers."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.cluster import agent, agents, transfer
from pytest_lmsv.cluster.agents import Agent
from pytest_lmsv.cluster.sftp import Files
from pytest_lmsv.cluster.transfer import Machine, is_safe, pull_tree, push_files, push_tree
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.cluster.jobs import node, to
from tests_selftest.launch.awkward import until


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    """An agent of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = Agent("here", agents.here())
    yield found
    found.close()


@pytest.fixture
def machine(hosts: Hosts) -> Iterator[Machine]:
    """The first host."""
    connection = to(node(hosts, 0, hosts[0]))
    found = Agent(hosts[0].name, connection.open(agents.command()))
    yield Machine(connection.node, found, Files(connection))
    found.close()
    connection.close()


def test_a_free_port_lies_below_the_ephemeral_range_and_is_free(here: Agent) -> None:
    (port,) = here.ask("ports", count=1, address="127.0.0.1")["ports"]
    assert 20000 <= port < 32768
    with socket.create_server(("127.0.0.1", port)):
        assert here.ask("held", base=port, count=1)["held"] == [port]
        assert not _agent_finds(here, port)


def _agent_finds(here: Agent, port: int) -> bool:
    found = here.ask("ports", count=3000, address="127.0.0.1")["ports"]
    assert len(set(found)) == 3000
    return port in found


def test_a_route_names_interface_and_own_address(here: Agent) -> None:
    assert here.ask("route", to="127.0.0.1")["address"] == "127.0.0.1"
    with pytest.raises(EnvironmentProblem, match=r"here: can't resolve no\.such\.host\.invalid"):
        here.ask("route", to="no.such.host.invalid")


def test_a_lease_excludes_sessions_of_the_machine_and_other_agents(
    here: Agent, tmp_path: Path
) -> None:
    folder = tmp_path / "cache/pytest-lmsv/leases" / socket.gethostname()
    folder.mkdir(parents=True)
    with (folder / "npu1.lock").open("w") as session:
        session.write('{"pid": 7}\n')
        session.flush()
        fcntl.flock(session, fcntl.LOCK_EX)
        assert here.ask("lease", device="npu", sets=[[0, 1], [1, 2]])["index"] is None
        assert here.ask("lease", device="npu", sets=[[0, 1], [2, 3]])["index"] == 1
        other = Agent("other", agents.here())
        busy = other.ask("lease", device="npu", sets=[[3]])
        assert busy["index"] is None
        assert 'npu1: {"pid": 7}' in busy["holders"]
    here.ask("note", owner={"pid": 1}, run_id="run-of-a-dead-one")
    here.close()
    assert other.ask("lease", device="npu", sets=[[2, 3]])["stale"] == ["run-of-a-dead-one"]
    other.ask("release", clean=True)
    assert other.ask("lease", device="npu", sets=[[2, 3]])["stale"] == []
    other.close()


def test_an_agent_ends_by_itself_when_nothing_is_heard() -> None:
    words = [sys.executable, agent.__file__]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"op": "ping"}\n')
        process.stdin.flush()
        began = time.monotonic()
        assert process.wait(agent.SILENCE_S + 20) == 0
        assert time.monotonic() - began > agent.SILENCE_S - 1


def test_a_machine_without_python_is_told(hosts: Hosts) -> None:
    connection = to(node(hosts, 0, hosts[0]))
    with pytest.raises(EnvironmentProblem, match=r"no agent started there: .*not found; python3"):
        Agent("worker", connection.open(agents.command("python3-of-nobody")))
    connection.close()


def test_a_shell_that_prints_is_told(hosts: Hosts) -> None:
    hosts[0].outside("/root/.bashrc").write_text("echo Welcome\n")
    connection = to(node(hosts, 0, hosts[0]))
    with pytest.raises(EnvironmentProblem, match=r"unexpected output b'Welcome.*~/\.bashrc"):
        Agent("worker", connection.open(agents.command()))
    connection.close()


def test_a_dead_agent_is_a_lost_node() -> None:
    channel = agents.here()
    found = Agent("worker", channel)
    channel._process.kill()
    with pytest.raises(EnvironmentProblem, match="worker") as caught:
        until(lambda: found.ask("ping") and False, 10)
    assert caught.value.category == "lost_node"
    assert not found.is_alive
    found.close()


def test_removing_stays_below_the_base(here: Agent, tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "a" / "b").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    (base / "a" / "link").symlink_to(tmp_path / "kept")
    for folder in (base, tmp_path / "kept", base / ".." / "kept", Path("/")):
        with pytest.raises(EnvironmentProblem, match="is not below"):
            here.ask("remove", folder=str(folder), base=str(base))
    here.ask("remove", folder=str(base / "a"), base=str(base))
    assert not (base / "a").exists()
    assert (tmp_path / "kept").is_dir()


@pytest.mark.parametrize(
    "name",
    ["../a", "a/../b", "/etc/passwd", "a//b", "", ".", "a/", "a\nb", "a\0b", "a\x1b[2J", "b" * 256,
     "a\udcffb"],
)  # fmt: skip
def test_names_that_could_leave_the_folder_are_not_safe(name: str) -> None:
    assert not is_safe(name)


@given(st.text(min_size=1, max_size=40))
def test_a_safe_name_stays_below_its_folder(name: str) -> None:
    if is_safe(name):
        path = PurePosixPath("/campaign") / name
        assert ".." not in path.parts
        assert path.is_relative_to("/campaign")
        assert str(path.relative_to("/campaign")) == name


def test_documents_arrive_and_their_digest_is_checked(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    document = tmp_path / "model.json"
    document.write_text('{"quotes": "\' \\" $HOME `id` \\n"}')
    folder = PurePosixPath(hosts[0].work) / "in put"
    push_files(machine, {"model.json": document}, folder)
    there = hosts[0].outside(str(folder / "model.json"))
    assert there.read_bytes() == document.read_bytes()
    (there.parent / "old.json").write_text("an older run's")
    with pytest.raises(EnvironmentProblem, match=r"holds old\.json, which is not ours"):
        push_files(machine, {"model.json": document}, folder)


def test_a_brought_folder_that_changed_there_is_refused(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    ours = tmp_path / "launchers"
    (ours / "cpu" / "__pycache__").mkdir(parents=True)
    (ours / "cpu" / "__pycache__" / "x.pyc").write_text("")
    (ours / "cpu" / "a.py").write_text("a = 1")
    home = PurePosixPath(hosts[0].work) / ".lmsv"
    place = push_tree(machine, ours, home, "launchers")
    assert push_tree(machine, ours, home, "launchers") == place
    there = hosts[0].outside(str(place))
    assert [path.name for path in there.rglob("*")] == ["cpu", "a.py"]
    (there / "cpu" / "a.py").write_text("a = 2")
    with pytest.raises(EnvironmentProblem, match=r"cpu/a\.py differs after it was sent"):
        push_tree(machine, ours, home, "launchers")
    (ours / "cpu" / "a.py").write_text("a = 3")
    assert push_tree(machine, ours, home, "launchers") != place


def fill(host: Host, folder: str, megabytes: int = 0) -> None:
    place = host.outside(f"{host.work}/{folder}")
    (place / "record").mkdir(parents=True)
    (place / "record" / "rank_0.json").write_text("{}")
    (place / "blank s'$x.log").write_bytes(b"line\n" * (megabytes * 200_000 + 1))
    (place / "weights").mkdir()
    (place / "weights" / "w").write_text("w")


@pytest.mark.parametrize("megabytes", [0, 20])
@pytest.mark.parametrize("has_rsync", [True, False])
def test_what_comes_back_is_what_was_asked_for(
    machine: Machine,
    hosts: Hosts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    megabytes: int,
    has_rsync: bool,
) -> None:
    fill(hosts[0], "run", megabytes)
    monkeypatch.setitem(machine.agent.facts, "rsync", has_rsync)
    local = tmp_path / "back"
    only = ("record", "blank s'$x.log")
    pulled = pull_tree(machine, PurePosixPath(hosts[0].work) / "run", local, only=only)
    assert {path.name for path in pulled.files} == {"rank_0.json", "blank s'$x.log"}
    assert (local / "blank s'$x.log").stat().st_size == 5 * (megabytes * 200_000 + 1)
    assert pulled.left_out == ()
    assert not (local / "weights").exists()
    if megabytes and has_rsync:  # it does the work, not its fallback
        again = tmp_path / "again"
        again.mkdir()
        remote = PurePosixPath(hosts[0].work) / "run"
        assert transfer._rsync(machine.node, remote, again, ["blank s'$x.log"])


def test_a_lost_machine_is_told_while_files_come_back(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    fill(hosts[0], "run")
    hosts[0].kill()
    with pytest.raises(EnvironmentProblem) as caught:
        pull_tree(machine, PurePosixPath(hosts[0].work) / "run", tmp_path / "back")
    assert caught.value.category == "lost_node"


def test_a_full_disk_there_is_told(machine: Machine, hosts: Hosts, tmp_path: Path) -> None:
    document = tmp_path / "model.json"
    document.write_text(json.dumps(list(range(100000))))
    hosts[0].fill_disk()
    with pytest.raises(EnvironmentProblem):
        push_files(machine, {"model.json": document}, PurePosixPath(hosts[0].work) / "x")


def test_a_folder_of_many_long_names_comes_back_whole(
    machine: Machine, hosts: Hosts, tmp_path: Path
) -> None:
    count = 12000
    make = f"import sys, os; [open('%05d' % n + 'x' * 200, 'x').close() for n in range({count})]"
    hosts[0].run("bash", "-c", f'mkdir -p many; cd many; python3 -c "{make}"')
    listed = machine.agent.ask("inventory", folder=f"{hosts[0].work}/many")
    assert len(listed["files"]) == count
    assert machine.agent.is_alive


def test_more_files_than_are_copied_are_told_with_folder_and_number(
    here: Agent, tmp_path: Path
) -> None:
    for letter in "abcd":
        (tmp_path / letter).mkdir()
        first = tmp_path / letter / "0"
        first.touch()
        for number in range(1, 26000):
            os.link(first, first.with_name(str(number)))  # sooner than files of their own
    with pytest.raises(EnvironmentProblem, match=f"{tmp_path} holds 104000 files, and 100000"):
        here.ask("inventory", folder=str(tmp_path))


def test_files_that_vanish_meanwhile_fail_no_inventory(here: Agent, tmp_path: Path) -> None:
    folder = tmp_path / "vanishing"
    folder.mkdir()
    for number in range(6000):
        (folder / str(number)).touch()
    with subprocess.Popen(["rm", "-rf", str(folder)]) as removing:
        while removing.poll() is None:
            here.ask("inventory", folder=str(folder), digests=True)
    assert here.ask("inventory", folder=str(folder))["there"] is False
