"""Real torchrun and msrun under the guard: none of their processes outlives a run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pytest_lmsv.launch import environments, local, ports
from pytest_lmsv.records import Stack
from tests_selftest.launch.awkward import (
    a_job,
    alive,
    carriers,
    guard_of,
    pids,
    start_runner,
    until,
)

pytestmark = pytest.mark.stacks

SLEEPER = """
import os, time
rank = os.environ.get("RANK") or os.environ["MS_ROLE"] + os.environ.get("MS_NODE_ID", "")
with open(f"pids/{rank}.tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"pids/{rank}.tmp", f"pids/{rank}")
if os.environ.get("LEAVE"):
    raise SystemExit(int(os.environ["LEAVE"]))
time.sleep(300)
"""
COMMANDS = {
    "pta": "torchrun --nproc-per-node 2 --master-addr 127.0.0.1 --master-port {port} sleeper.py",
    "msa": "msrun --worker_num 2 --local_worker_num 2 --master_port {port} "
    "--log_dir msrun_log --join True sleeper.py",
}
PROCESSES = {"pta": 2, "msa": 3}  # msrun's scheduler runs the same script


def script(stack: Stack, folder: Path) -> str:
    environment = environments.ensure(stack, environments.default_folder())
    (folder / "pids").mkdir()
    (folder / "sleeper.py").write_text(SLEEPER)
    command = COMMANDS[stack].format(port=ports.free_port(100))
    return f"export PATH={environment.path}/bin:$PATH; echo ready; exec {command}"


def workers(folder: Path) -> list[int]:
    return list(pids(folder).values())


@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_a_guard_that_is_told_to_quit_ends_all_workers(stack: Stack, tmp_path: Path) -> None:
    job = a_job(tmp_path, "bash", "-c", script(stack, tmp_path), time_limit=30)
    seen: list[int] = []

    def watch() -> None:
        if len(workers(tmp_path)) == PROCESSES[stack] and not seen:
            seen.extend(workers(tmp_path))
            os.kill(guard_of(job.run_id), signal.SIGTERM)

    ended = local.run(job, watch)
    assert len(seen) == PROCESSES[stack]
    assert ended.reason == "interrupted"
    assert ended.unkillable == ()
    assert not [pid for pid in seen if alive(pid)]
    assert not carriers(job.run_id)


@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_a_killed_session_leaves_no_worker(stack: Stack, tmp_path: Path) -> None:
    run_id = f"stacks-{os.getpid()}-{stack}"
    runner = start_runner(tmp_path, run_id, script(stack, tmp_path), "local.run(job)")
    assert until(lambda: len(workers(tmp_path)) == PROCESSES[stack], 60)
    seen = workers(tmp_path)
    runner.kill()
    runner.wait()
    assert until(lambda: not [pid for pid in seen if alive(pid)], 8)
    assert until(lambda: not carriers(run_id), 2)


@pytest.mark.parametrize("stack", ["pta", "msa"])
@pytest.mark.parametrize(("leave", "status"), [("0", 0), ("3", 1)])
def test_the_exit_status_is_passed_on_without_leftovers(
    stack: Stack, leave: str, status: int, tmp_path: Path
) -> None:
    run = f"export LEAVE={leave}; " + script(stack, tmp_path)
    ended = local.run(a_job(tmp_path, "bash", "-c", run, time_limit=90))
    assert (ended.exit_status, ended.reason, ended.leftovers) == (status, "exit", ())
