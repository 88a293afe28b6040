"""Nothing outlives a run, however the run, its guard or the session ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_lmsv.launch import guard, local
from pytest_lmsv.launch.job import Job
from tests_selftest.launch.awkward import (
    AWKWARD,
    STORM,
    a_job,
    alive,
    carriers,
    guard_of,
    new_run_id,
    pids,
    start_runner,
    until,
)


@pytest.fixture
def run_id() -> Iterator[str]:
    name = new_run_id()
    yield name
    local.end_run(name, 0)


def test_what_outlives_a_normal_end_is_ended_and_named(tmp_path: Path) -> None:
    given = a_job(tmp_path, "bash", "-c", AWKWARD)
    ended = local.run(given)
    assert (ended.exit_status, ended.reason) == (0, "exit")
    assert not [pid for pid in pids(tmp_path).values() if alive(pid)]
    assert set(pids(tmp_path).values()) <= {process.pid for process in ended.leftovers}
    assert any(process.command.startswith("innocent") for process in ended.leftovers), ended


def test_a_child_that_is_just_ending_is_no_leftover(tmp_path: Path) -> None:
    assert local.run(a_job(tmp_path, "bash", "-c", "sleep 0.1 & exit 0")).leftovers == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_an_exception_of_the_watch_ends_the_tree_and_passes_on(
    error: type[BaseException], tmp_path: Path
) -> None:
    def watch() -> None:
        if "ready" in (tmp_path / "log").read_text():
            raise error

    with pytest.raises(error):
        local.run(a_job(tmp_path, "bash", "-c", AWKWARD + "sleep 300"), watch)
    assert not [pid for pid in pids(tmp_path).values() if alive(pid)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_a_session_that_a_signal_ends(
    number: signal.Signals, tmp_path: Path, run_id: str
) -> None:
    runner = start_runner(tmp_path, run_id, AWKWARD + "sleep 300", "local.run(job)")
    runner.send_signal(number)
    runner.wait()
    assert until(lambda: not [pid for pid in pids(tmp_path).values() if alive(pid)], 5)
    assert until(lambda: not carriers(run_id), 2)


def test_nothing_outlives_a_session_that_calls_os_exit(tmp_path: Path, run_id: str) -> None:
    call = "local.run(job, lambda: os._exit(0) if (folder / 'leave').exists() else None)"
    runner = start_runner(tmp_path, run_id, AWKWARD + "sleep 300", call)
    (tmp_path / "leave").touch()
    runner.wait()
    assert until(lambda: not [pid for pid in pids(tmp_path).values() if alive(pid)], 5)


def test_a_fork_that_holds_the_pipe_does_not_keep_the_run_alive(
    tmp_path: Path, run_id: str
) -> None:
    """A test may fork (multiprocessing); its copy of the guard's stdin would hide the EOF."""
    call = """
def fork():
    if not (folder / "forked").exists():
        pid = os.fork()
        if pid == 0:
            (folder / "forked").write_text(str(os.getpid()))
            import time
            time.sleep(60)
            os._exit(0)
local.run(job, fork)
"""
    runner = start_runner(tmp_path, run_id, AWKWARD + "sleep 300", call)
    assert until(lambda: (tmp_path / "forked").exists() and (tmp_path / "forked").read_text())
    runner.kill()
    runner.wait()
    gone = until(lambda: not [pid for pid in pids(tmp_path).values() if alive(pid)], 5)
    os.kill(int((tmp_path / "forked").read_text()), signal.SIGKILL)
    assert gone


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGKILL, "lost"), (signal.SIGTERM, "interrupted")]
)
def test_a_guard_that_is_ended_by_others_leaves_nothing(
    number: signal.Signals, reason: str, tmp_path: Path
) -> None:
    script = AWKWARD.replace("setsid env -i", "setsid env") + "sleep 300"
    given = a_job(tmp_path, "bash", "-c", script)

    def end_guard() -> None:
        if "ready" in (tmp_path / "log").read_text():
            os.kill(guard_of(given.run_id), number)

    ended = local.run(given, end_guard)
    assert ended.reason == reason
    assert not [pid for pid in pids(tmp_path).values() if alive(pid)]
    assert ended.leftovers


