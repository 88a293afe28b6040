"""`lmsv parse`: options, the JSON object, the text, and what bad input ends with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.logs.command import main

CASES = Path(__file__).parent / "cases"
GOOD = str(CASES / "001-pta-mm-plain-loss" / "log.txt")
HANG = str(CASES / "035-hang-log-just-stops" / "log.txt")
CUT = str(CASES / "021-cut-in-the-middle-last-line" / "log.txt")
NAN = str(CASES / "033-nan-loss-key-vanishes" / "log.txt")
LATE = str(CASES / "049-hccl-teardown-after-success" / "log.txt")
BROKEN = str(CASES / "038-msa-qwenvl-innerinplaceindexput" / "log.txt")


def parsed(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["--json", *argv]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_object_has_the_keys_of_the_design(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, BROKEN)
    assert list(result) == [
        "losses", "grad_norms", "step_time_ms", "memory_mb", "outcome", "complete", "error", "notes"
    ]  # fmt: skip
    assert list(result["error"]) == [
        "type", "message", "category", "rank", "line", "line_number", "phase", "known_bug"
    ]  # fmt: skip
    assert result["error"]["rank"] == 0
    assert result["error"]["line_number"] == 3


def test_steps_come_with_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, GOOD)
    assert result["losses"] == [[1, 0.703366], [2, 0.703312], [3, 0.703306]]
    assert result["grad_norms"] == [[1, 0.512], [2, 0.512], [3, 0.512]]
    assert result["complete"] is True
    assert result["outcome"] is None


def test_the_outcome_needs_an_exit_status_or_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert parsed(capsys, GOOD)["outcome"] is None
    assert parsed(capsys, GOOD, "--exit-status", "0")["outcome"] == "ok"
    assert parsed(capsys, BROKEN)["outcome"] == "error"


def test_incomplete_needs_steps_or_a_record_and_an_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parsed(capsys, HANG, "--exit-status=0")["outcome"] == "ok"
    assert parsed(capsys, HANG, "--steps=10")["outcome"] is None
    result = parsed(capsys, HANG, "--steps=10", "--exit-status=0")
    assert (result["outcome"], result["error"]["category"]) == ("error", "incomplete")
    assert parsed(capsys, HANG, "--steps=2", "--exit-status=0")["outcome"] == "ok"


def test_a_timeout_is_a_hang(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, HANG, "--timed-out")
    assert result["outcome"] == "timeout"
    assert (result["error"]["type"], result["error"]["category"]) == ("Hang", "hang")
    assert "2 of 10 steps" in result["error"]["message"]


def test_an_error_in_teardown_leaves_the_outcome_ok(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, LATE, "--exit-status", "1")
    assert (result["outcome"], result["error"]["phase"]) == ("ok", "teardown")


def test_a_killed_run_without_words_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, HANG, "--exit-status=-9")
    assert (result["outcome"], result["error"]["type"]) == ("error", "SIGKILL")
    assert result["error"]["category"] == "killed"


def test_nan_and_infinities_are_strings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    rows = [(1, "nan", "-inf"), (2, "inf", "Infinity"), (3, "-Infinity", "nan")]
    log.write_text(
        "".join(
            f" iteration {n}/3 | loss: {loss} | grad norm: {norm} |\n" for n, loss, norm in rows
        )
    )
    result = parsed(capsys, str(log))
    assert [value for _, value in result["losses"]] == ["NaN", "Infinity", "-Infinity"]
    assert [value for _, value in result["grad_norms"]] == ["-Infinity", "Infinity", "NaN"]


def test_a_vanished_loss_is_a_note_with_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, NAN)
    assert result["notes"] == [
        {"code": "nan_loss", "text": "no loss printed, but NaN: step 3385, 3386"}
    ]


def test_a_cut_record_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert [note["code"] for note in parsed(capsys, CUT)["notes"]] == ["cut"]


def test_several_logs_are_one_reading(capsys: pytest.CaptureFixture[str]) -> None:
    result = parsed(capsys, GOOD, BROKEN)
    assert len(result["losses"]) == 3
    assert result["error"]["type"] == "ValueError"


def test_the_text_shows_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([BROKEN]) == 0
    shown = capsys.readouterr().out
    assert "ValueError (other_python, rank 0, line 3, run, known bug" in shown
    assert main([GOOD]) == 0
    assert "34126.06 MB" in capsys.readouterr().out


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--stack", "--kind", "--steps", "--record", "--exit-status", "--timed-out"):
        assert option in shown


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "no log named"),
        (["/nowhere/a.log"], "log can't be read"),
        (["--stack", "cuda", GOOD], "--stack: unknown value 'cuda'; write one of pta, msa"),
        (["--kind=both", GOOD], "--kind: unknown value 'both'"),
        (["--steps", "many", GOOD], "--steps: expected a whole number, found 'many'"),
        (["--steps", "0", GOOD], "--steps: expected 1 or more"),
        (["--exit-status", "x", GOOD], "--exit-status: expected a whole number"),
        (["--record", "/nowhere", GOOD], "--record: no folder"),
        (["--patterns", "/nowhere.yaml", GOOD], "can't be read"),
        (["--colour", GOOD], "unknown option '--colour'"),
        (["--steps"], "--steps needs a value"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(
    argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_healthy_log_needs_no_heavy_import() -> None:
    code = (
        "import sys; from pytest_lmsv.logs.command import main; main(['--json', sys.argv[1]]);"
        "print([name for name in ('yaml', 'hypothesis', 'asyncssh', 'pytest')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, GOOD], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_pipe_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from pytest_lmsv.logs.command import main; main(['--json', '-'])"
    with Path(BROKEN).open("rb") as stream:
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=stream, capture_output=True, text=True,
            check=True, timeout=60,
        )  # fmt: skip
    assert json.loads(done.stdout)["error"]["type"] == "ValueError"
