"""The hosts that the other tests here stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests_selftest.cluster import hosts as machines
from tests_selftest.cluster.conftest import unavailable
from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.launch.awkward import alive, until

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from tests_selftest.cluster.hosts import hosts
with hosts(Path(sys.argv[1])) as found:
    print(found.interface, *[host.pid for host in found], flush=True)
    time.sleep(60)
"""


def ssh(hosts: Hosts, host: Host, command: str) -> subprocess.CompletedProcess[str]:
    """The system's own client, strict about host keys."""
    options = ("IdentitiesOnly=yes", "BatchMode=yes", "StrictHostKeyChecking=yes")
    words = ["ssh", "-F", "none", "-i", str(hosts.key), "-p", str(host.port)]
    for option in (*options, f"UserKnownHostsFile={hosts.known_hosts}", "ConnectTimeout=2"):
        words += ["-o", option]
    words += [f"root@{host.address}", command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_each_host_has_its_own_name_paths_and_processes(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "of the test").write_text("")
    for host in hosts:
        done = ssh(hosts, host, f"hostname; echo $PPID; ls {tmp_path}; ls -d {host.work}; getent "
                                f"hosts {hosts[0].name}")  # fmt: skip
        name, parent, work, first = done.stdout.splitlines()
        assert (name, work) == (host.name, host.work)
        assert int(parent) < 100  # PIDs are its own
        assert first.split() == [hosts[0].address, hosts[0].name]
    hosts[0].run("touch", "a")
    assert hosts[0].outside(f"{hosts[0].work}/a").exists()
    assert not hosts[1].outside(f"{hosts[0].work}").exists()
    assert not Path(hosts[0].work, "a").exists()


def test_a_cable_can_be_pulled_and_a_disk_be_full(hosts: Hosts) -> None:
    hosts[1].link_down()
    assert ssh(hosts, hosts[1], "true").returncode == 255
    assert ssh(hosts, hosts[0], "true").returncode == 0
    hosts[1].link_up()
    assert ssh(hosts, hosts[1], "true").returncode == 0
    hosts[0].fill_disk()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        hosts[0].run("bash", "-c", "echo much > file")
    assert "No space left" in caught.value.stderr
    hosts[0].empty_disk()
    hosts[0].run("bash", "-c", "echo much > file")


def test_a_new_host_key_is_refused_by_a_strict_client(hosts: Hosts) -> None:
    hosts[0].new_host_key()
    assert until(lambda: "REMOTE HOST IDENTIFICATION" in ssh(hosts, hosts[0], "true").stderr)


def test_a_shifted_clock_is_seen_by_programs_on_that_host_only(hosts: Hosts) -> None:
    if machines.faketime() is None:
        unavailable("libfaketime is not installed: apt-get install faketime")
    here = int(subprocess.run(["date", "+%s"], capture_output=True, check=True).stdout)
    hosts[0].set_clock(3600)
    assert abs(int(ssh(hosts, hosts[0], "date +%s").stdout) - here - 3600) < 60
    assert abs(int(ssh(hosts, hosts[1], "date +%s").stdout) - here) < 60


def test_two_sets_of_hosts_live_beside_each_other(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    with machines.hosts(tmp_path / "more", 1) as others:
        assert others.interface != hosts.interface
        assert ssh(others, others[0], "hostname").stdout.strip() == others[0].name
    assert ssh(hosts, hosts[0], "hostname").stdout.strip() == hosts[0].name


@pytest.mark.parametrize("victim", ["test", "keeper"])
def test_nothing_is_left_when_the_test_process_is_killed(
    can_have_hosts: None, tmp_path: Path, victim: str
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    with holder:
        assert holder.stdout is not None
        bridge, *pids = holder.stdout.readline().split()
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        os.kill(holder.pid if victim == "test" else int(children[0]), signal.SIGKILL)
        try:
            assert until(lambda: not any(alive(int(pid)) for pid in pids))
            if victim == "test":
                assert until(lambda: not Path(f"/sys/class/net/{bridge}").exists())
        finally:
            holder.kill()
    (tmp_path / "again").mkdir()
    with machines.hosts(tmp_path / "again", 1) as found:  # the slot is cleared by its names
        assert ssh(found, found[0], "true").returncode == 0


def test_a_killed_host_is_gone(hosts: Hosts) -> None:
    hosts[0].kill()
    assert until(lambda: not alive(hosts[0].pid))
    assert ssh(hosts, hosts[0], "true").returncode == 255
