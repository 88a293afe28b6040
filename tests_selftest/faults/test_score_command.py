"""`lmsv score` as a command: what it refuses before anything runs, and its list of faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lmsv import data
from pytest_lmsv.cli import main
from pytest_lmsv.files import check_writable
from pytest_lmsv.launch.pins import PINS
from pytest_lmsv.score import bank

BANK = data.root() / "tests_selftest" / "faults" / "bank"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "los=1"], "--limit los=1: expected NAME=NUMBER above 0, NAME one of"),
        (["--limit", "loss=0"], "--limit loss=0"),
        (["--faults", "gelu-by-tan"], "no fault 'gelu-by-tan' (did you mean 'gelu-by-tanh'?)"),
        (["--faults", "nofault"], "no fault 'nofault'; list them with lmsv score --list-faults"),
        (["--configurations", "0", "--clean", "0"], "nothing to run"),
        (["--only-ci", "--faults", "layer-norm-eps", "--bank", "{bank}"], "nothing to run"),
        (["--configurations", "0", "--write-caught"], "would empty caught.yaml"),
        (["--only-ci", "--json", "/proc/x/y"], "/proc/x/y: cannot be written (No such file"),
        (["--only-ci", "--json", "/"], "/: cannot be written (Is a directory)"),
        (
            ["--model=qwenvl", "--configurations=1", "--write-caught", "--bank", "{locked}"],
            "caught.yaml: cannot be written (Is a directory); nothing was run",
        ),
        (["--bank", "/nowhere"], "no bank of faults in /nowhere"),
        (["--model", "gpt"], "gpt"),
    ],
)
def test_a_wrong_option_is_one_line_and_two(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    banks = {"bank": tmp_path / "empty", "locked": tmp_path / "locked"}
    for folder in banks.values():
        shutil.copytree(BANK, folder / "bank")
    (banks["bank"] / "caught.yaml").write_text("[]\n", encoding="utf-8")
    (banks["locked"] / "caught.yaml").mkdir()
    assert main(["score", *(word.format(**banks) for word in words)]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert (told.err.count("\n"), told.out) == (1, "")
    assert len(told.err) < 300


def test_a_look_whether_a_file_can_be_written_leaves_it_as_it_is(tmp_path: Path) -> None:
    held = tmp_path / "held.json"
    held.write_text("1", encoding="utf-8")
    check_writable(held)
    check_writable(tmp_path / "new.json")
    check_writable(Path("/dev/null"))
    assert [path.name for path in tmp_path.iterdir()] == ["held.json"]
    assert held.read_text(encoding="utf-8") == "1"


def test_the_faults_are_listed_by_name_and_nothing_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["score", "--list-faults"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(bank.load(BANK))
    assert any(line.startswith("gelu-by-tanh: ") and "cogvideox" in line for line in lines)


def test_a_stack_that_does_not_start_ends_the_score_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["score", "--only-ci", "--faults", "cache-half"]
    for stack, pins in PINS.items():
        environment = tmp_path / stack
        for name, version in pins.versions().items():
            (environment / f"lib/python3.11/site-packages/{name}-{version}.dist-info").mkdir(
                parents=True
            )
        (environment / "bin").mkdir()
        (environment / "bin" / "python").symlink_to("/bin/false")
        words += [f"--{stack}-env", str(environment)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "does not start" in error
    assert error.count("\n") == 1


def test_a_reader_of_the_list_may_leave_early() -> None:
    lmsv = Path(sys.executable).with_name("lmsv")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [lmsv, "score", "--list-faults"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
