"""The fixture `cluster`, in a project of its own, over hosts and without any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests_selftest.cluster.hosts import Hosts

TEST = """
def test_all_machines(cluster, tmp_path):
    answers = cluster.run(["bash", "-c", 'hostname; echo "$NASTY" "$0" >&2', "it's $HOME"],
                          env={"NASTY": "`id` \\n ü"})
    assert list(answers) == list(cluster.names)
    assert {a.exit_status for a in answers.values()} == {0}
    print("NAMES", *(a.output.splitlines()[0] for a in answers.values()))
    assert all(a.output.split("\\n", 1)[1] == "`id` \\n ü it's $HOME\\n" for a in answers.values())

    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a b.json").write_text("{}")
    there = cluster.push(tmp_path / "set")
    for name, answer in cluster.run(["find", ".", "-name", "a b.json"]).items():
        assert answer.output == f"./{there[name].parent.name}/set/a b.json\\n"
    cluster.run(["bash", "-c", "mkdir out; pwd > out/file"])
    back = cluster.pull("out", tmp_path / "back")
    for name, folder in back.items():
        assert (folder / "file").read_text() == f"{cluster.folders[name]}\\n"
    again = cluster.pull(there, tmp_path / "again")
    assert all((folder / "a b.json").read_text() == "{}" for folder in again.values())

def test_one_that_fails_does_not_end_the_others(cluster):
    first = cluster.names[0]
    mark = cluster.run(["pwd"])[first].output.strip()
    answers = cluster.run(["bash", "-c", f'[ "$PWD" != "{mark}" ] || exit 4; sleep 4'])
    assert answers[first].exit_status == 4
    assert all(a.exit_status == 0 for name, a in answers.items() if name != first)

def test_a_limit(cluster):
    assert all(a.timed_out for a in cluster.run(["sleep", "300"], timeout=1).values())
"""


def test_commands_and_files_reach_every_machine_and_nothing_stays(
    hosts: Hosts, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(TEST)
    nodes = [{"HOST": f"root@{h.address}", "SSH_PORT": h.port, "LMSV_PATH": h.work} for h in hosts]
    block = {"ENABLED": True, "OTHER_NODES": nodes}
    Path("config.json").write_text(
        json.dumps({"task_type": 6, "tasks": {"6": {"MULTI_NODE": block}}})
    )
    monkeypatch.setenv("HOME", str(hosts.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    result = pytester.runpytest_subprocess("-s", "-p", "no:xdist")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"*NAMES * {hosts[0].name} {hosts[1].name}"])
    for host in hosts:
        assert not host.processes()
        assert host.run("find", host.work, "-type", "f") == ""


def test_the_example_of_the_docs_runs_as_printed(
    hosts: Hosts, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "cluster-fixture.md"
    example = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    pytester.makepyfile(test_machines=example)
    Path("all_reduce.py").write_text("open('figures.json', 'w').write('{}')")
    nodes = [{"HOST": f"root@{h.address}", "SSH_PORT": h.port, "LMSV_PATH": h.work} for h in hosts]
    block = {"ENABLED": True, "OTHER_NODES": nodes}
    Path("config.json").write_text(
        json.dumps({"task_type": 6, "tasks": {"6": {"MULTI_NODE": block}}})
    )
    for host in hosts:
        driver = host.outside("/usr/local/Ascend/driver")
        driver.mkdir(parents=True)
        (driver / "version.info").write_text("Version=25.2.0\n")
    monkeypatch.setenv("HOME", str(hosts.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    result = pytester.runpytest_subprocess("-p", "no:xdist", "--lmsv-controller")
    result.assert_outcomes(passed=2)


def test_without_other_machines_it_is_this_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=3)


def test_a_machine_that_cannot_be_reached_is_one_line(
    hosts: Hosts, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile("def test_it(cluster): pass")
    node = {"HOST": f"root@{hosts[0].address}", "SSH_PORT": 2299, "LMSV_PATH": "/x"}
    block = {"ENABLED": True, "OTHER_NODES": [node]}
    Path("config.json").write_text(
        json.dumps({"task_type": 6, "tasks": {"6": {"MULTI_NODE": block}}})
    )
    monkeypatch.setenv("HOME", str(hosts.home))
    result = pytester.runpytest_subprocess("-p", "no:xdist")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*nothing listens on port 2299; start sshd there*"])
