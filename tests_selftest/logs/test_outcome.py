"""The table of DESIGN 5.1, row by row, and what beats what."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lmsv.judge.outcome import Judged, Reason, judge, run_record
from pytest_lmsv.logs.reading import Reading
from pytest_lmsv.records import Kind, Metrics, RunError

ERROR = RunError("ValueError", "bad", "other_python", line="ValueError: bad")
LATE = RunError("RuntimeError", "gone", "hccl_comm", line="RuntimeError: gone", phase="teardown")
OUR_SIGNAL = RunError("SignalException", "got signal: 15", "killed", line="SignalException")
DONE = Reading(Metrics(), complete=True, steps=(1, 2), asked=2)
OPEN = Reading(Metrics(), complete=False, steps=(1,), asked=2, last_line="last words")
WARNED = Reading(Metrics(), complete=False, last_warning="a warning", last_line="last words")


def with_error(reading: Reading, error: RunError) -> Reading:
    return Reading(
        reading.metrics, error=error, complete=reading.complete, steps=reading.steps, asked=2
    )


@pytest.mark.parametrize(
    ("reading", "exit_status", "reason", "outcome", "category", "teardown"),
    [
        # an unhandled error before the work was complete, whatever the exit status says
        (with_error(OPEN, ERROR), 1, "exit", "error", "other_python", None),
        (with_error(OPEN, ERROR), 0, "exit", "error", "other_python", None),
        (with_error(OPEN, ERROR), None, "time limit", "error", "other_python", None),
        (with_error(OPEN, LATE), 1, "exit", "error", "hccl_comm", None),
        (with_error(DONE, ERROR), 0, "exit", "error", "other_python", None),
        # work complete, then an error, a non-zero exit or our limit
        (with_error(DONE, LATE), 1, "exit", "ok", None, "hccl_comm"),
        (with_error(DONE, LATE), 0, "exit", "ok", None, "hccl_comm"),
        (DONE, 1, "exit", "ok", None, "unknown"),
        (DONE, -9, "exit", "ok", None, "killed"),
        (DONE, None, "time limit", "ok", None, "hang"),
        (DONE, None, "silence", "ok", None, "hang"),
        # ended by us
        (OPEN, None, "time limit", "timeout", "hang", None),
        (OPEN, -15, "silence", "timeout", "hang", None),
        (with_error(OPEN, OUR_SIGNAL), 143, "time limit", "timeout", "hang", None),
        # exit status not 0, or a signal, and no error text
        (OPEN, 1, "exit", "error", "unknown", None),
        (OPEN, -9, "exit", "error", "killed", None),
        (OPEN, 137, "exit", "error", "killed", None),
        (OPEN, None, "lost", "error", "lost_node", None),
        # fewer step records than steps; no completion record
        (OPEN, 0, "exit", "error", "incomplete", None),
        (Reading(Metrics()), 0, "exit", "error", "incomplete", None),
        # else
        (DONE, 0, "exit", "ok", None, None),
    ],
)
def test_the_first_row_that_fits_decides(
    reading: Reading,
    exit_status: int | None,
    reason: Reason,
    outcome: str,
    category: str | None,
    teardown: str | None,
) -> None:
    judged = judge(reading, kind="training", exit_status=exit_status, reason=reason)
    assert judged.outcome == outcome
    assert (judged.error.category if judged.error else None) == category
    assert (judged.teardown_error.category if judged.teardown_error else None) == teardown


def test_the_message_of_an_unspoken_end_tells_its_status_and_the_last_warning_or_line() -> None:
    warned = judge(WARNED, kind="training", exit_status=1).error
    silent = judge(OPEN, kind="training", exit_status=1).error
    assert warned is not None
    assert (warned.message, warned.line) == ("exit status 1; last warning: a warning", "a warning")
    assert silent is not None
    assert (silent.message, silent.line) == ("exit status 1; last line: last words", "last words")
    mute = judge(replace(OPEN, last_line=""), kind="training", exit_status=-9).error
    assert mute is not None
    assert (mute.message, mute.line) == ("killed by SIGKILL", "")


def test_an_inference_without_output_is_incomplete() -> None:
    judged = judge(DONE, kind="inference", exit_status=0, output_made=False)
    assert judged.outcome == "error"
    assert judged.error is not None
    assert judged.error.category == "incomplete"


def test_a_log_that_is_still_written_is_not_incomplete() -> None:
    found = judge(OPEN, kind="training", exit_status=None, incomplete_counts=False)
    assert found == Judged("ok")


RECORD = (
    " iteration {step:8d}/{steps:8d} | consumed samples:            8 | elapsed time per iteration"
    " (ms): {time:.1f} | learning rate: 1.000000E-05 | global batch size:     8 |{loss} loss scale:"
    " 1.0 | grad norm: {norm} | number of skipped iterations: {skipped:3d} | number of nan"
    " iterations: {nan:3d} |\n"
)


def line(step: int, steps: int = 3, loss: float | None = 1.5, norm: str = "0.512",
         skipped: int = 0, nan: int = 0) -> str:  # fmt: skip
    shown = "" if loss is None else f" loss: {loss:.6E} |"
    return RECORD.format(
        step=step, steps=steps, time=100.0 + step, loss=shown, norm=norm, skipped=skipped, nan=nan
    )


def completion(folder: Path, rank: int, world: int = 1, run_id: str = "a", **more: object) -> None:
    folder.mkdir(exist_ok=True)
    record = {
        "schema": 1, "complete": True, "rank": rank, "world_size": world, "run_id": run_id,
        "stack": "pta", "device": "cpu", "steps": 3, "memory_mb": 12.5 + rank,
        "memory_kind": "rss", "generation_s": None, "versions": {"torch": "2.13.0"},
        "documents": {"model": "sha256:1"}, "parameters": {
            "a.weight": {"dtype": "float32", "shape": [2, 3], "digest": "sha256:2"}
        }, "parameter_count": 6, "echo": {"/model/num_layers": 2}, **more,
    }  # fmt: skip
    (folder / f"rank_{rank}.json").write_text(json.dumps(record), encoding="utf-8")


def record_of(tmp_path: Path, content: str, kind: Kind = "training", **more: object):  # type: ignore[no-untyped-def]
    path = tmp_path / "pta.log"
    path.write_text(content, encoding="utf-8")
    arguments: dict[str, object] = {"steps": 3, "exit_status": 0, **more}
    return run_record(stack="pta", kind=kind, logs=[path], **arguments)  # type: ignore[arg-type]


def test_a_step_without_a_loss_is_a_step(tmp_path: Path) -> None:
    found = record_of(tmp_path, line(1, loss=None, skipped=1) + line(2) + line(3))
    assert found.outcome == "ok"
    assert [step for step, _ in found.metrics.losses] == [2, 3]


def test_a_loss_that_vanished_is_nan_for_the_verdicts(tmp_path: Path) -> None:
    found = record_of(
        tmp_path, line(1) + line(2, loss=None, nan=1) + line(3, loss=None, norm="nan")
    )
    assert found.outcome == "ok"
    assert [step for step, value in found.metrics.losses if math.isnan(value)] == [2, 3]
    assert [note.code for note in found.notes] == ["nan_loss"]


def test_figures_come_from_the_records_where_they_agree_with_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    completion(folder, 0, world=2)
    completion(folder, 1, world=2)
    steps = [
        {"step": 1, "loss": 1.50000012, "grad_norm": 0.512345678},
        {"step": 2, "loss": 9.0, "grad_norm": 0.512},
        {"step": 3, "loss": "NaN", "grad_norm": "Infinity"},
    ]
    (folder / "steps_1.jsonl").write_text(
        "".join(json.dumps(step) + "\n" for step in steps) + '{"st'
    )
    found = record_of(tmp_path, line(1) + line(2) + line(3), record=folder, run_id="a")
    assert found.outcome == "ok"
    assert found.metrics.losses == ((1, 1.50000012), (2, 1.5), (3, 1.5))
    assert found.metrics.grad_norms[0] == (1, 0.512345678)
    assert found.metrics.memory_mb == 13.5
    assert found.metrics.sources["memory_mb"] == "rss, completion records"
    assert "digits from step records" in found.metrics.sources["losses"]
    assert [note.code for note in found.notes] == ["record_differs"]
    assert found.versions == {"torch": "2.13.0"}
    assert found.completions[1].parameters["a.weight"].shape == (2, 3)


def test_an_inference_is_complete_with_the_record_of_every_rank(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    completion(folder, 0, world=2, generation_s=4.5, steps=None)
    text = "Inference finished.\n"
    one = record_of(tmp_path, text, "inference", record=folder, steps=None)
    assert one.error is not None
    assert one.error.category == "incomplete"
    completion(folder, 1, world=2, generation_s=5.5, steps=None)
    both = record_of(tmp_path, text, "inference", record=folder, steps=None)
    assert both.outcome == "ok"
    assert both.metrics.generation_s == 5.5


@pytest.mark.parametrize("written", ["a.b", "a.b.n0", "a.b.n12"])
def test_a_record_of_the_run_on_one_of_its_machines_is_its_own(
    tmp_path: Path, written: str
) -> None:
    completion(tmp_path / "record", 0, run_id=written, steps=None)
    given = {"record": tmp_path / "record", "run_id": "a.b"}
    found = record_of(tmp_path, "x\n", "inference", **given, steps=None)
    assert found.notes == ()
    assert [done.run_id for done in found.completions] == [written]


@pytest.mark.parametrize("written", ["old", "a.bb", "a.b.n", "a.b.nx", "a.b.n1.n1", "axb", "a"])
def test_a_record_of_another_run_is_left_out(tmp_path: Path, written: str) -> None:
    folder = tmp_path / "record"
    completion(folder, 0, run_id=written)
    found = record_of(tmp_path, "x\n", "inference", record=folder, run_id="a.b", steps=None)
    assert found.error is not None
    assert found.error.category == "incomplete"
    assert [note.code for note in found.notes] == ["left_out"]


def test_a_half_written_record_is_no_completion(tmp_path: Path) -> None:
    folder = tmp_path / "record"
    folder.mkdir()
    (folder / "rank_0.json").write_text('{"schema": 1, "complete": tr')
    found = record_of(tmp_path, "x\n", "inference", record=folder, steps=None)
    assert found.error is not None
    assert found.error.category == "incomplete"


def test_our_own_signal_is_a_timeout_and_not_an_error(tmp_path: Path) -> None:
    text = line(1) + (
        "Traceback (most recent call last):\n"
        '  File "/envs/pta/bin/torchrun", line 8, in <module>\n'
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1 got signal: 15\n"
    )
    found = record_of(tmp_path, text, exit_status=143, reason="time limit")
    assert found.outcome == "timeout"
    assert found.timed_out
    assert found.error is not None
    assert (found.error.type, found.error.category) == ("Hang", "hang")


def test_a_success_text_and_a_zero_exit_are_not_enough(tmp_path: Path) -> None:
    found = record_of(tmp_path, line(1) + "training completed successfully\nloss: 1.0\n")
    assert found.outcome == "error"
    assert found.error is not None
    assert found.error.category == "incomplete"
    assert found.metrics.memory_mb is None
