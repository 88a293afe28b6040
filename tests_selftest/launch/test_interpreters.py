"""A Python for an environment is looked for where people have them, and one line tells of none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_lmsv.launch import interpreters
from pytest_lmsv.launch.pins import PINS
from pytest_lmsv.problems import EnvironmentProblem

THIS = sys.version_info[:2]
NAME = f"python{THIS[0]}.{THIS[1]}"
OTHER = (3, 99)
REAL = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any other Python: empty PATH and home, and this one seems to be old."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("PYENV_ROOT", "CONDA_EXE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(interpreters, "RUNNING", (3, 98))
    return tmp_path


def found(groups: tuple[tuple[tuple[int, int], ...], ...] = ((THIS,),)) -> interpreters.Interpreter:
    return interpreters.find(groups, wanted_for="MSA environment")


def place(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(REAL)


def test_the_running_python_is_taken_if_it_does() -> None:
    interpreter = found()
    assert interpreter.minor == THIS
    assert interpreter.path.resolve() == REAL


@pytest.mark.parametrize(
    ("place_at", "variable"),
    [
        ("bin/NAME", None),
        ("bin/python3", None),
        (".pyenv/versions/VERSION.1/bin/NAME", None),
        ("elsewhere/versions/VERSION.1/bin/NAME", ("PYENV_ROOT", "elsewhere")),
        (".local/share/uv/python/cpython-VERSION.1-linux/bin/NAME", None),
        ("miniconda3/envs/any/bin/NAME", None),
        ("c/envs/any/bin/NAME", ("CONDA_EXE", "c/bin/conda")),
    ],
)
def test_a_python_is_found(
    place_at: str, variable: tuple[str, str] | None, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(bare / place_at.replace("NAME", NAME).replace("VERSION", NAME.removeprefix("python")))
    if variable is not None:
        monkeypatch.setenv(variable[0], str(bare / variable[1]))
    assert found().minor == THIS


def test_a_shim_that_does_not_start_a_python_is_passed_over(bare: Path) -> None:
    shim = bare / "bin" / NAME
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\necho pyenv: {NAME}: command not found >&2\nexit 127\n")
    shim.chmod(0o755)
    place(bare / "bin" / "python3")
    assert found().minor == THIS


def test_none_found_is_one_line_that_says_how_to_get_one(bare: Path) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        found(((OTHER, (3, 97)),))
    assert str(caught.value) == (
        "MSA environment: no Python 3.97 or 3.99 found on PATH, in pyenv, uv or conda: install one "
        "(as `pyenv install 3.99` or `conda create -n py399 python=3.99`), or name one with "
        "lmsv_python"
    )


def test_the_second_group_is_taken_only_if_there_is_none_of_the_first(bare: Path) -> None:
    place(bare / "bin" / NAME)
    assert found(((OTHER,), (THIS,))).minor == THIS


def test_both_stacks_get_the_same_python_where_one_suits_both() -> None:
    assert PINS["pta"].pythons[0] == PINS["msa"].pythons[0]


def test_a_python_without_a_working_venv_is_told(bare: Path) -> None:
    python = bare / "bin" / NAME
    python.parent.mkdir()
    python.write_text(
        "#!/bin/sh\n"
        f'echo \'{{"path": "/usr/bin/x", "version": [{THIS[0]}, {THIS[1]}, 1], "bits": 64, '
        '"implementation": "cpython", "machine": "x86_64", "venv": false}\'\n'
    )
    python.chmod(0o755)
    message = rf"/usr/bin/x found, but its venv module .* apt install {NAME}-venv\)"
    with pytest.raises(EnvironmentProblem, match=message):
        found()


def test_a_named_python_is_taken_or_refused_with_the_reason(tmp_path: Path) -> None:
    wanted = {"wanted_for": "PTA environment"}
    assert interpreters.find(((THIS,),), named=Path(sys.executable), **wanted).minor == THIS
    assert interpreters.find(((THIS,),), named=Path(sys.prefix), **wanted).minor == THIS
    with pytest.raises(EnvironmentProblem, match=r"is Python 3\.\S+, needed is 3\.99"):
        interpreters.find(((OTHER,),), named=Path(sys.executable), **wanted)
    with pytest.raises(EnvironmentProblem, match="is not a Python that starts: name another"):
        interpreters.find(((THIS,),), named=tmp_path / "none", **wanted)
    with pytest.raises(EnvironmentProblem, match="is not a Python that starts: name another"):
        interpreters.find(((THIS,),), named=Path("/bin/true"), **wanted)


def test_a_system_without_wheels_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters, "PLATFORM", "darwin")
    with pytest.raises(EnvironmentProblem, match="have wheels for Linux, this is darwin"):
        found()


def test_a_python_of_another_kind_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        'echo \'{"path": "p", "version": [3, 11, 1], "bits": 64, "implementation": "pypy", '
        '"machine": "x86_64", "venv": true}\'\n'
    )
    python.chmod(0o755)
    assert os.access(python, os.X_OK)
    with pytest.raises(EnvironmentProblem, match="it is 64-bit pypy, not 64-bit CPython"):
        interpreters.find((((3, 11),),), named=python, wanted_for="MSA environment")
