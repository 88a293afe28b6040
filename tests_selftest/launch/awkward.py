"""Processes that are hard to end, and how to see that they are gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from pytest_lmsv.launch.job import Job

# Own session; double fork; deaf to all but SIGKILL; renamed; scrubbed environment.
AWKWARD = """
mkdir pids
setsid bash -c 'echo $$ > pids/session; exec sleep 300' &
( (trap '' TERM HUP INT; echo $BASHPID > pids/double; while :; do sleep 0.1; done) & )
bash -c 'trap "" TERM HUP INT; echo $$ > pids/deaf; while :; do sleep 0.1; done' &
( exec -a innocent sleep 300 ) & echo $! > pids/renamed
( setsid env -i PATH="$PATH" bash -c 'echo $$ > pids/scrubbed; exec sleep 300' & )
while [ "$(cat pids/* 2>/dev/null | wc -l)" != 5 ]; do sleep 0.02; done
until grep -aq innocent "/proc/$(cat pids/renamed)/cmdline"; do sleep 0.02; done
echo ready
"""
STORM = "trap '' TERM; echo ready; while :; do (sleep 0.01; true) & (sleep 0.02) & wait -n; done"
RUNNER = """
import os, sys
from pathlib import Path
from pytest_lmsv.launch import local
from pytest_lmsv.launch.job import Job
folder, run_id, script = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
argv, env, log = ("bash", "-c", script), dict(os.environ), folder / "log"
job = Job(argv, env, folder, log, run_id, 60, 60, grace=0.3)
"""


def until(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def pids(folder: Path) -> dict[str, int]:
    found = (folder / "pids").iterdir()
    # A .tmp is not written yet, or just being renamed.
    return {path.name: int(path.read_text()) for path in found if path.suffix != ".tmp"}


def carriers(run_id: str) -> list[int]:
    """By other means than the guard's: grep over /proc."""
    found = subprocess.run(
        ["bash", "-c", 'grep -lzxs "LMSV_RUN_ID=$0" /proc/[0-9]*/environ', run_id],
        capture_output=True,
        text=True,
        check=False,
    )
    return [pid for pid in (int(line.split("/")[2]) for line in found.stdout.split()) if alive(pid)]


def new_run_id() -> str:
    return f"test-{uuid.uuid4()}"


def a_job(
    folder: Path,
    *argv: str,
    env: dict[str, str] | None = None,
    time_limit: float = 60,
    silence_limit: float = 60,
    cwd: Path | None = None,
) -> Job:
    environment = dict(os.environ) if env is None else env
    return Job(
        argv,
        environment,
        cwd or folder,
        folder / "log",
        new_run_id(),
        time_limit,
        silence_limit,
        grace=0.3,
    )


def start_runner(tmp_path: Path, run_id: str, script: str, call: str) -> subprocess.Popen[bytes]:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER + call, str(tmp_path), run_id, script])
    log = tmp_path / "log"
    assert until(lambda: log.exists() and "ready" in log.read_text())
    return runner


def guard_of(run_id: str) -> int:
    """The parent of the command that carries this run id."""
    command = min(carriers(run_id))
    return int(Path(f"/proc/{command}/stat").read_text().rpartition(")")[2].split()[1])
