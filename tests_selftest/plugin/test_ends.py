"""However pytest ends, nothing of a run is left, and what was finished is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import Toy


def alive(pid: int) -> bool:
    """Return whether *pid* is a live process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: object, seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if callable(condition) and condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("arguments", [(), ("-n1",)], ids=["alone", "xdist"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_pytest_ends(
    toy: Toy, end: signal.Signals, arguments: tuple[str, ...]
) -> None:
    pid_file = toy.pytester.path / "pid"
    toy.behave(msa=[{"hang_at": 2, "pid_file": str(pid_file)}])
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--model=toy", "--iters=1"]
    argv += ["--lmsv-steps=2", "--junitxml=junit.xml", *arguments]
    with (toy.pytester.path / "out.txt").open("w") as out:
        process = subprocess.Popen(argv, cwd=toy.pytester.path, stdout=out, stderr=out)
    assert wait_for(pid_file.exists)
    time.sleep(0.3)
    run = int(pid_file.read_text("utf-8"))
    assert alive(run)
    os.kill(process.pid, end)
    process.wait(60)
    assert wait_for(lambda: not alive(run))
    campaign = toy.campaign
    log = campaign / "iters" / "toy" / "iter_1" / "runtime_logs" / "pta_verify_iter1.log"
    assert "iteration        2/       2" in log.read_text("utf-8")
    if end != signal.SIGKILL:
        assert (campaign / "data" / "summary.json").is_file()
        cases = list(ET.parse(toy.pytester.path / "junit.xml").getroot().iter("testcase"))
        assert all(case.get("name") for case in cases)
        page = (campaign / "analysis" / "report.html").read_text("utf-8")
        assert "of 1 ended, the others did not" in page


def test_a_killed_campaign_is_resumed(toy: Toy) -> None:
    pid_file = toy.pytester.path / "pid"
    toy.behave(
        msa=[{"once": str(toy.pytester.path / "once")}, {"pid_file": str(pid_file), "hang_at": 1}]
    )
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--model=toy", "--iters=2"]
    process = subprocess.Popen([*argv, "--lmsv-steps=2"], cwd=toy.pytester.path)
    assert wait_for(pid_file.exists)
    process.kill()
    process.wait(30)
    toy.behave()
    toy.run(f"--lmsv-resume={toy.campaign}", iters=2).assert_outcomes(passed=2)
    assert toy.stored("data/summary.json")["statistics"]["toy"]["valid"] == 2
