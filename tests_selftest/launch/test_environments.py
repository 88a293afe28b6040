"""The environments of the stacks, built for real from tiny wheels made here: no network."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from pytest_lmsv.launch import building, environments, installed
from pytest_lmsv.launch.building import Source
from pytest_lmsv.launch.pins import Pins
from pytest_lmsv.problems import EnvironmentProblem
from tests_selftest.launch.awkward import carriers, until

THIS = sys.version_info[:2]
SESSION = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests_selftest.launch.test_environments import tiny
from pytest_lmsv.launch import environments
from pytest_lmsv.launch.building import Source
source = Source(wheels=Path(sys.argv[2]))
say = lambda line: print(line, flush=True)
environments.ensure("pta", Path(sys.argv[1]), say=say, source=source, pins=tiny())
"""


def tiny(**changes: object) -> Pins:
    values: dict[str, object] = {
        "packages": {"tinystack": "1.0"},
        "alone": {"tinyalone": "2.0"},
        "pythons": ((THIS,),),
        "download_mb": 1,
        "installed_mb": 20,
        "variants": {"tinystack": "cpu"},
        **changes,
    }
    return Pins(**values)  # type: ignore[arg-type]


def make_wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    """A wheel with one module and one console script, both called *name*."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    files = {
        f"{name}.py": f"def main():\n    import sys\n    print('{version}', sys.prefix)\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        wheel.writestr(f"{info}/RECORD", record)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "tinystack", "1.0")
    make_wheel(folder, "tinystack", "1.0+cpu")
    make_wheel(folder, "tinystack", "3.0")
    make_wheel(folder, "tinyalone", "2.0", "Requires-Dist: not-there\n")
    return folder


def session(folder: Path, wheels: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SESSION, str(folder), str(wheels), str(Path(__file__).parents[2])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


Made = tuple[environments.StackEnvironment, list[str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Made:
    """An environment, and what was said while it was made."""
    said: list[str] = []
    folder, source = tmp_path_factory.mktemp("envs"), Source(wheels=wheels)
    return environments.ensure("pta", folder, say=said.append, source=source, pins=tiny()), said


def test_an_environment_holds_the_pins_and_works_in_its_place(made: Made) -> None:
    environment, said = made
    path = environment.path
    assert names(path.parent) == [path.name]
    assert said[0].startswith("PTA environment: installing tinystack 1.0, tinyalone 2.0 with ")
    assert "1 MB to download, 20 MB on disk" in said[0]
    versions = environment.versions
    assert (versions["tinystack"], versions["tinyalone"]) == ("1.0+cpu", "2.0")
    # The scripts and the activation were written for the folder aside and must fit the final one.
    script = subprocess.run([path / "bin" / "tinystack"], capture_output=True, text=True)
    assert script.stdout == f"1.0+cpu {path}\n"
    assert not [p for p in (path / "bin").glob("[!p]*") if ".building-" in p.read_text()]
    assert environment.run(["-c", "import tinyalone, sys; print(sys.prefix)"]).stdout == f"{path}\n"


def test_an_environment_is_reused_until_the_pins_change(made: Made) -> None:
    folder = made[0].path.parent
    begun = time.perf_counter()
    again = environments.ensure("pta", folder, say=pytest.fail, pins=tiny())
    assert time.perf_counter() - begun < 0.02
    assert again == made[0]
    changed = tiny(packages={"tinystack": "3.0"})
    assert environments.existing("pta", folder, pins=changed) is None
    assert environments.existing("msa", folder, pins=tiny()) is None


def a_step(tmp_path: Path, made: Made, said: list[str]) -> building.Step:
    """pip in a copy of the environment that is there already, which saves the time of a build."""
    copy = shutil.copytree(made[0].path, tmp_path / "copy", symlinks=True)
    (copy / ".tmp").mkdir()
    return building.Step("pta", tiny(), copy, tmp_path / "log", tmp_path / "lock", said.append)


def test_a_plain_build_is_taken_with_a_word_where_there_is_no_cpu_build(
    tmp_path: Path, made: Made, wheels: Path
) -> None:
    said: list[str] = []
    pins = tiny(packages={"tinystack": "3.0"}, alone={})
    building.install(a_step(tmp_path, made, said), pins, Source(wheels=wheels))
    assert "Successfully installed tinystack-3.0" in (tmp_path / "log").read_text()
    assert installed.versions(tmp_path / "copy")["tinystack"] == "3.0"
    assert [line for line in said if "no cpu build found: taking the plain one" in line]


def test_two_sessions_wait_for_one_build(tmp_path: Path, wheels: Path) -> None:
    sessions = [session(tmp_path, wheels)]
    assert until(lambda: being_built(tmp_path))
    sessions.append(session(tmp_path, wheels))
    said = [one.communicate(timeout=60) for one in sessions]
    assert [one.returncode for one in sessions] == [0, 0]
    text = "".join(out for out, _ in said)
    assert text.count("made in") == 1
    assert f"waiting for process {sessions[0].pid}, which is making it" in said[1][0]
    assert len(names(tmp_path)) == 1


def being_built(folder: Path) -> list[Path]:
    return list(folder.glob("*.building-*/lib/python3*/site-packages"))


def test_a_killed_build_is_cleaned_up_by_the_next_session(tmp_path: Path, wheels: Path) -> None:
    killed = session(tmp_path, wheels)
    assert until(lambda: being_built(tmp_path))
    run_id = (tmp_path / ".pta.lock").read_text().split()[-1]
    killed.kill()
    killed.communicate()
    said: list[str] = []
    full = tiny(installed_mb=10**9)  # saves the time of another build
    with pytest.raises(EnvironmentProblem, match="make room"):
        environments.ensure("pta", tmp_path, say=said.append, pins=full)
    assert not carriers(run_id)
    assert "removing what an interrupted session left" in said[1]
    assert names(tmp_path) == ["pta-build.log"]


def test_ctrl_c_leaves_nothing_of_a_build(tmp_path: Path, wheels: Path) -> None:
    interrupted = session(tmp_path, wheels)
    assert until(lambda: being_built(tmp_path))
    interrupted.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in interrupted.communicate(timeout=30)[1]
    assert names(tmp_path) in ([], ["pta-build.log"])


def problem(folder: Path, source: Source, pins: Pins) -> str:
    with pytest.raises(EnvironmentProblem) as caught:
        environments.ensure("pta", folder, say=lambda _: None, source=source, pins=pins)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_index_of_cpu_builds_that_can_not_be_reached_is_no_obstacle(
    tmp_path: Path, made: Made, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    said: list[str] = []
    unreachable = "http://127.0.0.1:1/cpu"
    pins = tiny(packages={"tinystack": "3.0"}, alone={}, variant_index=unreachable)
    building.install(a_step(tmp_path, made, said), pins, Source())
    assert installed.versions(tmp_path / "copy")["tinystack"] == "3.0"
    assert "taking the plain one" in said[0]


@pytest.mark.parametrize("constraint", [None, "tinystack<=99"])
def test_a_missing_wheel_is_one_line(
    constraint: str | None,
    tmp_path: Path,
    made: Made,
    wheels: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if constraint is not None:
        (tmp_path / "constraints").write_text(constraint)
        monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints"))
    said: list[str] = []
    pins = tiny(packages={"tinystack": "9.9"})
    with pytest.raises(
        EnvironmentProblem, match=r"^pip: ERROR: .* tinystack==9\.9.*; see /"
    ) as caught:
        building.install(a_step(tmp_path, made, said), pins, Source(wheels=wheels))
    assert "No matching distribution" in str(caught.value) or constraint
    assert "taking the plain one" in said[0]


def test_no_network_is_one_line_with_the_remedy(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    source = Source(index_url="http://127.0.0.1:1/simple")
    with pytest.raises(EnvironmentProblem, match=r"^no network \(NewConnectionError\): ") as caught:
        building.install(a_step(tmp_path, made, []), tiny(packages={"tinyother": "1.0"}), source)
    assert "lmsv setup cpu --index-url URL or --wheels DIR" in str(caught.value)


def test_a_build_that_fails_is_one_line_and_leaves_only_its_log(tmp_path: Path) -> None:
    said = {"path": "PATH", "version": [*THIS, 1], "bits": 64, "venv": True}
    said |= {"implementation": "cpython", "machine": "x86_64"}
    python = tmp_path / "python"
    answer = json.dumps(said).replace("PATH", str(python))
    python.write_text(f"#!/bin/sh\n[ $2 = -c ] && echo '{answer}' || {{ echo no venv; exit 3; }}\n")
    python.chmod(0o755)
    with pytest.raises(EnvironmentProblem) as caught:
        environments.ensure("pta", tmp_path / "envs", python=python, say=print, pins=tiny())
    log = tmp_path / "envs" / "pta-build.log"
    assert str(caught.value) == f"PTA environment: venv failed (exit 3): no venv; see {log}"
    assert names(tmp_path / "envs") == ["pta-build.log"]


def test_a_full_disk_is_told_before_anything_is_done(tmp_path: Path, wheels: Path) -> None:
    line = problem(tmp_path, Source(wheels=wheels), tiny(installed_mb=10**9))
    assert line.startswith(f"PTA environment: about 1000000001 MB needed in {tmp_path}, ")
    assert "set lmsv_env_dir to a folder on another disk" in line
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_meanwhile_is_told_as_such(tmp_path: Path, made: Made) -> None:
    """A pip that says so (a wheel can't be made to fill a disk here)."""
    step = a_step(tmp_path, made, [])
    text = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    with pytest.raises(EnvironmentProblem, match=r"about 21 MB needed in .*: make room") as caught:
        step.run("pip", ["bash", "-c", f"echo '{text}'; exit 1"])
    assert caught.value.category == "no_space"


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "file").touch()
    line = problem(tmp_path / "file" / "envs", Source(wheels=wheels), tiny())
    assert line.startswith("PTA environment: can't be made in ")
    assert line.endswith("set lmsv_env_dir to a folder that can be written")
