"""The whole road for real: both stacks, from the built wheel, in an empty folder, two at a time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import properties
from tests_selftest.plugin.test_wheel import installed  # noqa: F401

pytestmark = pytest.mark.stacks


def test_cogvideox_passes_on_both_stacks(
    pytester: pytest.Pytester,
    installed: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    pta_env: object,
    msa_env: object,
) -> None:
    """The environments are made before, by this session, so that the inner one finds them."""
    monkeypatch.setenv("PYTHONPATH", str(installed))
    cores = len(os.sched_getaffinity(0))
    result = pytester.runpytest_subprocess(
        "-p",
        "no:cacheprovider",
        "--model=cogvideox",
        "--iters=2",
        "--lmsv-steps=3",
        f"-n{min(2, cores)}",
        "--junitxml=junit.xml",
        "--html=report.html",
        timeout=400,
    )
    result.assert_outcomes(passed=2)
    for case in properties(pytester.path / "junit.xml"):
        assert case["lmsv.accuracy"] == "OK"
        assert float(case["lmsv.accuracy.diff"]) < 1e-4
        assert case["lmsv.drift"] == "OK"
        assert 0 < float(case["lmsv.drift.ratio"]) < 1
        assert case["lmsv.memory"] in ("OK", "NG")
        assert case["lmsv.performance"] in ("OK", "NG")
    page = (pytester.path / "report.html").read_text("utf-8")
    assert "col-lmsv_accuracy" in page
    (campaign,) = (pytester.path / "output").iterdir()
    for number in (1, 2):
        folder = campaign / "iters" / "cogvideox" / f"iter_{number}"
        metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
        for stack in ("pta", "msa"):
            assert len(metrics[stack]["losses"]) == 3
            assert metrics[stack]["sources"]["memory_mb"].startswith("rss")
        assert len(metrics["pta"]["noise"]) == 1
        assert metrics["msa"]["noise"] == []
        assert metrics["analysis"]["drift"]["floor"] == "measured"
        assert not (folder / "weights").exists()
    assert sys.executable  # the session's own Python started all of it


def test_the_raw_adapter_is_found_out(
    pytester: pytest.Pytester, pta_env: object, msa_env: object
) -> None:
    """Without the adapter's fixes mindtorch drops gradients: the losses drift apart."""
    result = pytester.runpytest_subprocess(
        "-p",
        "no:cacheprovider",
        "--model=cogvideox",
        "--iters=1",
        "--lmsv-steps=3",
        "--lmsv-adapter-fixes=off",
        "--lmsv-loss-tolerance=1e-4",
        timeout=400,
    )
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed") == 1, outcomes
    result.stdout.fnmatch_lines(["*drift NG: gradient of * of step 1 differs by*"])
