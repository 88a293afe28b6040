"""local.run: what the command gets, what is reported, and the limits."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from pytest_lmsv.launch import local
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.launch.awkward import AWKWARD, a_job, alive, pids


def test_a_normal_end_passes_on_the_exit_status(tmp_path: Path) -> None:
    ended = local.run(a_job(tmp_path, "bash", "-c", "exit 7"))
    assert (ended.exit_status, ended.reason, ended.leftovers) == (7, "exit", ())


def test_a_signal_is_passed_on_as_a_negative_status(tmp_path: Path) -> None:
    ended = local.run(a_job(tmp_path, "bash", "-c", "kill -SEGV $$"))
    assert (ended.exit_status, ended.reason) == (-signal.SIGSEGV, "exit")


def test_both_streams_go_to_the_log_which_starts_empty(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("of an older run\n")
    local.run(a_job(tmp_path, "bash", "-c", "echo out; echo err >&2"))
    assert (tmp_path / "log").read_text() == "out\nerr\n"


def test_the_environment_is_exactly_the_given_one(tmp_path: Path) -> None:
    awkward = "a 'b' \"c\" $HOME `id`\n\\ ü 中 \udcff"
    env = {"PATH": os.environ["PATH"], "AWKWARD": awkward, "EMPTY": ""}
    given = a_job(tmp_path, "env", "-0", env=env)
    local.run(given)
    entries = (tmp_path / "log").read_bytes().strip(b"\0").split(b"\0")
    seen = dict(os.fsdecode(entry).split("=", 1) for entry in entries)
    assert seen == {**env, "LMSV_RUN_ID": given.run_id}


def test_arguments_reach_the_command_unchanged(tmp_path: Path) -> None:
    arguments = ("a b", "$HOME", "*", "", "q\n'\"")
    local.run(a_job(tmp_path, "printf", "%s\\0", *arguments))
    assert (tmp_path / "log").read_text() == "".join(f"{part}\0" for part in arguments)


def test_the_command_starts_with_default_signals_and_no_stdin(tmp_path: Path) -> None:
    code = "import signal as s, sys; print(s.getsignal(2), s.getsignal(15).value, sys.stdin.read())"
    local.run(a_job(tmp_path, sys.executable, "-c", code))
    text = (tmp_path / "log").read_text()
    assert re.fullmatch(r"<built-in function default_int_handler> 0 \n", text)


def test_a_missing_command_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(
        EnvironmentProblem, match=r"cannot start /no/such/launcher in .*No such file"
    ):
        local.run(a_job(tmp_path, "/no/such/launcher"))


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"cannot start true in .*/gone: .*No such file"):
        local.run(a_job(tmp_path, "true", cwd=tmp_path / "gone"))


def test_the_time_limit_ends_the_tree(tmp_path: Path) -> None:
    ended = local.run(a_job(tmp_path, "bash", "-c", AWKWARD + "sleep 300", time_limit=1.5))
    assert ended.reason == "time limit"
    assert ended.exit_status == -signal.SIGTERM
    assert ended.seconds < 5
    assert not [pid for pid in pids(tmp_path).values() if alive(pid)]
    assert pids(tmp_path)["deaf"] in {process.pid for process in ended.leftovers}


def test_silence_ends_a_run_and_output_does_not(tmp_path: Path) -> None:
    chatty = "for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.2; done"
    assert local.run(a_job(tmp_path, "bash", "-c", chatty, silence_limit=0.8)).reason == "exit"
    ended = local.run(a_job(tmp_path, "bash", "-c", "echo hello; sleep 300", silence_limit=0.8))
    assert ended.reason == "silence"
    assert 0.8 <= ended.seconds < 4


def test_growth_of_msrun_logs_counts_as_output(tmp_path: Path) -> None:
    (tmp_path / "msrun_log").mkdir()
    chatty = "for i in 1 2 3 4 5 6 7 8; do echo $i >> msrun_log/worker_0.log; sleep 0.2; done"
    assert local.run(a_job(tmp_path, "bash", "-c", chatty, silence_limit=0.9)).reason == "exit"


def test_zero_exit_after_our_interrupt_is_no_exit(tmp_path: Path) -> None:
    polite = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    ended = local.run(a_job(tmp_path, "bash", "-c", polite, time_limit=0.7))
    assert (ended.exit_status, ended.reason) == (0, "time limit")


def test_watch_is_called_about_every_half_second(tmp_path: Path) -> None:
    calls: list[float] = []
    local.run(a_job(tmp_path, "sleep", "1.8"), lambda: calls.append(time.monotonic()))
    assert 2 <= len(calls) <= 4


def test_a_flood_of_output_neither_blocks_nor_survives(tmp_path: Path) -> None:
    flood = "yes | head -c 100M; yes | head -c 10; echo; sleep 300"
    ended = local.run(a_job(tmp_path, "bash", "-c", flood, time_limit=2))
    assert ended.reason == "time limit"
    assert (tmp_path / "log").stat().st_size == 100 * 1024 * 1024 + 11
    (tmp_path / "log").unlink()
