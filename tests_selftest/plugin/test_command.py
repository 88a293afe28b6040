"""The `lmsv` command: each word does its work, and bad input is one line and 2."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import Toy

LMSV = Path(sys.executable).with_name("lmsv")


def lmsv(folder: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the installed command in *folder*."""
    return subprocess.run(
        [LMSV, *words], cwd=folder, input=text, capture_output=True, text=True, check=False
    )


def test_help_names_every_command(tmp_path: Path) -> None:
    done = lmsv(tmp_path, "help")
    assert done.returncode == 0
    for word in ("conf", "do", "setup cpu", "doctor", "parse", "repro", "analyze", "history"):
        assert f"lmsv {word}" in done.stdout


@pytest.mark.parametrize("word", ["do", "repro", "analyze", "history", "parse", "doctor"])
def test_each_command_has_its_own_help(tmp_path: Path, word: str) -> None:
    done = lmsv(tmp_path, word, "--help")
    assert done.returncode == 0
    assert f"usage: lmsv {word}" in done.stdout


def test_analyze_passes_on_pytests_exit_status(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 2.0}])
    toy.run(iters=1)
    done = lmsv(toy.pytester.path, "analyze", str(toy.campaign), "-p", "no:cacheprovider")
    assert done.returncode == 1, done.stdout + done.stderr
    words = ("--lmsv-loss-tolerance=2", "-p", "no:cacheprovider")
    assert lmsv(toy.pytester.path, "analyze", str(toy.campaign), *words).returncode == 0
    done = lmsv(toy.pytester.path, "analyze", str(toy.pytester.path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_an_unknown_command_is_one_line(tmp_path: Path) -> None:
    done = lmsv(tmp_path, "run")
    assert done.returncode == 2
    assert done.stderr.startswith("ERROR: lmsv: no command 'run'")
    assert done.stderr.count("\n") == 1


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    done = lmsv(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"pytest-lmsv {version('pytest-lmsv')}\n")


@pytest.mark.parametrize(("words", "text"), [((), ""), ((), "cogvideox\n1\n"), (("conf",), "")])
@pytest.mark.parametrize("before", [None, {"task_type": 6, "tasks": {"6": {"TOTAL_ITER": 1}}}])
def test_an_input_that_ends_writes_nothing_and_runs_nothing(
    tmp_path: Path, words: tuple[str, ...], text: str, before: object
) -> None:
    path = tmp_path / "config.json"
    if before:
        path.write_text(json.dumps(before), encoding="utf-8")
    done = lmsv(tmp_path, *words, text=text)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    for command in ("lmsv do", "lmsv conf", "lmsv help"):
        assert f"`{command}`" in done.stderr
    assert "wrote" not in done.stdout
    assert list(tmp_path.iterdir()) == ([path] if before else [])
    assert not before or json.loads(path.read_text(encoding="utf-8")) == before


def test_a_closed_input_is_no_answer_either(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" <&-', LMSV],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_answered_wizard_is_followed_by_its_campaign(toy: Toy) -> None:
    root = toy.pytester.path
    task = {"MODEL_NAME": "toy", "TOTAL_ITER": 1, "TRAIN_ITER": 1}
    config = {"task_type": 6, "tasks": {"6": task}}
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = lmsv(root, text="\n" * 16)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrote config.json" in done.stdout
    assert "1 passed" in done.stdout


def test_do_without_a_configuration_says_what_to_do(tmp_path: Path) -> None:
    done = lmsv(tmp_path, "do")
    assert done.returncode == 2
    assert "lmsv conf" in done.stderr


def test_do_runs_what_the_configuration_says_and_passes_on_the_exit_status(toy: Toy) -> None:
    root = toy.pytester.path
    config = {
        "task_type": 6,
        "tasks": {"6": {"MODEL_NAME": "toy", "TOTAL_ITER": 1, "TRAIN_ITER": 2}},
    }
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = lmsv(root, "do", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lmsv: toy; 1 iteration of 2 steps" in done.stdout
    toy.behave(msa=[{"loss_factor": 2.0}])
    assert lmsv(root, "do", "-p", "no:cacheprovider").returncode == 1


def test_conda_names_of_a_configuration_name_nothing_on_cpu(toy: Toy) -> None:
    root = toy.pytester.path
    task = {"MODEL_NAME": "toy", "TOTAL_ITER": 1, "TRAIN_ITER": 1}
    config = {
        "task_type": 6,
        "PTA_NAME": "mindspeed",
        "MSA_NAME": "msadapter",
        "tasks": {"6": task},
    }
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = lmsv(root, "do", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "installing" not in done.stdout  # the environments of the ini are used


def test_a_configuration_found_by_itself_sets_values_but_runs_nothing(toy: Toy) -> None:
    root = toy.pytester.path
    config = {
        "task_type": 6,
        "tasks": {"6": {"MODEL_NAME": "toy", "TOTAL_ITER": 3, "TRAIN_ITER": 1}},
    }
    (root / "config.json").write_text(json.dumps(config), encoding="utf-8")
    bare = toy.pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert bare.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    named = toy.pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--model=toy", "--collect-only", "-q"
    )
    named.stdout.fnmatch_lines(["*toy-iter3*"])


def test_repro_runs_a_stored_mutation(toy: Toy) -> None:
    toy.run(iters=1).assert_outcomes(passed=1)
    stored = toy.campaign / "iters" / "toy" / "iter_1" / "mutation.json"
    done = lmsv(toy.pytester.path, "repro", str(stored), "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_parse_reads_the_log_of_a_run(toy: Toy) -> None:
    toy.run(iters=1).assert_outcomes(passed=1)
    log = toy.campaign / "iters" / "toy" / "iter_1" / "runtime_logs" / "pta_verify_iter1.log"
    done = lmsv(toy.pytester.path, "parse", "--json", "--stack", "pta", str(log))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [step for step, _ in found["losses"]] == [1, 2]
    assert found["error"] is None


def test_setup_takes_only_cpu(tmp_path: Path) -> None:
    done = lmsv(tmp_path, "setup", "npu")
    assert done.returncode == 2
    assert "cpu" in done.stderr
