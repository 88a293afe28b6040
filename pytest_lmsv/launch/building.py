"""Builds one stack's environment: venv and pip in a folder aside, moved into place when whole."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.launch import installed, local, space
from pytest_lmsv.launch.interpreters import Interpreter
from pytest_lmsv.launch.job import Ended, Job
from pytest_lmsv.launch.pins import Pins
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Stack

RECORD = "lmsv-environment.json"
TEMPORARY = ".tmp"
STEP_LIMIT_S = 4 * 3600.0  # of one pip command; pip is silent while it downloads or unpacks
TICK_S = 10.0  # between two progress lines
NO_NETWORK = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "Connection refused",
    "ProxyError",
    "SSLError",
    "Read timed out",
)
# A user's pip settings that would lead the packages elsewhere, or Python settings that leak in.
DROPPED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_REQUIRE_VIRTUALENV",
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Source:
    """Where pip takes packages from; neither: as pip's own configuration says."""

    wheels: Path | None = None
    index_url: str | None = None

    def options(self) -> list[str]:
        if self.wheels is not None:
            return ["--no-index", "--find-links", str(self.wheels)]
        return ["--index-url", self.index_url] if self.index_url else []


@contextmanager
def lock(folder: Path, stack: Stack, say: Say) -> Iterator[Path]:
    """The only builder of this stack in *folder*; others wait, and are told for whom.

    Yields the lock file, in which the builder notes the run ids of what it starts: if it is
    killed, the next one ends what is left of them.
    """
    path = folder / f".{stack}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        told = -math.inf
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                owner = path.read_text().split()[:1]  # empty while it is being taken
                if owner and time.monotonic() - told > 60:
                    told = time.monotonic()
                    say(f"waiting for process {owner[0]}, which is making it")
                time.sleep(0.2)
        for run_id in path.read_text().split()[1:]:
            local.end_run(run_id)
        path.write_text(f"{os.getpid()}\n")
        yield path
        path.write_text("")
    finally:
        os.close(descriptor)


