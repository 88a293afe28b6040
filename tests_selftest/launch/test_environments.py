"""The environments of the stacks, built for real from tiny wheels made here: no network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from pytest_lmsv.launch import environments
from pytest_lmsv.launch.building import Source
from pytest_lmsv.launch.pins import PINS, Pins
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Stack
from tests_selftest.launch.awkward import carriers, until

THIS = sys.version_info[:2]
SESSION = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_environments import tiny
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
        [sys.executable, "-c", SESSION, str(folder), str(wheels), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_an_environment_is_built_once_and_then_reused(tmp_path: Path, wheels: Path) -> None:
    said: list[str] = []
    source = Source(wheels=wheels)
    made = environments.ensure("pta", tmp_path, say=said.append, source=source, pins=tiny())
    assert names(tmp_path) == [made.path.name]
    assert said[0].startswith(
        "PTA environment: installing tinystack 1.0, tinyalone 2.0 with Python"
    )
    assert "1 MB to download, 20 MB on disk" in said[0]
    assert (made.versions["tinystack"], made.versions["tinyalone"]) == ("1.0+cpu", "2.0")
    # The scripts and the activation were written for the folder aside and must fit the final one.
    script = subprocess.run([made.path / "bin" / "tinystack"], capture_output=True, text=True)
    assert script.stdout == f"1.0+cpu {made.path}\n"
    assert not [p for p in (made.path / "bin").glob("[!p]*") if ".building-" in p.read_text()]
    assert made.run(["-c", "import tinyalone, sys; print(sys.prefix)"]).stdout == f"{made.path}\n"

    said.clear()
    begun = time.perf_counter()
    again = environments.ensure("pta", tmp_path, say=said.append, source=source, pins=tiny())
    assert time.perf_counter() - begun < 0.02
    assert again == made
    assert said == []
    changed = tiny(packages={"tinystack": "3.0"})
    assert environments.existing("pta", tmp_path, pins=changed) is None
    assert environments.existing("msa", tmp_path, pins=tiny()) is None


def test_a_plain_build_is_taken_with_a_word_where_there_is_no_cpu_build(
    tmp_path: Path, wheels: Path
) -> None:
    said: list[str] = []
    pins = tiny(packages={"tinystack": "3.0"}, alone={})
    made = environments.ensure(
        "pta", tmp_path, say=said.append, source=Source(wheels=wheels), pins=pins
    )
    assert made.versions["tinystack"] == "3.0"
    assert [line for line in said if "no cpu build found: taking the plain one" in line]


def test_two_sessions_wait_for_one_build(tmp_path: Path, wheels: Path) -> None:
    sessions = [session(tmp_path, wheels) for _ in range(2)]
    said = [one.communicate(timeout=60) for one in sessions]
    assert [one.returncode for one in sessions] == [0, 0]
    text = "".join(out for out, _ in said)
    assert text.count("made in") == 1
    builder = next(
        one.pid for one, (out, _) in zip(sessions, said, strict=True) if "made in" in out
    )
    assert f"waiting for process {builder}, which is making it" in text
    assert len(names(tmp_path)) == 1


def building(folder: Path) -> list[Path]:
    return list(folder.glob("*.building-*/lib/python3*/site-packages"))


def test_a_killed_build_is_cleaned_up_by_the_next_session(tmp_path: Path, wheels: Path) -> None:
    killed = session(tmp_path, wheels)
    assert until(lambda: building(tmp_path))
    run_id = (tmp_path / ".pta.lock").read_text().split()[-1]
    killed.kill()
    killed.communicate()
    said: list[str] = []
    made = environments.ensure(
        "pta", tmp_path, say=said.append, source=Source(wheels=wheels), pins=tiny()
    )
    assert not carriers(run_id)
    assert "removing what an interrupted session left" in said[1]
    assert names(tmp_path) == [made.path.name]


def test_ctrl_c_leaves_nothing_of_a_build(tmp_path: Path, wheels: Path) -> None:
    interrupted = session(tmp_path, wheels)
    assert until(lambda: building(tmp_path))
    interrupted.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in interrupted.communicate(timeout=30)[1]
    assert names(tmp_path) in ([], ["pta-build.log"])


def problem(folder: Path, source: Source, pins: Pins) -> str:
    with pytest.raises(EnvironmentProblem) as caught:
        environments.ensure("pta", folder, say=lambda _: None, source=source, pins=pins)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_wheel_is_one_line_and_leaves_only_the_log(tmp_path: Path, wheels: Path) -> None:
    line = problem(tmp_path, Source(wheels=wheels), tiny(packages={"tinystack": "9.9"}))
    assert line.startswith("PTA environment: pip: ERROR: No matching distribution found")
    assert "tinystack==9.9" in line
    assert names(tmp_path) == ["pta-build.log"]


def test_no_network_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    line = problem(tmp_path, Source(index_url="http://127.0.0.1:1/simple"), tiny())
    assert line.startswith(
        "PTA environment: no network (NewConnectionError): pip could not reach its index. "
    )
    assert "--wheels DIR" in line
    assert names(tmp_path) == ["pta-build.log"]


def test_a_full_disk_is_told_before_anything_is_done(tmp_path: Path, wheels: Path) -> None:
    line = problem(tmp_path, Source(wheels=wheels), tiny(installed_mb=10**9))
    assert line.startswith(f"PTA environment: about 1000000001 MB needed in {tmp_path}, ")
    assert "set lmsv_env_dir to a folder on another disk" in line
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_meanwhile_is_told_as_such(tmp_path: Path, wheels: Path) -> None:
    """A pip that says so (a wheel can't be made to fill a disk here)."""
    from pytest_lmsv.launch.building import Step

    log = tmp_path / "log"
    step = Step("pta", tiny(), tmp_path / "b", log, tmp_path / "lock", print)
    text = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    with pytest.raises(EnvironmentProblem, match=r"about 21 MB needed in .*: make room") as caught:
        step.run("pip", ["bash", "-c", f"echo '{text}'; exit 1"])
    assert caught.value.category == "no_space"


def test_a_folder_that_can_not_be_made_is_one_line(tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "file").touch()
    line = problem(tmp_path / "file" / "envs", Source(wheels=wheels), tiny())
    assert line.startswith("PTA environment: can't be made in ")
    assert line.endswith("set lmsv_env_dir to a folder that can be written")


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


def test_the_first_use_is_announced_with_its_size(tmp_path: Path) -> None:
    assert environments.announcement(["pta", "msa"], tmp_path) == (
        f"first use: the environment of PTA and of MSA will be made in {tmp_path} (3.8 GB on disk, "
        "1.1 GB to download); `lmsv setup cpu` does it ahead of time"
    )


def test_a_damaged_record_is_no_environment(tmp_path: Path) -> None:
    place = tmp_path / "pta-000000000000"
    place.mkdir()
    (place / "lmsv-environment.json").write_text('{"stack": "pta", "pins"')
    assert environments.existing("pta", tmp_path) is None
    record = {"pins": PINS["pta"].versions(), "interpreter": "/gone/python", "versions": {}}
    (place / "lmsv-environment.json").write_text(json.dumps(record))
    assert environments.existing("pta", tmp_path) is None  # its Python is gone
