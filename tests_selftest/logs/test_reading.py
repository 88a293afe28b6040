"""All files of one run are one reading: the rank, the copies, the files of other runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_lmsv.logs.reading import Reading, read
from pytest_lmsv.problems import InputProblem

MORE = Path(__file__).parent / "more"
"""Logs of real runs on CPU (torch 2.13.0, MindSpore 2.7.1), paths and repetitions taken out."""

RECORD = (
    " iteration {step:8d}/{steps:8d} | consumed samples:            8 | elapsed time per iteration"
    " (ms): {time:.1f} | learning rate: 1.000000E-05 | global batch size:     8 | loss: {loss:.6E}"
    " | loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations:   0 | number of nan"
    " iterations:   0 |\n"
)
TRACEBACK = 'Traceback (most recent call last):\n  File "/data/a.py", line 1, in <module>\n'


def line(step: int, steps: int = 3, loss: float = 1.5, time: float = 100.0) -> str:
    return RECORD.format(step=step, steps=steps, time=time + step, loss=loss / step)


def files(folder: Path, **contents: str) -> list[Path]:
    paths = []
    for name, content in contents.items():
        path = folder / f"{name}.log"
        path.write_text(content, encoding="utf-8")
        paths.append(path)
    return paths


def codes(reading: Reading) -> list[str]:
    return [note.code for note in reading.notes]


@pytest.mark.parametrize(
    ("run", "type_", "category", "rank", "part"),
    [
        ("torchrun-kill", "SIGKILL", "killed", 0, "Signal 9 (SIGKILL)"),
        ("torchrun-abort", "SIGABRT", "unknown", 0, "Signal 6 (SIGABRT)"),
        ("torchrun-exit3", "ExitStatus", "unknown", 0, "exitcode  : 3"),
        ("torchrun-raise", "KeyError", "other_python", 0, "KeyError: 'a'"),
        ("torchrun-port", "DistNetworkError", "port_in_use", None, "EADDRINUSE"),
        ("torchrun-teardown", "RuntimeError", "other_python", 0, "could not save"),
        ("msrun-raise", "ValueError", "other_python", 0, "empty sample list"),
        ("msrun-kill", "SIGKILL", "killed", 0, "Error code: -9"),
        ("msrun-missing", "ModuleNotFoundError", "missing_module", 1, "qwen_vl_utils"),
    ],
)
def test_the_rank_that_failed_first_is_the_root_of_a_real_run(
    run: str, type_: str, category: str, rank: int | None, part: str
) -> None:
    folder = MORE / run
    logs = [folder / "log.txt"]
    if (folder / "msrun_log").is_dir():
        logs.append(folder / "msrun_log")
    error = read(logs, steps=3).error
    assert error is not None
    assert (error.type, error.category, error.rank) == (type_, category, rank)
    assert part in error.line
    assert error.phase == ("teardown" if run == "torchrun-teardown" else "run")


def test_a_real_msrun_console_alone_tells_the_same_root() -> None:
    error = read([MORE / "msrun-raise" / "log.txt"], steps=3).error
    assert error is not None
    assert error.line == "ValueError: empty sample list"


def test_a_healthy_real_msrun_run_has_no_error_and_each_step_once() -> None:
    folder = MORE / "msrun-ok"
    reading = read([folder / "log.txt", folder / "msrun_log"], steps=3)
    assert reading.error is None
    assert [step for step, _ in reading.metrics.losses] == [1, 2, 3]
    assert reading.complete is True


def test_the_line_number_is_that_of_the_root(tmp_path: Path) -> None:
    (path,) = files(tmp_path, a=line(1) + "x\r\nŝ\n" + TRACEBACK + "ValueError: bad\n" + "y\n" * 9)
    error = read([path]).error
    assert error is not None
    assert error.line_number == 6
    coloured = path.read_text().replace("bad", "\x1b[31mbad\x1b[0m").replace("x", "\x1b[1mx")
    path.write_text(coloured)
    error = read([path]).error
    assert error is not None
    assert (error.line, error.line_number) == ("ValueError: bad", 6)


def test_a_console_that_tails_the_workers_counts_nothing_twice(tmp_path: Path) -> None:
    own = "".join(line(step) for step in (1, 2, 3))
    memory = "[Rank 1] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 9.5 |"
    memory += " reserved: 99.0 | max reserved: 99.0\n"
    paths = files(tmp_path, console=own + memory, worker_0="x\n", worker_1=own + memory)
    reading = read(paths, steps=3)
    assert len(reading.metrics.losses) == 3
    assert reading.metrics.memory_mb == 9.5


def test_the_loss_comes_from_the_rank_that_prints_it(tmp_path: Path) -> None:
    paths = files(tmp_path, worker_0=line(1), worker_1=line(1, loss=2.0) + line(2, loss=2.0))
    assert read(paths).metrics.losses == ((1, 2.0), (2, 1.0))


def test_a_worker_of_an_earlier_larger_run_is_left_out(tmp_path: Path) -> None:
    start = "Start worker process with rank id:{}, log file:worker_{}.log.\n"
    stale = "".join(line(step, loss=8.0) for step in (1, 2, 3))
    paths = files(
        tmp_path,
        console="".join(start.format(rank, rank) for rank in (0, 1)),
        worker_0="x\n",
        worker_1=line(1) + line(2),
        worker_2=stale,
        worker_3=stale + TRACEBACK + "ValueError: old\n",
    )
    reading = read(paths, steps=3)
    assert reading.metrics.losses == ((1, 1.5), (2, 0.75))
    assert reading.error is None
    assert codes(reading) == ["left_out", "left_out"]


def test_a_worker_beyond_the_world_size_is_left_out(tmp_path: Path) -> None:
    world = "using world size: 2, data-parallel size: 2\n"
    paths = files(tmp_path, worker_0=world, worker_1=line(1), worker_2=line(1, loss=7.0) + line(2))
    reading = read(paths)
    assert reading.metrics.losses == ((1, 1.5),)
    assert codes(reading) == ["left_out"]


def test_a_worker_that_ended_before_the_others_began_is_left_out(tmp_path: Path) -> None:
    old = "[2026-04-25 09:00:00]" + line(1, loss=7.0) + "[2026-04-25 09:05:00]" + line(2)
    new = "[2026-04-25 11:00:00]" + line(1)
    reading = read(files(tmp_path, worker_0=new, worker_1=old))
    assert reading.metrics.losses == ((1, 1.5),)
    assert codes(reading) == ["left_out"]


def test_a_file_last_written_before_the_run_is_left_out(tmp_path: Path) -> None:
    old, new = files(tmp_path, train_1=line(1, loss=7.0) + line(2), train_2=line(1))
    os.utime(old, (1_000_000, 1_000_000))
    reading = read([old, new], since=2_000_000.0)
    assert reading.metrics.losses == ((1, 1.5),)
    assert codes(reading) == ["left_out"]


def test_only_the_last_of_appended_runs_counts(tmp_path: Path) -> None:
    first = line(1, loss=9.0) + line(2, loss=9.0) + TRACEBACK + "ValueError: old\n"
    reading = read(files(tmp_path, a=first + line(1) + line(2) + line(3)))
    assert [value for _, value in reading.metrics.losses] == [1.5, 0.75, 0.5]
    assert reading.error is None
    assert codes(reading) == ["stale_error"]


def test_an_error_of_the_last_of_appended_runs_is_the_error(tmp_path: Path) -> None:
    first = "+ torchrun --nproc_per_node 8 a.py\n" + line(1, 1) + "[after training is done]\n"
    second = "+ torchrun --nproc_per_node 8 a.py\n" + TRACEBACK + "ValueError: new\n"
    reading = read(files(tmp_path, a=first + second))
    assert reading.error is not None
    assert reading.error.line == "ValueError: new"
    assert reading.metrics.losses == ()


def test_an_error_of_one_rank_is_not_healed_by_the_progress_of_another(tmp_path: Path) -> None:
    text = "".join(
        "[rank0]: " + part + "\n" for part in (TRACEBACK + "ValueError: bad").split("\n")
    )
    text += "[rank1]: " + line(1)
    text += "E0425 18:40:11.000000 1 torch/x.py:8] failed (exitcode: 1) local_rank: 0 (pid: 4)\n"
    error = read(files(tmp_path, a=text)).error
    assert error is not None
    assert (error.line, error.rank) == ("ValueError: bad", 0)


def test_a_launcher_that_starts_the_ranks_again_has_not_failed(tmp_path: Path) -> None:
    text = line(1, 4) + TRACEBACK + "RuntimeError: flaky\n"
    text += "E0425 18:40:11.000000 1 torch/x.py:8] failed (exitcode: 1) local_rank: 0 (pid: 4)\n"
    text += line(2, 4) + line(3, 4) + line(4, 4)
    reading = read(files(tmp_path, a=text))
    assert reading.error is None
    assert reading.complete is True


def test_a_retry_without_any_life_after_it_is_the_error_of_a_failed_run(tmp_path: Path) -> None:
    text = TRACEBACK + "ConnectionError: hub\n[WARNING] attempt 1/3 failed, retrying\n"
    paths = files(tmp_path, a=text)
    assert read(paths).error is None
    assert read(paths, failed=False).error is None
    error = read(paths, failed=True).error
    assert error is not None
    assert error.line == "ConnectionError: hub"


def test_the_figures_of_a_wrapper_after_an_error_are_not_read(tmp_path: Path) -> None:
    text = TRACEBACK + "ValueError: bad\nloss: 1.0\nNPU memory (MB): 77.0\n"
    text += "elapsed time per iteration: 5 ms\n"
    metrics = read(files(tmp_path, a=text)).metrics
    assert (metrics.losses, metrics.memory_mb, metrics.step_time_ms) == ((), None, ())


def test_a_record_without_its_end_waits_for_it(tmp_path: Path) -> None:
    whole = line(1) + line(2)
    for end in range(len(line(1)) + 10, len(whole) - 3):
        (path,) = files(tmp_path, a=whole[:end])
        reading = read([path])
        assert reading.metrics.losses == ((1, 1.5),), whole[:end][-30:]
        assert [value for _, value in reading.metrics.step_time_ms] == [101.0]


def test_a_folder_stands_for_its_logs(tmp_path: Path) -> None:
    files(tmp_path, worker_0="x\n", worker_1=line(1))
    assert read([tmp_path]).metrics.losses == ((1, 1.5),)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match=r"gone\.log: log can't be read \(No such file"):
        read([tmp_path / "gone.log"])
    with pytest.raises(InputProblem, match=r"no \*\.log in this folder"):
        read([tmp_path])


def test_the_search_without_the_fast_library_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_lmsv.logs import text

    content = (MORE / "msrun-raise" / "log.txt").read_bytes()
    fast = text.searcher(text.NEEDLES)(content)
    monkeypatch.setitem(__import__("sys").modules, "ahocorasick_rs", None)
    assert text.searcher(text.NEEDLES)(content) == fast
