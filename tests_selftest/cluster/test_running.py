"""One job on each node: whatever happens, all ends everywhere, and the first to fail is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lmsv.cluster import running
from pytest_lmsv.cluster.ending import Joint, NodeEnded, cause
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.launch.job import Ended, Reason
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.cluster.hosts import Hosts
from tests_selftest.cluster.jobs import (
    AWKWARD_JOB,
    kill_one,
    left_on,
    local_job,
    on_hosts,
    said,
)
from tests_selftest.launch.awkward import until

ROOT = Path(__file__).parents[2]
NASTY = 'it\'s "quoted" $HOME `id` $(id) \\ \n second line\tü *'
CALLER = """
import json, sys
from pathlib import Path
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.running import NodeJob, run
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.launch.job import Job
run_id, script, own, *others = sys.argv[1:]
def job(folder, env):
    folder = Path(folder)
    return Job(("bash", "-c", script), env, folder, folder / "log", run_id, 60, 60)
items = [NodeJob(Node("own", 0, None, ""), job(own, {"PATH": "/usr/bin:/bin"}))]
for rank, text in enumerate(others, 1):
    given = json.loads(text)
    node = Node(given["host"], rank, given["host"], given["host"], "root", given["port"])
    items.append(NodeJob(node, job(given["work"], {}), Connection(node)))
run(items)
"""
"""A program that runs a job on the host that it runs on, and on others."""


def during(hosts: Hosts, act: Callable[[], object]) -> threading.Thread:
    """Do *act* as soon as all hosts' jobs are ready."""

    def wait() -> None:
        if until(lambda: all("ready" in said(host) for host in hosts), 30):
            act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def run(hosts: Hosts, items: list[running.NodeJob], act: Callable[[], object]) -> Joint:
    thread = during(hosts, act)
    try:
        return running.run(items)
    finally:
        thread.join()
        for item in items:
            if item.connection is not None and not item.connection.broken():
                item.connection.close()


def clean(hosts: Hosts, items: list[running.NodeJob]) -> bool:
    """Whether nothing is left anywhere; a helper whose stdin was just closed takes a moment."""
    return until(lambda: not left_on(hosts, items[0].job.run_id), 3)


def blamed(found: Joint) -> str:
    assert found.cause is not None
    return found.cause.node.name


def test_all_nodes_end_well_and_the_log_is_on_each(hosts: Hosts, tmp_path: Path) -> None:
    items = on_hosts(hosts, ["hostname; pwd; echo bad >&2"] * 2)
    items.insert(0, local_job(hosts, tmp_path / "own", "echo own", items[0].job.run_id))
    looks: list[int] = []
    found = running.run(items, lambda: looks.append(1))
    assert (found.reason, found.exit_status, found.cause) == ("exit", 0, None)
    assert [end.node.name for end in found.nodes] == ["master", *(host.name for host in hosts)]
    assert [end.ended.exit_status for end in found.nodes] == [0, 0, 0]
    assert (tmp_path / "own" / "log").read_text() == "own\n"
    for host in hosts:
        assert said(host) == f"{host.name}\n{host.work}\nbad\n"
    assert looks
    assert clean(hosts, items)


def test_environment_and_words_travel_as_they_are(hosts: Hosts) -> None:
    items = on_hosts(hosts, ["", ""], argv=("printf", "%s", NASTY))
    env = {"LMSV_NASTY": NASTY}
    show = ("bash", "-c", 'printf %s "$LMSV_NASTY" "$0"; printf "%s" "$LMSV_RUN_ID" >id', NASTY)
    items[0] = replace(items[0], job=replace(items[0].job, argv=show, env=env))
    found = running.run(items)
    assert found.exit_status == 0
    assert said(hosts[0]) == NASTY + NASTY
    assert said(hosts[0], "id") == items[0].job.run_id
    assert said(hosts[1]) == NASTY


def test_when_one_node_fails_all_are_ended_and_it_is_named(hosts: Hosts, tmp_path: Path) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB, "echo ready; sleep 1; exit 3"])
    items.insert(0, local_job(hosts, tmp_path / "own", AWKWARD_JOB, items[0].job.run_id))
    found = running.run(items)
    assert (blamed(found), found.reason, found.exit_status) == (hosts[1].name, "exit", 3)
    assert [end.ended.reason for end in found.nodes] == ["interrupted", "interrupted", "exit"]
    assert any("trap" in process.command for process in found.nodes[1].ended.leftovers)
    assert clean(hosts, items)


