"""Device sets: what one run has for itself on this machine, leased by flock so that none is shared.

On npu a set is some devices; on cpu it is a slot. The kernel frees a lease when its holder dies,
however it dies; the next holder then ends what is left of the runs noted in it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_lmsv.launch import local, ports
from pytest_lmsv.launch.job import Leftover
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from pytest_lmsv.records import Device


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """What a run may use; ``devices`` are NPU numbers on npu, the slot's number on cpu."""

    index: int
    name: str
    devices: tuple[int, ...]
    master_port: int
    hccl_base_port: int
    folder: Path
    """Where the leases of this host are kept."""


@dataclass(slots=True)
class Lease:
    """A device set while it is held."""

    device_set: DeviceSet
    leftovers: tuple[Leftover, ...]
    """What a dead holder's runs had left; ended already."""
    descriptors: tuple[int, ...]

    def note(self, run_id: str) -> None:
        """Note a run before it starts, so that the next holder can end it if we are killed.

        A set does one run at a time, so the one noted before is over.
        """
        for descriptor in self.descriptors:
            owner = os.pread(descriptor, 4096, 0).partition(b"\n")[0]
            os.ftruncate(descriptor, len(owner) + 1)
            os.write(descriptor, f"{run_id}\n".encode())

    def fresh_port(self) -> DeviceSet:
        """The set with another free master port: for each run, and again after `port_in_use`."""
        port = ports.free_port(self.device_set.devices[0])
        self.device_set = replace(self.device_set, master_port=port)
        return self.device_set


def default_folder() -> Path:
    """The leases of this host in the user's cache folder, which may be shared between hosts."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    cache = given if given.is_absolute() else Path.home() / ".cache"
    return cache / "pytest-lmsv" / "leases" / socket.gethostname()


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def slots(requested: int | str | None, available: int) -> int:
    """How many runs at once on cpu: auto is half the cores, since msrun burns one while it waits.

    InputProblem for less than 1, or more than there are cores.
    """
    if requested in (None, "auto", "logical"):
        return max(1, available // 2)
    try:
        count = int(str(requested))
    except ValueError:
        count = 0
    if not 1 <= count <= available:
        raise InputProblem(
            f"-n: {requested!r} runs at once on {available} core(s): "
            f"give auto ({slots(None, available)}) or a number from 1 to {available}"
        )
    return count


def cpu_sets(count: int) -> list[tuple[int, ...]]:
    """One slot for each of *count* runs at once."""
    return [(number,) for number in range(count)]


def npu_sets(devices: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """As many sets of *size* devices as there are; InputProblem if there are too few for one."""
    if not 1 <= size <= len(devices):
        raise InputProblem(
            f"the layout needs {size} NPU(s), {len(devices)} found ({list(devices)}): "
            "give a smaller layout, or more devices in ASCEND_RT_VISIBLE_DEVICES"
        )
    return [
        tuple(devices[first : first + size]) for first in range(0, len(devices) - size + 1, size)
    ]


@contextmanager
def lease(
    folder: Path,
    sets: Sequence[Sequence[int]],
    device: Device = "cpu",
    *,
    say: Callable[[str], None] = lambda _line: None,
    wait: float = math.inf,
) -> Iterator[Lease]:
    """Hold the first free one of *sets*; waits up to *wait* seconds, then EnvironmentProblem.

    Each device or slot has its own lock, so that sessions with different sets exclude each other.
    """
    folder.mkdir(parents=True, exist_ok=True)
    until, told = time.monotonic() + wait, False
    while (taken := first_free(folder, sets, device)) is None:
        if time.monotonic() >= until:
            raise EnvironmentProblem(
                f"no device set was free for {wait:.0f} s: {holders(folder, device, sets)}",
                "device_busy",
            )
        if not told:
            say(f"waiting for a device set: {holders(folder, device, sets)}")
            told = True
        time.sleep(0.2)
    index, descriptors = taken
    try:
        leftovers = clear(descriptors, say)
        numbers = tuple(sets[index])
        held = DeviceSet(
            index,
            f"{device}-{'-'.join(str(number) for number in numbers)}",
            numbers,
            ports.free_port(numbers[0]),
            ports.hccl_base_port(numbers[0]),
            folder,
        )
        yield Lease(held, leftovers, descriptors)
    finally:
        for descriptor in descriptors:
            os.ftruncate(descriptor, 0)  # our runs are over: whatever was raised passed local.run
            os.close(descriptor)


def first_free(
    folder: Path, sets: Sequence[Sequence[int]], device: Device
) -> tuple[int, tuple[int, ...]] | None:
    """Index and locks of the first set that nobody holds; None if there is none now."""
    for index, numbers in enumerate(sets):
        # In ascending order, so that two sessions with overlapping sets do not starve each other.
        taken = take([folder / f"{device}{number}.lock" for number in sorted(numbers)])
        if taken is not None:
            return index, taken
    return None


def take(paths: Sequence[Path]) -> tuple[int, ...] | None:
    """All these locks, or none."""
    taken: list[int] = []
    for path in paths:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        taken.append(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            for other in taken:
                os.close(other)
            return None
    return tuple(taken)


def clear(descriptors: Sequence[int], say: Callable[[str], None]) -> tuple[Leftover, ...]:
    """End what a dead holder's runs left, then write who holds the lease now."""
    run_ids: dict[str, None] = {}
    for descriptor in descriptors:
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, size, 0).decode("utf-8", "replace").splitlines()
        run_ids.update(dict.fromkeys(line for line in lines[1:] if line))
    leftovers: list[Leftover] = []
    for run_id in run_ids:
        found, unkillable = local.end_run(run_id)
        leftovers += found
        if unkillable:
            raise EnvironmentProblem(
                f"process {unkillable[0].pid} ({unkillable[0].command}) of an earlier run can't be "
                "ended: it hangs in the kernel; restart the machine or use other devices",
                "device_busy",
            )
    for process in leftovers:
        say(f"ended process {process.pid} of an earlier session: {process.command}")
    owner = json.dumps({"pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}) + "\n"
    for descriptor in descriptors:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, owner.encode())
    return tuple(leftovers)


def holders(folder: Path, device: Device, sets: Sequence[Sequence[int]]) -> str:
    """Who holds what, for a person: ``cpu0 by process 12 since ...``."""
    said = []
    for number in sorted({number for numbers in sets for number in numbers}):
        try:
            text = (folder / f"{device}{number}.lock").read_text(encoding="utf-8").split("\n")[0]
            owner = json.loads(text)
            said.append(f"{device}{number} by process {owner['pid']} since {owner['since']}")
        except (OSError, ValueError, KeyError, TypeError):
            continue  # free, or just being taken
    return ", ".join(said) or "all are being taken"
