"""Connections to nodes: what reaches the other side, and what is said where there is none."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_lmsv.cluster import openssh
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.cluster.hosts import Hosts
from tests_selftest.cluster.jobs import node, to
from tests_selftest.launch.awkward import until

NASTY = ("it's", 'a "b"', "$HOME", "`id`", "$(id)", "a\nb", "", "*", "-n", "ü", "\\", "!x", "#")
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8))
PRINT = "import json,sys; print(json.dumps(sys.argv[1:]))"
ECHO = "import sys; sys.stdout.write(sys.stdin.readline())"


def problem(connection: Connection) -> EnvironmentProblem:
    with pytest.raises(EnvironmentProblem) as caught:
        connection.check()
    assert "\n" not in str(caught.value)
    return caught.value


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words=WORDS)
def test_words_and_json_reach_the_node_as_they_are(hosts: Hosts, words: list[str]) -> None:
    connection = CONNECTIONS.setdefault(hosts.slot, to(node(hosts, 0, hosts[0])))
    done = connection.run(("printf", "%s\\0", *NASTY, *words))
    assert done.stdout.decode() == "".join(f"{word}\0" for word in (*NASTY, *words))
    assert connection.python(ECHO, words) == words


CONNECTIONS: dict[int, Connection] = {}


def test_a_command_has_its_own_exit_status_and_last_words(hosts: Hosts) -> None:
    connection = to(node(hosts, 0, hosts[0]))
    done = connection.run(("bash", "-c", "cat; echo bad luck >&2; exit 7"), b"given")
    assert (done.exit_status, done.stdout, done.message) == (7, b"given", "bad luck")
    assert connection.run(("bash", "-c", "kill -9 $$")).exit_status == -9
    with pytest.raises(EnvironmentProblem, match="ZeroDivisionError"):
        connection.python("1/0")
    with pytest.raises(EnvironmentProblem, match="sleep did not end within 1 s"):
        connection.run(("sleep", "3"), timeout=1)


def test_one_connection_serves_all_threads_and_is_kept(hosts: Hosts) -> None:
    connection = to(node(hosts, 0, hosts[0]))
    found: list[bytes] = []

    def ask(number: int) -> None:
        found.append(
            connection.run(("bash", "-c", "echo $PPID; sleep 0.2")).stdout + b"%d" % number
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {line.split()[1] for line in found} == {b"%d" % number for number in range(8)}
    assert len({line.split()[0] for line in found}) == 1  # one sshd process served them


def test_a_program_can_be_talked_to(hosts: Hosts) -> None:
    channel = to(node(hosts, 0, hosts[0])).open(("sed", "-u", "s/^/got /;/end/q"))
    for word in (b"a", b"b", b"end"):
        channel.write(word + b"\n")
        assert channel.readline() == b"got " + word + b"\n"
    assert channel.readline() == b""
    channel.close()
    assert until(lambda: not hosts[0].processes())


@pytest.mark.parametrize(
    ("given", "words", "category"),
    [
        ({"port": 2299}, ("nothing listens on port 2299", "SSH_PORT"), None),
        ({"host": "nowhere.invalid"}, ("is not resolved", "HOST"), None),
        ({"host": "DEAD"}, ("no answer", "firewall"), "lost_node"),
        ({"keys": ("OTHER",)}, ("ssh-copy-id -p 2201 root@10.77.", "SSH_KEY"), None),
        ({"keys": ("MISSING",)}, ("can't be read", "MISSING"), None),
        ({"known_hosts": "NONE"}, ("an unknown host", "SHA256:", "accept-new"), None),
    ],
    ids=["closed port", "no name", "dead address", "wrong key", "no key", "unknown host"],
)
def test_a_node_that_lets_nobody_in_says_what_to_do(
    hosts: Hosts, tmp_path: Path, given: dict[str, object], words: tuple[str, ...], category: str
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", str(tmp_path / "OTHER")], check=True)
    if "keys" in given:
        given = {"keys": tuple(tmp_path / str(name) for name in given["keys"])}  # type: ignore[attr-defined]
    if "known_hosts" in given:
        given = {"known_hosts": tmp_path / "NONE"}
    if given.get("host") == "DEAD":
        given = {"host": hosts.master.rpartition(".")[0] + ".99"}
    found = problem(Connection(node(hosts, 0, hosts[0], **given), connect_timeout=2.0))
    assert all(word in str(found) for word in (hosts[0].name, *words)), str(found)
    assert found.category == category


def test_a_changed_host_key_is_another_message_than_an_unknown_host(
    hosts: Hosts, tmp_path: Path
) -> None:
    to(node(hosts, 0, hosts[0])).check()
    hosts[0].new_host_key()
    assert until(lambda: "not the known one" in refused(hosts))
    text = refused(hosts)
    assert f"ssh-keygen -R '[{hosts[0].address}]:2201' -f {hosts.known_hosts}" in text
    assert "in between" in text or "stand between" in text
    assert "accept-new" not in text
    changed = node(hosts, 0, hosts[0], host_keys="accept-new")
    assert "not the known one" in str(problem(to(changed)))  # accept-new is for new hosts only


def refused(hosts: Hosts) -> str:
    try:
        to(node(hosts, 0, hosts[0])).check()
    except EnvironmentProblem as found:
        return str(found)
    return ""


def test_accept_new_adds_a_new_host_once_and_checks_it_from_then_on(
    hosts: Hosts, tmp_path: Path
) -> None:
    known = tmp_path / "folder" / "known_hosts"
    lenient = node(hosts, 0, hosts[0], known_hosts=known, host_keys="accept-new")
    to(lenient).check()
    to(lenient).check()
    assert known.read_text() == hosts.known_hosts.read_text().splitlines(keepends=True)[0]
    to(node(hosts, 0, hosts[0], known_hosts=known)).check()  # strict


def test_the_users_ssh_configuration_holds_with_a_jump_host_too(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(hosts.home))
    (hosts.home / ".ssh" / "config").write_text(
        f"Host first\n HostName {hosts[0].address}\n Port {hosts[0].port}\n User root\n"
        f"Host second\n HostName {hosts[1].address}\n Port {hosts[1].port}\n User root\n"
        " ProxyJump first\n"
    )
    given = {"user": None, "port": 22, "keys": (), "known_hosts": None}
    connection = to(node(hosts, 1, hosts[1], host="second", **given))
    assert connection.run(("hostname",)).stdout.decode().strip() == hosts[1].name
    came_from = connection.run(("bash", "-c", "echo $SSH_CONNECTION")).stdout.decode().split()[0]
    assert came_from == hosts[0].address


def test_a_configuration_that_turns_host_keys_off_does_not_turn_them_off_here(
    hosts: Hosts, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n StrictHostKeyChecking no\n UserKnownHostsFile none\n")
    lax = node(hosts, 0, hosts[0], known_hosts=None, ssh_config=config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path / "nobody"))
        assert "an unknown host" in str(problem(to(lax)))


def test_the_agents_keys_are_used(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = subprocess.run(
        ["ssh-agent", "-s", "-a", str(tmp_path / "agent")],
        capture_output=True,
        text=True,
        check=True,
    )
    pid = started.stdout.partition("SSH_AGENT_PID=")[2].partition(";")[0]
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    try:
        assert "none of your keys" in str(problem(to(node(hosts, 0, hosts[0], keys=()))))
        subprocess.run(["ssh-add", "-q", str(hosts.key)], check=True)
        to(node(hosts, 0, hosts[0], keys=())).check()
    finally:
        subprocess.run(["kill", pid], check=True)


def test_a_lost_connection_is_no_success_and_is_made_anew(hosts: Hosts) -> None:
    connection = to(node(hosts, 0, hosts[0]))
    with pytest.raises(EnvironmentProblem, match="connection was lost") as caught:
        connection.run(("bash", "-c", 'kill -9 "$PPID"; sleep 5'))  # its sshd
    assert caught.value.category == "lost_node"
    assert connection.run(("hostname",)).stdout.decode().strip() == hosts[0].name


def test_rsync_goes_through_the_systems_client_with_the_same_strictness(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file's name").write_text("text")
    target = f"{hosts[0].address}:{hosts[0].work}/"

    def rsync(**given: object) -> subprocess.CompletedProcess[str]:
        shell = openssh.client_command(node(hosts, 0, hosts[0], **given))
        words = ["rsync", "-a", "-e", " ".join(_quoted(shell)), str(tmp_path / "a file's name")]
        return subprocess.run([*words, target], capture_output=True, text=True, check=False)

    assert rsync().returncode == 0
    assert hosts[0].outside(f"{hosts[0].work}/a file's name").read_text() == "text"
    refused = rsync(known_hosts=tmp_path / "NONE")
    assert refused.returncode
    assert "Host key verification failed" in refused.stderr
    monkeypatch.setenv("HOME", str(hosts.home))
    assert rsync(keys=(), known_hosts=None).returncode == 0  # by HOME, as the connections are


def _quoted(words: list[str]) -> list[str]:
    """As rsync takes them apart: at blanks, with either quotes."""
    return [f"'{word}'" for word in words]


def test_a_dead_link_is_noticed_while_a_command_runs(hosts: Hosts) -> None:
    connection = to(node(hosts, 0, hosts[0]))
    connection.check()
    hosts[0].link_down()
    began = time.monotonic()
    with pytest.raises(EnvironmentProblem) as caught:
        connection.run(("true",), timeout=2)
    assert caught.value.category == "lost_node"
    assert time.monotonic() - began < 60
    hosts[0].link_up()