def test_survivors_may_say_why_they_end(hosts: Hosts) -> None:
    found = running.run(on_hosts(hosts, ["sleep 1; echo my words; exit 1", "exit 5"]))
    assert blamed(found) == hosts[1].name
    assert said(hosts[0]) == "my words\n"
    assert found.nodes[0].ended.exit_status == 1


def test_a_node_that_is_slow_to_clean_up_is_still_the_first(hosts: Hosts) -> None:
    deaf = "sleep 0.5; (trap '' TERM; exec sleep 300) & exit 1"
    found = running.run(on_hosts(hosts, ["sleep 2; exit 1", deaf]))
    assert blamed(found) == hosts[1].name
    assert found.nodes[1].after < 2 < found.nodes[0].after
    assert found.nodes[1].ended.leftovers


def test_an_abort_after_a_peer_is_lost_is_not_the_cause(hosts: Hosts) -> None:
    found = running.run(on_hosts(hosts, ["sleep 2; kill -ABRT $$", "exit 1"]))
    assert (blamed(found), found.nodes[0].ended.exit_status) == (hosts[1].name, -signal.SIGABRT)


@pytest.mark.parametrize(
    ("limit", "reason"), [("time_limit", "time limit"), ("silence_limit", "silence")]
)
def test_a_limit_ends_all_nodes(hosts: Hosts, limit: str, reason: Reason) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB] * 2, **{limit: 1.5})
    found = running.run(items)
    assert (found.reason, found.cause) == (reason, None)
    assert found.exit_status != 0
    assert {end.ended.reason for end in found.nodes} == {reason}
    assert clean(hosts, items)


@pytest.mark.parametrize("file", ["log", "msrun_log/worker_0.log", "more/x"])
def test_output_on_one_node_is_no_silence(hosts: Hosts, file: str) -> None:
    talk = f"for i in 1 2 3 4 5 6 7; do echo $i >>{file}; sleep 0.5; done"
    talk = f"mkdir -p {Path(file).parent}; {talk}"
    items = on_hosts(hosts, ["sleep 3.5", talk], silence_limit=2.2)
    more = [replace(i, job=replace(i.job, outputs=(i.job.cwd / "more",))) for i in items]
    assert running.run(more).reason == "exit"


def test_a_command_that_cannot_start_ends_the_others(hosts: Hosts) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB, ""])
    items[1] = replace(items[1], job=replace(items[1].job, argv=("/no/such/launcher",)))
    with pytest.raises(EnvironmentProblem, match="cannot start /no/such/launcher") as caught:
        running.run(items)
    assert caught.value.category == "file_missing"
    assert clean(hosts, items)


def test_a_node_that_cannot_be_reached_starts_nothing_anywhere(hosts: Hosts) -> None:
    items = on_hosts(hosts, ["touch started"] * 2)
    hosts[1].kill()
    with pytest.raises(EnvironmentProblem, match=hosts[1].name):
        running.run(items)
    assert not hosts[0].outside(f"{hosts[0].work}/started").exists()


def test_an_interrupt_ends_all_nodes_and_passes_on(hosts: Hosts) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB] * 2)

    def interrupt() -> None:
        if all("ready" in said(host) for host in hosts):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.run(items, interrupt)
    assert clean(hosts, items)


def test_a_killed_guard_leaves_nothing(hosts: Hosts) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB] * 2)
    found = run(hosts, items, lambda: kill_one(hosts[1], "guard of one run"))
    assert (blamed(found), found.reason, found.exit_status) == (hosts[1].name, "lost", None)
    assert found.cause is not None
    assert "guard there was killed" in found.cause.why
    assert found.cause.ended.leftovers
    # What has left the tree and scrubbed its environment was only the guard's to know.
    assert until(lambda: [w for h in hosts for w in h.processes().values()] == ["sleep 300"], 5)