def test_a_guard_that_hangs_is_ended_together_with_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "END_S", 0.2)
    script = AWKWARD.replace("setsid env -i", "setsid env") + "sleep 300"
    given = a_job(tmp_path, "bash", "-c", script, time_limit=1.5)

    def stop_guard() -> None:
        if "ready" in (tmp_path / "log").read_text():
            os.kill(guard_of(given.run_id), signal.SIGSTOP)

    ended = local.run(given, stop_guard)
    assert (ended.exit_status, ended.reason) == (None, "time limit")
    assert not [pid for pid in pids(tmp_path).values() if alive(pid)]


def test_ctrl_c_at_the_guard_is_not_heeded(tmp_path: Path) -> None:
    given = a_job(tmp_path, "sleep", "1.2")
    ended = local.run(given, lambda: os.kill(guard_of(given.run_id), signal.SIGINT))
    assert (ended.exit_status, ended.reason) == (0, "exit")


CHAIN = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.mark.parametrize("argv", [("bash", "-c", STORM), (sys.executable, "-c", CHAIN)])
def test_a_storm_of_forks_is_ended(argv: tuple[str, ...], tmp_path: Path) -> None:
    given = a_job(tmp_path, *argv, time_limit=1)
    ended = local.run(given)
    assert ended.unkillable == ()
    assert ended.seconds < 6
    assert not carriers(given.run_id)


def test_two_runs_at_once_never_touch_each_other(tmp_path: Path) -> None:
    """One run id is the beginning of the other; one ends by its limit beside the other."""
    ended = {}

    def go(name: str, seconds: str, limit: float) -> None:
        folder = tmp_path / name
        folder.mkdir()
        script = f"setsid sleep {seconds} & wait"
        job = Job(("bash", "-c", script), dict(os.environ), folder, folder / "log", name, limit, 60)
        ended[name] = local.run(job)

    base = new_run_id()
    threads = [
        threading.Thread(target=go, args=(base, "300", 0.7)),
        threading.Thread(target=go, args=(base + "b", "2", 60)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended[base].reason == "time limit"
    assert (ended[base + "b"].exit_status, ended[base + "b"].reason) == (0, "exit")


def test_a_process_that_is_not_ours_is_never_signalled(run_id: str) -> None:
    near = [f"{run_id}b", f"x{run_id}", run_id[:-1]]
    strangers = [
        subprocess.Popen(["sleep", "300"], env={**os.environ, "LMSV_RUN_ID": name}) for name in near
    ]
    strangers.append(
        subprocess.Popen(
            ["sleep", "300"],
            env={**os.environ, "XLMSV_RUN_ID": run_id, "A": f"LMSV_RUN_ID={run_id}"},
        )
    )
    strangers.append(subprocess.Popen(["bash", "-c", f"sleep 300; : LMSV_RUN_ID={run_id}"]))
    ours = subprocess.Popen(["sleep", "300"], env={**os.environ, "LMSV_RUN_ID": run_id})
    try:
        leftovers, unkillable = local.end_run(run_id, 0.5)
        assert [process.pid for process in leftovers] == [ours.pid]
        assert unkillable == ()
        assert ours.wait() == -signal.SIGTERM
        assert [stranger.poll() for stranger in strangers] == [None] * 5
        reused = guard.Process(strangers[0].pid, start=1)
        guard.send(reused, signal.SIGKILL)
        assert strangers[0].poll() is None
    finally:
        for process in [*strangers, ours]:
            process.kill()
            process.wait()


def test_the_guard_spares_itself_and_its_ancestors(run_id: str) -> None:
    """A session inside a run (as this project's own tests) has the mark in its environment."""
    code = f"from pytest_lmsv.launch import local; print(local.end_run({run_id!r}, 0.2))"
    done = subprocess.run(
        ["bash", "-c", '"$0" -c "$1"; echo survived', sys.executable, code],
        env={**os.environ, "LMSV_RUN_ID": run_id},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "((), ())\nsurvived\n"
