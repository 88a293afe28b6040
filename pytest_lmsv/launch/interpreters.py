"""Finds a Python that can carry a stack's environment: named, running, PATH, pyenv, uv, conda."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.launch.pins import PythonVersion
from pytest_lmsv.problems import EnvironmentProblem

PLATFORM = sys.platform
RUNNING: PythonVersion = sys.version_info[:2]
MACHINES = ("x86_64", "aarch64")
PROBE = """
import importlib.util, json, os, platform, sys
print(json.dumps({
    "path": getattr(sys, "_base_executable", None) or sys.executable,
    "version": list(sys.version_info[:3]),
    "implementation": sys.implementation.name,
    "machine": platform.machine(),
    "bits": 64 if sys.maxsize > 2**32 else 32,
    "venv": all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")),
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python as it describes itself; ``fault`` says why it can't carry an environment."""

    path: Path
    version: tuple[int, int, int]
    fault: str | None = None

    @property
    def minor(self) -> PythonVersion:
        return self.version[:2]

    @property
    def text(self) -> str:
        return ".".join(str(part) for part in self.version)


def probe(path: Path) -> Interpreter | None:
    """Ask a Python what it is; None if it does not answer (a pyenv shim without a version)."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", PROBE], capture_output=True, text=True, timeout=20, check=True
        )
        said = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    version = (said["version"][0], said["version"][1], said["version"][2])
    fault = None
    if said["implementation"] != "cpython" or said["bits"] != 64:
        fault = f"it is {said['bits']}-bit {said['implementation']}, not 64-bit CPython"
    elif said["machine"] not in MACHINES:
        fault = f"it runs on {said['machine']}, and there are wheels for {' and '.join(MACHINES)}"
    elif not said["venv"]:
        package = f"python{version[0]}.{version[1]}-venv"
        fault = f"its venv module does not work (Debian, Ubuntu: apt install {package})"
    return Interpreter(Path(said["path"]), version, fault)


def find(
    groups: Sequence[Sequence[PythonVersion]], *, named: Path | None = None, wanted_for: str
) -> Interpreter:
    """The first Python of the first group of versions that there is one of.

    EnvironmentProblem, one line, if there is none, or if the *named* one does not do.
    """
    versions = [version for group in groups for version in group]
    if PLATFORM != "linux":
        raise EnvironmentProblem(
            f"{wanted_for}: the CPU stacks have wheels for Linux, this is {PLATFORM}"
        )
    if named is not None:
        return checked(named, versions, wanted_for)
    seen: dict[Path, Interpreter | None] = {}
    for group in groups:
        for candidate in candidates(group):
            if candidate not in seen:
                seen[candidate] = probe(candidate)
            found = seen[candidate]
            if found is not None and found.minor in group and found.fault is None:
                return found
    unfit = [one for one in seen.values() if one is not None and one.minor in versions]
    if unfit:
        raise EnvironmentProblem(f"{wanted_for}: {unfit[0].path} found, but {unfit[0].fault}")
    raise EnvironmentProblem(
        f"{wanted_for}: no Python {spoken(versions)} found on PATH, in pyenv, uv or conda: install "
        f"one (as `pyenv install {versions[0][0]}.{versions[0][1]}` or "
        f"`conda create -n py{versions[0][0]}{versions[0][1]} "
        f"python={versions[0][0]}.{versions[0][1]}`), or name one with lmsv_python"
    )


def checked(named: Path, versions: Sequence[PythonVersion], wanted_for: str) -> Interpreter:
    path = named / "bin" / "python" if named.is_dir() else Path(shutil.which(named) or named)
    found = probe(path)
    if found is None:
        raise EnvironmentProblem(
            f"{wanted_for}: {path} is not a Python that starts: name another with lmsv_python"
        )
    if found.minor not in versions:
        raise EnvironmentProblem(
            f"{wanted_for}: {path} is Python {found.text}, needed is {spoken(versions)}: "
            "name one with lmsv_python"
        )
    if found.fault is not None:
        raise EnvironmentProblem(f"{wanted_for}: {path}: {found.fault}")
    return found


def spoken(versions: Sequence[PythonVersion]) -> str:
    return " or ".join(f"{major}.{minor}" for major, minor in sorted(versions))


def candidates(group: Sequence[PythonVersion]) -> Iterator[Path]:
    """Pythons that may be of these versions, the likeliest first; each only if it exists."""
    if RUNNING in group:
        yield Path(getattr(sys, "_base_executable", None) or sys.executable)
    names = [f"python{major}.{minor}" for major, minor in group]
    folders = [Path(part) for part in os.environ.get("PATH", "").split(os.pathsep) if part]
    for name in [*names, "python3", "python"]:
        yield from executables(folder / name for folder in folders)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = home / ".local" / "share" / "uv" / "python"
    for name in names:
        dotted = name.removeprefix("python")
        for root, pattern in ((pyenv, f"{dotted}*"), (uv, f"cpython-{dotted}*")):
            found = sorted(root.glob(pattern), reverse=True)
            yield from executables(folder / "bin" / name for folder in found)
        for root in conda_roots(home):
            folders = [root, *sorted((root / "envs").glob("*"))]
            yield from executables(folder / "bin" / name for folder in folders)


def conda_roots(home: Path) -> list[Path]:
    roots = [Path(os.environ["CONDA_EXE"]).parents[1]] if os.environ.get("CONDA_EXE") else []
    for name in ("miniconda3", "anaconda3", "miniforge3", "mambaforge"):
        roots += [home / name, Path("/opt") / name]
    return [*dict.fromkeys([*roots, Path("/opt/conda")])]


def executables(paths: Iterator[Path]) -> Iterator[Path]:
    return (path for path in paths if path.is_file() and os.access(path, os.X_OK))