def build(
    stack: Stack,
    pins: Pins,
    interpreter: Interpreter,
    place: Path,
    *,
    source: Source,
    lock_file: Path,
    say: Say,
) -> dict[str, str]:
    """Make the environment at *place*; returns the versions of all its packages.

    The caller holds the lock. EnvironmentProblem, one line, if it can't be made; nothing of it
    then stays but ``<stack>-build.log``.
    """
    folder = place.parent
    for remnant in folder.glob(f"{stack}-*.building-*"):
        say(f"removing what an interrupted session left: {remnant.name}")
        shutil.rmtree(remnant)
    space.check(pins, folder)
    building = folder / f"{place.name}.building-{os.getpid()}"
    step = Step(stack, pins, building, folder / f"{stack}-build.log", lock_file, say)
    begun = time.monotonic()
    try:
        (building / TEMPORARY).mkdir(parents=True)
        step.run("venv", [str(interpreter.path), "-m", "venv", str(building)])
        install(step, pins, source)
        shutil.rmtree(building / TEMPORARY)
        relocate(building, place)
        versions = installed.versions(building)
        record = {
            "stack": stack,
            "pins": pins.versions(),
            "python": interpreter.text,
            "interpreter": str(interpreter.path),
            "versions": versions,
        }
        (building / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        size = space.used_mb(building)
        if place.exists():  # damaged, or its Python is gone: `existing` did not take it
            shutil.rmtree(place)
        building.rename(place)
        step.log.unlink()
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    say(f"made in {time.monotonic() - begun:.0f} s, {size:.0f} MB: {place}")
    for other in sorted(folder.glob(f"{stack}-*/{RECORD}")):
        if other.parent != place:
            say(f"an older one is still there, remove it when nothing uses it: {other.parent}")
    return versions


def install(step: Step, pins: Pins, source: Source) -> None:
    """pip's commands: a package's variant first, from pip's index, then from the variant's own."""
    plain = [f"{name}=={version}" for name, version in pins.packages.items()]
    labelled = [
        f"{name}=={version}" + (f"+{pins.variants[name]}" if name in pins.variants else "")
        for name, version in pins.packages.items()
    ]
    tries: list[Sequence[str]] = [plain]
    if labelled != plain:
        elsewhere = pins.variant_index is not None and source == Source()
        extra = ["--extra-index-url", str(pins.variant_index), "--retries", "1", "--timeout", "15"]
        tries = [labelled, *([[*extra, *labelled]] if elsewhere else []), plain]
    for number, requirements in enumerate(tries):
        try:
            step.pip([*source.options(), *requirements])
            break
        except NotFound as problem:
            offline = number == 0 and isinstance(problem, NoNetwork)
            if offline or number + 1 == len(tries):
                raise
            if number + 2 == len(tries):
                step.say(
                    f"no {' '.join(pins.variants.values())} build found: taking the plain one, "
                    "which on x86-64 may bring some GB of CUDA libraries (docs/environments.md)"
                )
    if pins.alone:
        alone = [f"{name}=={version}" for name, version in pins.alone.items()]
        step.pip([*source.options(), "--no-deps", *alone])


class NotFound(EnvironmentProblem):
    """pip's index does not have what was asked for."""


class NoNetwork(NotFound):
    """pip could not reach an index."""


@dataclass(frozen=True, slots=True)
class Step:
    """The commands of one build: under a guard, output to a log, a progress line now and then."""

    stack: Stack
    pins: Pins
    building: Path
    log: Path
    lock_file: Path
    say: Say

    def pip(self, arguments: Sequence[str]) -> None:
        python = str(self.building / "bin" / "python")
        options = ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
        self.run("pip", [python, "-m", "pip", "install", *options, *arguments])

    def run(self, what: str, argv: Sequence[str]) -> None:
        run_id = f"lmsv-build-{uuid.uuid4()}"
        with self.lock_file.open("a", encoding="ascii") as file:
            file.write(f"{run_id}\n")
        env = {name: value for name, value in os.environ.items() if name not in DROPPED}
        env |= {"PIP_USER": "0", "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8"}
        env["TMPDIR"] = str(self.building / TEMPORARY)  # /tmp may be small
        begun = told = time.monotonic()

        def watch() -> None:
            nonlocal told
            if time.monotonic() - told >= TICK_S:
                told = time.monotonic()
                fetched = space.used_mb(self.building / TEMPORARY)
                size = space.used_mb(self.building) - fetched
                self.say(
                    f"{told - begun:.0f} s, {size:.0f} of about {self.pins.installed_mb} MB there"
                    + (f", {fetched:.0f} MB fetched" if fetched >= 1 else "")
                    + f": {shortened(last_line(self.log))}"
                )

        ended = local.run(
            Job(tuple(argv), env, self.building.parent, self.log, run_id, STEP_LIMIT_S, math.inf),
            watch,
        )
        if (ended.reason, ended.exit_status) != ("exit", 0):
            raise self.problem(what, ended)

    def problem(self, what: str, ended: Ended) -> EnvironmentProblem:
        """What the log says, as one line with what to do."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        if "No space left on device" in text or "Disk quota exceeded" in text:
            return space.problem(self.pins, self.building.parent)
        signs = [sign for sign in NO_NETWORK if sign in text]
        if signs:
            return NoNetwork(
                f"no network ({signs[0]}): pip could not reach its index. Connect, or give pip a "
                f"mirror or a folder of wheels (lmsv setup cpu --index-url URL or --wheels DIR); "
                f"see {self.log}"
            )
        lines = text.splitlines()
        for line in lines:
            # The second form: pip's words where a constraints file names the package too.
            if line.startswith(("ERROR: No matching distribution", "ERROR: Cannot install")):
                return NotFound(f"pip: {shortened(line, 160)}; see {self.log}")
        said = ([line for line in lines if line.startswith("ERROR:")] or lines or ["no output"])[-1]
        if what == "venv" and "ensurepip" in text:
            return EnvironmentProblem(
                "the venv module does not work (Debian, Ubuntu: apt install python3-venv)"
            )
        end = ended.reason if ended.reason != "exit" else f"exit {ended.exit_status}"
        return EnvironmentProblem(f"{what} failed ({end}): {shortened(said, 160)}; see {self.log}")


def relocate(building: Path, place: Path) -> None:
    """Give the scripts and settings that hold the building's name (all are text) the final one."""
    old, new = os.fsencode(building.name), os.fsencode(place.name)
    for path in [building / "pyvenv.cfg", *(building / "bin").iterdir()]:
        if path.is_file() and not path.is_symlink():
            path.write_bytes(path.read_bytes().replace(old, new))


def last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def shortened(line: str, length: int = 100) -> str:
    return line if len(line) <= length else line[: length - 3] + "..."
