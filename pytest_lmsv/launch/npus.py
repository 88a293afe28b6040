"""The NPUs of this machine as ``npu-smi info`` tells them: their health, memory and processes.

Processes of others are named, never ended.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.problems import EnvironmentProblem, InputProblem

_VERSION = re.compile(r"npu-smi\s+(\S+)")
_NPU = re.compile(r"^\|\s*(\d+)\s+([\w-]+)\s*\|\s*(\w+)\s*\|")
_MEMORY = re.compile(r"(\d+)\s*/\s*(\d+)")
_PROCESS = re.compile(r"^\|\s*(\d+)\s+(\d+)\s*\|\s*(\d+)\s*\|\s*(\S*)\s*\|\s*(\d+)\s*\|")


@dataclass(frozen=True, slots=True)
class Npu:
    """One NPU; memory in MB = 1024 * 1024 bytes, None where the table does not tell."""

    number: int
    name: str
    health: str
    used_mb: int | None = None
    total_mb: int | None = None


@dataclass(frozen=True, slots=True)
class NpuProcess:
    """A process that holds memory of an NPU."""

    npu: int
    pid: int
    name: str
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one call of ``npu-smi info`` said; ``text`` is kept as evidence."""

    text: str
    driver: str | None
    npus: tuple[Npu, ...]
    processes: tuple[NpuProcess, ...]


def parse(text: str) -> Snapshot:
    """The table of ``npu-smi info``: two lines for each NPU, then one for each process."""
    npus: list[Npu] = []
    processes: list[NpuProcess] = []
    for line in text.splitlines():
        process = _PROCESS.match(line)
        if process:
            npu, _, pid, name, memory = process.groups()
            processes.append(NpuProcess(int(npu), int(pid), name, int(memory)))
            continue
        first = _NPU.match(line)
        if first and not first[2].isdigit():
            npus.append(Npu(int(first[1]), first[2], first[3]))
            continue
        pairs = _MEMORY.findall(line)
        if npus and npus[-1].total_mb is None and pairs and "Process" not in line:
            # The last pair of the chip's line is the device's memory (HBM).
            used, total = (int(number) for number in pairs[-1])
            if total and line.count("|") >= 4 and ":" in line:
                last = npus[-1]
                npus[-1] = Npu(last.number, last.name, last.health, used, total)
    version = _VERSION.search(text)
    return Snapshot(text, version[1] if version else None, tuple(npus), tuple(processes))


def look(timeout: float = 30.0) -> Snapshot | None:
    """Ask ``npu-smi info`` now; None where it is missing, fails or does not answer in time."""
    program = shutil.which("npu-smi") or shutil.which("/usr/local/sbin/npu-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "info"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse(done.stdout) if done.returncode == 0 else None


def visible(environment: Mapping[str, str] = os.environ, dev: Path = Path("/dev")) -> list[int]:
    """The NPUs that this session may use: ASCEND_RT_VISIBLE_DEVICES, else all of the machine.

    InputProblem where the variable holds something else than numbers.
    """
    given = environment.get("ASCEND_RT_VISIBLE_DEVICES", "").strip()
    if given:
        try:
            return [int(number) for number in given.split(",")]
        except ValueError:
            raise InputProblem(
                f"ASCEND_RT_VISIBLE_DEVICES: found {given!r}; give NPU numbers, as 0,1,2,3"
            ) from None
    names = (path.name.removeprefix("davinci") for path in dev.glob("davinci[0-9]*"))
    return sorted(int(name) for name in names if name.isdigit())


def busy(
    snapshot: Snapshot, devices: Collection[int], ours: Collection[int] = ()
) -> tuple[NpuProcess, ...]:
    """The processes on *devices* that are not *ours* (process ids)."""
    return tuple(p for p in snapshot.processes if p.npu in devices and p.pid not in ours)


def of_run(run_id: str, proc: Path = Path("/proc")) -> frozenset[int]:
    """The processes of this machine that carry exactly *run_id* as LMSV_RUN_ID."""
    wanted, found = f"LMSV_RUN_ID={run_id}".encode(), set()
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.add(int(folder.name))
            except OSError:  # ended meanwhile, or not ours to see
                continue
    return frozenset(found)


def left_over(snapshot: Snapshot | None, run_id: str) -> tuple[NpuProcess, ...]:
    """The NPU processes that a run left behind: after its end there must be none."""
    ours = of_run(run_id) if snapshot else frozenset()
    return (
        tuple(process for process in snapshot.processes if process.pid in ours) if snapshot else ()
    )


def named(processes: Collection[NpuProcess]) -> str:
    """One phrase for *processes*, as "python (pid 12, NPU 0, 1024 MB)"."""
    return ", ".join(f"{p.name} (pid {p.pid}, NPU {p.npu}, {p.memory_mb} MB)" for p in processes)


def wait_until_free(
    devices: Collection[int],
    *,
    limit: float,
    poll: float = 5.0,
    looking: Callable[[], Snapshot | None] = look,
    say: Callable[[str], None] = lambda line: None,
    ours: Collection[int] = (),
) -> Snapshot | None:
    """Wait until no other process is on *devices*, at most *limit* seconds; the last snapshot.

    Says once whom it waits for. EnvironmentProblem ``device_busy`` names them when the time is
    over. Without npu-smi there is nothing to wait for: None.
    """
    end = time.monotonic() + limit
    told: tuple[NpuProcess, ...] = ()
    while True:
        snapshot = looking()
        if snapshot is None:
            return None
        others = busy(snapshot, devices, ours)
        if not others:
            return snapshot
        if others != told:
            say(f"waiting for NPUs: {named(others)}")
            told = others
        if time.monotonic() >= end:
            raise EnvironmentProblem(
                f"NPUs are in use by others after {limit:.0f} s: {named(others)}; wait for them or "
                "choose other devices",
                "device_busy",
            )
        time.sleep(min(poll, max(0.0, end - time.monotonic())))
