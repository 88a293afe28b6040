"""Runs a job on this machine, under a guard that outlives pytest just long enough to clean up."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from pytest_lmsv.launch import guard
from pytest_lmsv.launch.job import Ended, Job, Leftover, Reason
from pytest_lmsv.problems import EnvironmentProblem

WATCH_S = 0.5
END_S = guard.SETTLE_S + guard.KILL_S + 5.0  # what a guard may need on top of its grace


def run(job: Job, watch: Callable[[], None] | None = None) -> Ended:
    """Run *job* to its end or its limits; *watch* is called about every half second.

    Whatever is raised meanwhile (KeyboardInterrupt, a time-out plugin) passes on after the tree
    was ended. EnvironmentProblem (``file_missing``) if the command could not be started.
    """
    started = time.monotonic()
    with start(job) as process:  # leaving it closes the pipes and waits for the guard
        try:
            reason = wait(process, job, started, watch)
        except BaseException:
            # The closed pipe makes the guard end the tree, even if we are interrupted again.
            close_stdin(process)
            read_report(process, job.grace + END_S)
            raise
        if reason != "exit":
            close_stdin(process)
        report = read_report(process, job.grace + END_S)
    seconds = time.monotonic() - started
    if report is None:
        stubborn, unkillable = end_run(job.run_id, job.grace)
        return Ended(None, reason if reason != "exit" else "lost", seconds, stubborn, unkillable)
    return ended(report, job, reason, seconds)


def ended(report: dict[str, Any], job: Job, reason: Reason, seconds: float) -> Ended:
    """The end that a guard reports; *reason* is why we told it to end the run, else ``exit``.

    EnvironmentProblem (``file_missing``) if the command could not be started.
    """
    if "problem" in report:
        raise EnvironmentProblem(
            f"cannot start {job.argv[0]} in {job.cwd}: {report['problem']}", "file_missing"
        )
    if report["ended"] == "exit":
        reason = "exit"
    elif reason == "exit":  # the guard was told by somebody else to quit
        reason = "interrupted"
    leftovers, unkillable = (
        tuple(Leftover(**process) for process in report[key]) for key in ("leftovers", "unkillable")
    )
    return Ended(report["exit_status"], reason, seconds, leftovers, unkillable)


def end_run(run_id: str, grace: float = 5.0) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
    """End all processes of a run whose guard is gone, by its exact run id.

    Returns what was found, and what of it could not be ended.
    """
    found, _, unkillable = guard.end_all(run_id, grace)
    return (
        tuple(Leftover(process.pid, process.command) for process in found),
        tuple(Leftover(process.pid, process.command) for process in unkillable),
    )


def start(job: Job) -> subprocess.Popen[bytes]:
    """The guard of *job*, in a session of its own (a Ctrl-C is pytest's to decide on)."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-u", guard.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(specification(job)).encode("ascii") + b"\n")
        process.stdin.flush()
    except BrokenPipeError:  # killed already: found out by the missing report
        pass
    except BaseException:
        process.stdin.close()
        raise
    return process


def specification(job: Job) -> dict[str, Any]:
    """What the guard of *job* is told in its first line."""
    return {
        "argv": list(job.argv),
        "env": dict(job.env),
        "cwd": str(job.cwd),
        "log": str(job.log),
        "run_id": job.run_id,
        "heartbeat_s": 0,
        "grace_s": job.grace,
        "parent": os.getpid(),
    }


def wait(
    process: subprocess.Popen[bytes],
    job: Job,
    started: float,
    watch: Callable[[], None] | None,
) -> Reason:
    """Why the waiting ended: ``exit`` where the guard has something to say, else a limit."""
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    state, changed = growth(job), started
    while True:
        now = time.monotonic()
        due = min(now + WATCH_S, started + job.time_limit)
        if poll.poll(max(0, round((due - now) * 1000))):
            return "exit"
        if watch is not None:
            watch()
        now = time.monotonic()
        if now >= started + job.time_limit:
            return "time limit"
        seen = growth(job)
        if seen != state:
            state, changed = seen, now
        elif now >= changed + job.silence_limit:
            return "silence"


def growth(job: Job) -> list[tuple[str, int, int]]:
    """Name, size and time of change of every file that the run writes its output to."""
    state = []
    for path in (job.log, job.cwd / "msrun_log", *job.outputs):
        try:
            if path.is_dir():
                with os.scandir(path) as entries:
                    files = [(entry.path, entry.stat()) for entry in entries]
            else:
                files = [(str(path), path.stat())]
        except OSError:  # not there yet, or just removed
            continue
        state += [(name, stat.st_size, stat.st_mtime_ns) for name, stat in files]
    return state


def readable(process: subprocess.Popen[bytes]) -> bool:
    """Whether the guard has said something, or is gone."""
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], 0)[0])


def close_stdin(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def read_report(process: subprocess.Popen[bytes], limit: float) -> dict[str, Any] | None:
    """The guard's report; None if it was killed, as it is if it does not answer for *limit* s."""
    assert process.stdout is not None
    until = time.monotonic() + limit
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    text = b""
    while not text.endswith(b"\n"):
        if not poll.poll(max(0, round((until - time.monotonic()) * 1000))):
            process.kill()
            return None
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            return None
        text += part
    return dict(json.loads(text))
