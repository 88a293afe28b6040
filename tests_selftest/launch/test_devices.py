"""Device sets are leased so that no two sessions share one, and ports so that no two runs do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.launch import devices, ports
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from tests_selftest.launch.awkward import new_run_id, until

HOLDER = """
import sys, time
from pathlib import Path
from pytest_lmsv.launch import devices
sets = eval(sys.argv[2])
with devices.lease(Path(sys.argv[1]), sets, sys.argv[3]) as lease:
    if len(sys.argv) > 4:
        lease.note(sys.argv[4])
    print(lease.device_set.name, flush=True)
    sys.stdin.read()
"""


def hold(folder: Path, sets: object, device: str = "cpu", *more: str) -> subprocess.Popen[str]:
    """Another session that holds a set until its stdin ends; its stdout says which."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), repr(sets), device, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def held(session: subprocess.Popen[str]) -> str:
    assert session.stdout is not None
    return session.stdout.readline().strip()


def end(*sessions: subprocess.Popen[str]) -> None:
    for session in sessions:
        session.communicate()


def test_each_session_gets_another_set(tmp_path: Path) -> None:
    sessions = [hold(tmp_path, devices.cpu_sets(3)) for _ in range(3)]
    assert sorted(held(session) for session in sessions) == ["cpu-0", "cpu-1", "cpu-2"]
    end(*sessions)


def test_a_session_waits_for_a_set_and_is_told_for_whom(tmp_path: Path) -> None:
    first = hold(tmp_path, devices.cpu_sets(1))
    held(first)
    said: list[str] = []
    threading.Timer(0.7, end, [first]).start()
    begun = time.monotonic()
    with devices.lease(tmp_path, devices.cpu_sets(1), say=said.append) as lease:
        assert lease.device_set.devices == (0,)
    assert time.monotonic() - begun > 0.5
    assert len(said) == 1
    assert said[0].startswith(f"waiting for a device set: cpu0 by process {first.pid} since 2")


def test_waiting_ends_at_its_limit(tmp_path: Path) -> None:
    first = hold(tmp_path, devices.cpu_sets(1))
    held(first)
    message = f"no device set was free for 0 s: cpu0 by process {first.pid} since"
    with (
        pytest.raises(EnvironmentProblem, match=message) as caught,
        devices.lease(tmp_path, devices.cpu_sets(1), wait=0.3),
    ):
        pass
    assert caught.value.category == "device_busy"
    end(first)


def test_a_lease_is_freed_by_death_and_the_next_holder_ends_what_is_left(tmp_path: Path) -> None:
    run_id, other = new_run_id(), new_run_id()
    first = hold(tmp_path, devices.cpu_sets(1), "cpu", run_id)
    held(first)
    orphans = [
        subprocess.Popen(["sleep", "300"], env={**os.environ, "LMSV_RUN_ID": name})
        for name in (run_id, other)
    ]
    first.kill()
    first.communicate()
    said: list[str] = []
    with devices.lease(tmp_path, devices.cpu_sets(1), say=said.append) as lease:
        assert [process.pid for process in lease.leftovers] == [orphans[0].pid]
        assert said == [f"ended process {orphans[0].pid} of an earlier session: sleep 300"]
        assert orphans[0].wait() != 0
        assert orphans[1].poll() is None
    orphans[1].kill()
    orphans[1].wait()


def test_an_orderly_end_leaves_nothing_to_clear(tmp_path: Path) -> None:
    run_id = new_run_id()
    with devices.lease(tmp_path, devices.cpu_sets(1)) as lease:
        lease.note(new_run_id())
        lease.note(run_id)
        noted = (tmp_path / "cpu0.lock").read_text().splitlines()
        assert noted[1:] == [run_id]
    assert (tmp_path / "cpu0.lock").read_text() == ""


def test_overlapping_sets_of_devices_exclude_each_other(tmp_path: Path) -> None:
    first = hold(tmp_path, [(2, 3)], "npu")
    assert held(first) == "npu-2-3"
    with devices.lease(tmp_path, [(0, 1, 2, 3), (4, 5, 6, 7)], "npu", wait=0) as lease:
        assert (lease.device_set.index, lease.device_set.devices) == (1, (4, 5, 6, 7))
    end(first)
    with devices.lease(tmp_path, [(0, 1, 2, 3)], "npu", wait=0) as lease:
        assert lease.device_set.hccl_base_port == 61000


def test_a_free_set_is_given_in_milliseconds(tmp_path: Path) -> None:
    begun = time.perf_counter()
    with devices.lease(tmp_path, devices.cpu_sets(2)):
        assert time.perf_counter() - begun < 0.05


@given(st.integers(1, 256), st.none() | st.just("auto") | st.integers(-3, 300).map(str))
def test_slots_are_between_one_and_the_cores(cores: int, requested: str | None) -> None:
    if requested in (None, "auto"):
        assert devices.slots(requested, cores) == max(1, cores // 2)
    elif 1 <= int(str(requested)) <= cores:
        assert devices.slots(requested, cores) == int(str(requested))
    else:
        with pytest.raises(InputProblem, match="give auto"):
            devices.slots(requested, cores)


def test_a_wrong_number_of_slots_is_one_line() -> None:
    with pytest.raises(InputProblem) as caught:
        devices.slots("five", 4)
    assert str(caught.value) == (
        "-n: 'five' runs at once on 4 core(s): give auto (2) or a number from 1 to 4"
    )


def test_npu_sets_are_whole_and_disjoint() -> None:
    assert devices.npu_sets(range(8), 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert devices.npu_sets([1, 3, 5], 2) == [(1, 3)]
    with pytest.raises(InputProblem, match=r"needs 8 NPU\(s\), 4 found \(\[0, 1, 2, 3\]\)"):
        devices.npu_sets(range(4), 8)


def test_ports_of_different_sets_are_disjoint_and_below_the_ephemeral_range() -> None:
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = [{ports.free_port(number) for _ in range(20)} for number in range(8)]
    assert len(set.union(*found)) == sum(len(some) for some in found)
    assert all(20000 <= port < max(ephemeral, 32768) for some in found for port in some)


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "127.0.0.2"),
        (socket.AF_INET6, "::1"),
    ],
)
def test_a_port_in_use_on_any_address_is_not_free(
    family: socket.AddressFamily, address: str
) -> None:
    port = ports.free_port(9)
    assert ports.is_free(port)
    with socket.socket(family) as server:
        server.bind((address, port))
        server.listen(1)
        assert not ports.is_free(port)


def test_no_free_port_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "MASTER_STEP", 1)
    port = ports.free_port(5)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen(1)
        with pytest.raises(EnvironmentProblem, match=f"no free TCP port from {port} to {port}:"):
            ports.free_port(5)


def test_a_new_port_is_taken_for_each_run(tmp_path: Path) -> None:
    with devices.lease(tmp_path, devices.cpu_sets(1)) as lease:
        seen = {lease.fresh_port().master_port for _ in range(10)}
        assert len(seen) > 1
        assert lease.device_set.master_port in seen


def test_leases_are_kept_by_host_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert devices.default_folder() == Path("/c/pytest-lmsv/leases") / socket.gethostname()
    assert until(lambda: devices.cores() >= 1)
