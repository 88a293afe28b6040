"""The Python environments of the two stacks on cpu: found, made on first use, or the user's own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.launch import building, installed, interpreters
from pytest_lmsv.launch.pins import PINS, Pins, pinned
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Stack

__all__ = [
    "StackEnvironment",
    "default_folder",
    "ensure",
    "existing",
    "own",
    "pinned",
    "setup",
]

# MindSpore's CPU kernels are 20 times slower when their threads wait for one another.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class StackEnvironment:
    """A folder with ``bin/python`` that carries a stack, and the versions of its packages."""

    stack: Stack
    path: Path
    versions: Mapping[str, str]

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """A complete process environment: this session's, as if this environment was activated."""
        env = {name: text for name, text in os.environ.items() if name not in building.DROPPED}
        env["PATH"] = os.pathsep.join([str(self.path / "bin"), env.get("PATH", os.defpath)])
        if (self.path / "pyvenv.cfg").exists():
            env["VIRTUAL_ENV"] = str(self.path)
        if self.stack == "msa":
            env |= dict.fromkeys(ONE_THREAD, "1")
        return env

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python *argv``; *env* is added to :meth:`variables`; *timeout* in seconds.

        The exit status is the caller's to check; subprocess.TimeoutExpired after the timeout.
        """
        return subprocess.run(
            [self.python, *argv],
            cwd=cwd,
            env={**self.variables(), **(env or {})},
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


def default_folder() -> Path:
    """Where environments are kept: ``pytest-lmsv/envs`` in the user's cache folder."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".cache") / "pytest-lmsv" / "envs"


def own(stack: Stack, path: Path) -> StackEnvironment:
    """An environment of the user's own; EnvironmentProblem if it lacks Python or a package."""
    if not (path / "bin" / "python").exists():
        raise EnvironmentProblem(
            f"{stack.upper()} environment {path} has no bin/python: "
            f"set lmsv_{stack}_env to the folder of a virtual or conda environment"
        )
    versions = installed.versions(path)
    missing = [name for name in PINS[stack].versions() if name not in versions]
    if missing:
        pins = PINS[stack].versions()
        wanted = ", ".join(f"{name} (as {pins[name]})" for name in missing)
        raise EnvironmentProblem(
            f"{stack.upper()} environment {path} lacks {wanted}: install it there, or unset "
            f"lmsv_{stack}_env to have an environment made"
        )
    return StackEnvironment(stack, path, versions)


def existing(
    stack: Stack, folder: Path, *, python: Path | None = None, pins: Pins | None = None
) -> StackEnvironment | None:
    """The environment of these pins that was made before, if there is one; starts nothing."""
    wanted = (pins or PINS[stack]).versions()
    for record in sorted(folder.glob(f"{stack}-*/{building.RECORD}")):
        if ".building-" in record.parent.name:
            continue
        try:
            made = json.loads(record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        place = record.parent
        if made.get("pins") != wanted or not (place / "bin" / "python").exists():
            continue  # other pins, or the Python it was made from is gone
        if python is not None and not same_python(python, Path(made["interpreter"])):
            continue
        return StackEnvironment(stack, place, made["versions"])
    return None


def same_python(named: Path, interpreter: Path) -> bool:
    path = named / "bin" / "python" if named.is_dir() else named
    return path.resolve() == interpreter.resolve()


def ensure(
    stack: Stack,
    folder: Path,
    *,
    named: Path | None = None,
    python: Path | None = None,
    say: Callable[[str], None] = print,
    source: building.Source | None = None,
    pins: Pins | None = None,
) -> StackEnvironment:
    """The stack's environment: the *named* one as it is, else one under *folder*, made if needed.

    *python* is the interpreter to make it from. Two sessions wait for one build. EnvironmentProblem
    of one line: no network, no space, no supported Python, a named environment that does not do.
    """
    if named is not None:
        return own(stack, named)
    found = existing(stack, folder, python=python, pins=pins)
    if found is not None:
        return found
    wanted = pins or PINS[stack]
    label = f"{stack.upper()} environment"

    def tell(line: str) -> None:
        say(f"{label}: {line}")

    try:
        folder = folder.expanduser().absolute()  # the scripts of an environment hold its path
        folder.mkdir(parents=True, exist_ok=True)
        with building.lock(folder, stack, tell) as lock_file:
            found = existing(stack, folder, python=python, pins=pins)
            if found is not None:
                return found
            interpreter = interpreters.find(wanted.pythons, named=python, wanted_for="it")
            key = json.dumps([wanted.versions(), interpreter.text, str(interpreter.path)])
            digest = hashlib.sha256(key.encode()).hexdigest()[:12]
            place = folder / f"{stack}-{digest}"
            packages = ", ".join(f"{name} {version}" for name, version in wanted.versions().items())
            tell(
                f"installing {packages} with Python {interpreter.text} ({wanted.download_mb} MB to "
                f"download, {wanted.installed_mb} MB on disk)"
            )
            versions = building.build(
                stack,
                wanted,
                interpreter,
                place,
                source=source or building.Source(),
                lock_file=lock_file,
                say=tell,
            )
            return StackEnvironment(stack, place, versions)
    except EnvironmentProblem as problem:
        raise EnvironmentProblem(f"{label}: {problem}", problem.category) from None
    except OSError as error:
        raise EnvironmentProblem(
            f"{label}: can't be made in {folder}: {error.strerror or error}; "
            "set lmsv_env_dir to a folder that can be written"
        ) from error


def setup(
    stacks: Sequence[Stack] = ("pta", "msa"),
    *,
    folder: Path | None = None,
    wheels: Path | None = None,
    index_url: str | None = None,
    python: Path | None = None,
    say: Callable[[str], None] = print,
) -> list[StackEnvironment]:
    """Make the environments ahead of time (``lmsv setup cpu``), from a wheel folder or a mirror."""
    where = folder or default_folder()
    if wheels is not None and not wheels.is_dir():
        raise EnvironmentProblem(f"--wheels {wheels} is no folder: name a folder of wheel files")
    made = []
    for stack in stacks:
        source = building.Source(wheels.resolve() if wheels else None, index_url)
        environment = ensure(stack, where, python=python, say=say, source=source)
        say(f"{stack.upper()} environment: ready, {environment.path}")
        made.append(environment)
    return made
