"""What a person sees while a campaign runs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import Toy

LINE = "lmsv toy-iter1 PASSED: accuracy OK (diff=0.00%), memory OK (diff=+0.00MB), performance OK*"


def test_header_and_closing_lines(toy: Toy) -> None:
    toy.behave(pta=[{"seconds": 0.3}], msa=[{"seconds": 0.3}])
    result = toy.start(iters=1)
    result.stdout.fnmatch_lines(
        [
            "lmsv: toy; 1 iteration of 2 steps, pta against msa on cpu, seed 43, gate accuracy *",
            "lmsv: cpu: small networks; MindSpore runs through mindtorch*",
            "lmsv: campaign folder *",
            "lmsv toy-iter1: PTA*",
            "lmsv toy-iter1: MSA*",
            LINE,
            "toy: 1 valid, 0 invalid, 0 without effect, 0 not testable; MSA ran 1 of 1*",
            "all figures and logs: *",
        ]
    )


def test_with_xdist_the_lines_are_the_same(toy: Toy) -> None:
    toy.behave(pta=[{"seconds": 0.3}], msa=[{"seconds": 0.3}])
    result = toy.start("-n1", iters=1)
    result.stdout.fnmatch_lines(["lmsv toy-iter1: PTA*", LINE, "toy: 1 valid,*"])


def test_quiet_means_quiet(toy: Toy) -> None:
    result = toy.start("-q", iters=1)
    result.assert_outcomes(passed=1)
    assert not [line for line in result.outlines if line.startswith("lmsv toy-iter1")]


def test_verbose_names_the_test(toy: Toy) -> None:
    result = toy.start("-v", iters=1)
    result.stdout.fnmatch_lines(["*test_alignment*toy-iter1*", "*PASSED*"])


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_verbose_lines_do_not_stick_together(toy: Toy, workers: tuple[str, ...]) -> None:
    result = toy.start("-v", *workers, iters=2)
    ours = [line for line in result.outlines if "lmsv toy-" in line]
    assert len(ours) >= 2
    assert all(line.startswith("lmsv toy-") for line in ours)
    assert [
        line for line in result.outlines if "toy-iter2] PASSED" in line or "PASSED test" in line
    ]


def test_without_models_the_hint_is_seen(toy: Toy, packaged_test: Path) -> None:
    result = toy.pytester.runpytest_subprocess("-p", "no:cacheprovider", str(packaged_test))
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["lmsv: no models asked for; give for example: pytest --model *"])


def test_on_a_terminal_one_line_is_written_over_and_over(toy: Toy) -> None:
    toy.behave(pta=[{"seconds": 0.8}], msa=[{"seconds": 0.8}])
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--model=toy"]
    argv += ["--iters=1", "--lmsv-steps=2"]
    process = subprocess.Popen(argv, cwd=toy.pytester.path, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    text = shown.decode("utf-8", "replace")
    assert "\r\x1b[K" in text
    assert "lmsv toy-iter1: MSA step 1/2 loss " in text


def test_collecting_makes_no_folder(toy: Toy) -> None:
    result = toy.start("--collect-only", "-q", iters=2)
    result.stdout.fnmatch_lines(["*test_alignment*toy-iter1*", "*test_alignment*toy-iter2*"])
    assert not (toy.pytester.path / "output").exists()
