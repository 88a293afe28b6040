"""An environment of the user's own, what a process in it sees, and where ours are kept."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from pytest_lmsv.launch import environments
from pytest_lmsv.launch.pins import PINS
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Stack


def an_own_environment(folder: Path, packages: dict[str, str]) -> Path:
    site = folder / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    for name, version in packages.items():
        (site / f"{name}-{version}.dist-info").mkdir()
    return folder


def test_a_named_environment_is_taken_as_it_is(tmp_path: Path) -> None:
    packages = {"mindspore": "2.8.0", "mindnlp": "0.6", "numpy": "2.0", "ml_dtypes": "1.0"}
    path = an_own_environment(tmp_path / "own", {**packages, "typing_extensions": "4.0"})
    found = environments.ensure("msa", tmp_path / "unused", named=path)
    assert (found.path, found.versions["mindspore"], found.versions["ml-dtypes"]) == (
        path,
        "2.8.0",
        "1.0",
    )
    assert not (tmp_path / "unused").exists()


def test_a_named_environment_without_a_package_is_one_line(tmp_path: Path) -> None:
    path = an_own_environment(tmp_path / "own", {"numpy": "1.26.4"})
    with pytest.raises(
        EnvironmentProblem, match=r"^PTA environment .* lacks torch \(as 2\.13\.0\): "
    ):
        environments.ensure("pta", tmp_path, named=path)
    with pytest.raises(EnvironmentProblem, match=r"has no bin/python: set lmsv_msa_env to"):
        environments.ensure("msa", tmp_path, named=tmp_path / "nothing")


@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_variables_are_those_of_an_activated_environment(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = an_own_environment(tmp_path, {})
    (path / "pyvenv.cfg").touch()
    monkeypatch.setenv("PYTHONPATH", "/leak")
    monkeypatch.setenv("PYTHONHOME", "/leak")
    monkeypatch.setenv("OF_THE_USER", "kept")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    env = environments.StackEnvironment(stack, path, {}).variables()
    assert env["PATH"].split(os.pathsep)[0] == str(path / "bin")
    assert (env["VIRTUAL_ENV"], env["OF_THE_USER"]) == (str(path), "kept")
    assert not {"PYTHONPATH", "PYTHONHOME"} & set(env)
    assert env.get("OMP_NUM_THREADS") == ("1" if stack == "msa" else None)


def test_a_script_runs_in_the_environment_with_more_variables(tmp_path: Path) -> None:
    env = environments.StackEnvironment("pta", an_own_environment(tmp_path, {}), {})
    code = "import os, sys; print(os.environ['MORE'], os.getcwd()); sys.exit(3)"
    done = env.run(["-c", code], cwd=tmp_path, env={"MORE": "ü"}, timeout=30)
    assert (done.stdout, done.returncode) == (f"ü {tmp_path}\n", 3)


def test_the_default_folder_is_in_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert environments.default_folder() == Path("/c/pytest-lmsv/envs")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # not valid by the XDG specification
    assert environments.default_folder() == Path.home() / ".cache/pytest-lmsv/envs"


def test_a_damaged_record_is_no_environment(tmp_path: Path) -> None:
    place = tmp_path / "pta-000000000000"
    place.mkdir()
    (place / "lmsv-environment.json").write_text('{"stack": "pta", "pins"')
    assert environments.existing("pta", tmp_path) is None
    record = {"pins": PINS["pta"].versions(), "interpreter": "/gone/python", "versions": {}}
    (place / "lmsv-environment.json").write_text(json.dumps(record))
    assert environments.existing("pta", tmp_path) is None  # its Python is gone
