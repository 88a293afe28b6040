"""The stored logs, read with `lmsv parse`: each figure and each error as a careful person reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.logs.command import main

CASES = sorted((Path(__file__).parent / "cases").iterdir())


def meta(case: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((case / "meta.json").read_text(encoding="utf-8"))
    return loaded


def parsed(case: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    about = meta(case)
    argv = ["--json", "--stack", about["stack"]]
    argv += ["--kind", "training" if about["mode"] == "train" else "inference"]
    if about["context"]["returncode"] is not None:
        argv += ["--exit-status", str(about["context"]["returncode"])]
    if about["context"]["timed_out"]:
        argv.append("--timed-out")
    assert main([*argv, str(case / "log.txt")]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_figure_is_read_exactly(case: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, expect = parsed(case, capsys), meta(case)["expect"]
    assert [value for _, value in result["losses"]] == expect["losses"]
    assert [value for _, value in result["step_time_ms"]] == expect["step_time_ms"]
    assert result["memory_mb"] == expect["memory_mb"]
    if "loss_iterations" in expect:
        assert [step for step, _ in result["losses"]] == expect["loss_iterations"]
    codes = {note["code"] for note in result["notes"]}
    assert ("nan_loss" in codes) == (expect.get("anomaly") == "nan_loss")
    assert ("stale_error" in codes) == expect.get("stale_error_in_earlier_run", False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_root_error_is_found_and_nothing_else_is_one(
    case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error, expect = parsed(case, capsys)["error"], meta(case)["expect"]
    if not expect["has_real_error"]:
        assert error is None
        return
    assert error is not None
    assert error["type"] == expect["error_type"]
    assert error["category"] == (expect.get("underlying_category") or expect["error_category"])
    assert (expect["root_line"] or "") in error["line"]
    assert error["known_bug"] == expect.get("known_bug_id")
    assert error["phase"] == expect.get("phase", "run")