def test_a_killed_node_is_the_cause_and_ends_the_others(hosts: Hosts, tmp_path: Path) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB, AWKWARD_JOB])
    items.insert(0, local_job(hosts, tmp_path / "own", AWKWARD_JOB, items[0].job.run_id))
    found = run(hosts, items, hosts[1].kill)
    assert (blamed(found), found.reason, found.exit_status) == (hosts[1].name, "lost", None)
    assert clean(hosts, items)


def test_a_link_that_stays_down_ends_the_trees_on_both_sides(hosts: Hosts) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB] * 2)
    gone: list[float] = []

    def cut() -> None:
        hosts[1].link_down()
        began = time.monotonic()
        assert until(lambda: not left_on(hosts, items[0].job.run_id), 30)
        gone.append(time.monotonic() - began)

    found = run(hosts, items, cut)
    assert (blamed(found), found.reason) == (hosts[1].name, "lost")
    assert found.nodes[0].ended.reason == "interrupted"
    assert gone  # all was gone without the link; how long it took is in the fault table


def test_a_link_that_is_back_after_two_seconds_fails_nothing(hosts: Hosts) -> None:
    def blink() -> None:
        hosts[1].link_down()
        time.sleep(2)
        hosts[1].link_up()

    found = run(hosts, on_hosts(hosts, ["echo ready; sleep 8"] * 2), blink)
    assert (found.reason, found.exit_status) == ("exit", 0)


def test_what_a_lost_node_has_left_is_ended_when_it_is_back(hosts: Hosts) -> None:
    items = on_hosts(hosts, [AWKWARD_JOB] * 2)

    def cut() -> None:  # nobody is left there to end anything
        hosts[1].link_down()
        kill_one(hosts[1], "guard of one run")

    found = run(hosts, items, cut)
    assert found.reason == "lost"
    assert hosts[1].processes()
    hosts[1].link_up()
    connection = items[1].connection
    assert connection is not None
    connection.check()
    assert until(lambda: list(hosts[1].processes().values()) == ["sleep 300"], 10)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_anywhere_when_the_caller_is_killed(hosts: Hosts, number: int) -> None:
    other = {"host": hosts[1].address, "port": hosts[1].port, "work": hosts[1].work}
    words = (sys.executable, "-c", CALLER, "run-of-a-caller", AWKWARD_JOB, hosts[0].work)
    path = (f"PYTHONPATH={ROOT}", *words, json.dumps(other))
    with subprocess.Popen(hosts[0].command("env", *path)) as caller:
        assert until(lambda: all("ready" in said(host) for host in hosts), 30)
        pid = next(p for p, words in hosts[0].processes().items() if "run-of-a-caller" in words)
        os.kill(pid, number)
        caller.wait(30)
    assert until(lambda: not hosts[0].processes() and not hosts[1].processes(), 15)


def end(name: str, after: float, status: int | None, reason: Reason = "exit") -> NodeEnded:
    return NodeEnded(Node(name, 0, None, ""), Ended(status, reason, after), after)


@pytest.mark.parametrize(
    ("ends", "name"),
    [
        ([end("a", 9.0, 1), end("b", 2.0, 1)], "b"),
        ([end("a", 1.0, 1), end("b", 1.3, -9)], "b"),  # killed: the other only noticed it
        ([end("a", 1.0, 1), end("b", 1.3, 139)], "b"),
        ([end("a", 1.0, 1), end("b", 2.0, -9)], "a"),  # ends are timed: too late to be its cause
        ([end("a", 1.0, 1), end("b", 1.3, -6), end("c", 1.3, 134)], "a"),  # aborted on its loss
        ([end("a", 1.0, 1), end("b", 1.3, 143)], "a"),
        ([end("a", 1.0, 1), end("b", 2.0, 137), end("c", 2.5, None, "lost")], "c"),
        ([end("a", 1.0, 1), end("b", 9.0, None, "lost")], "a"),
        ([end("a", 1.0, 0), end("b", 1.0, None, "interrupted")], None),
    ],
)
def test_the_cause_is_the_first_and_in_one_moment_the_worst(
    ends: list[NodeEnded], name: str | None
) -> None:
    found = cause(ends, 3.0)
    assert (found and found.node.name) == name
