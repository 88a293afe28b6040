"""What any machine of a campaign must have: room, shared memory, ports; on cpu its environments."""

from __future__ import annotations

import runpy
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from pytest_lmsv import data
from pytest_lmsv.doctor.rows import Row, fail, ok, warn
from pytest_lmsv.doctor.site import Site, environment_folder
from pytest_lmsv.launch import environments, interpreters
from pytest_lmsv.launch.pins import PINS
from pytest_lmsv.problems import EnvironmentProblem

GB = 1024**3
ITERATION_GB = 0.05
WEIGHTS_GB = 30.0
"""Of one iteration, both sides (facts: task6 6.5: 11 to 15 GB a side)."""


def existing(path: Path) -> Path:
    """*path*, or the nearest folder above it that is there."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def disk(site: Site) -> Iterator[Row]:
    """Room for what the campaign will write."""
    iterations = site.iters * max(1, len(site.models))
    needed = ITERATION_GB * iterations
    if site.device == "npu" and site.save_weights != "never":
        needed += WEIGHTS_GB * (iterations if site.save_weights == "always" else 1)
    place = existing(site.output)
    free = shutil.disk_usage(place).free / GB
    told = f"{free:.1f} GB free in {place}, about {needed:.1f} GB needed"
    if free < needed:
        yield fail("disk", told, "free some, name another --lmsv-output, or save fewer weights")
    elif site.save_weights == "abnormal" and free < needed + WEIGHTS_GB * iterations:
        yield warn("disk", told, f"each NG or failed iteration keeps {WEIGHTS_GB:.0f} GB more")
    else:
        yield ok("disk", told)


def shared_memory(site: Site) -> Iterator[Row]:
    """/dev/shm: when it is full, NPU runs end in bus errors, 507018 or HCCL errors."""
    check = str(site.shm)
    if not site.shm.is_dir():
        yield warn(check, "not there", "mount it: data loaders hand over samples in it")
        return
    usage = shutil.disk_usage(site.shm)
    free, least = usage.free / GB, (8.0 if site.device == "npu" else 0.25)
    left = list(site.shm.glob("psm_*"))
    told = f"{free:.1f} of {usage.total / GB:.1f} GB free, {len(left)} psm_* files"
    if usage.free < 0.02 * usage.total or free < 0.05:
        yield fail(check, told, "remove what your own ended runs left there")
    elif free < least:
        yield warn(check, told, f"{least:g} GB are better; remove what your own ended runs left")
    else:
        yield ok(check, told)


def ports(site: Site) -> Iterator[Row]:
    """The rendezvous port is free; on npu HCCL's range is free and reserved."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", site.master_port))
        except OSError:
            yield warn("master port", f"{site.master_port} is in use", "name another MASTER_PORT")
        else:
            yield ok("master port", f"{site.master_port} is free")
    if site.device != "npu":
        return
    # The launchers check the same range by the same program, on each node.
    rules = runpy.run_path(str(data.launchers() / "npu_ports.py"))
    base = site.hccl_base_port
    wanted = set(range(base, base + 16))
    taken = sorted(wanted & rules["used"](site.proc))
    if taken:
        yield fail("HCCL ports", f"{taken[0]} is in use", "end what uses it, or take another range")
    elif wanted - rules["reserved"](site.proc):
        yield warn(
            "HCCL ports",
            f"{base}-{base + 15} are free, not reserved",
            f'sysctl -w net.ipv4.ip_local_reserved_ports="{base}-{base + 15}" (administrator)',
        )
    else:
        yield ok("HCCL ports", f"{base}-{base + 15} are free and reserved")


def cpu(site: Site) -> Iterator[Row]:
    """The two CPU environments: made, or what making them needs."""
    folder = site.env_dir or environments.default_folder()
    for stack in site.sides:
        check = f"{stack} environment"
        named = site.environments.get(stack)
        if named and "/" not in named and not Path(named).is_dir():
            named = None  # a conda name of Task6's file, which names nothing on cpu
        try:
            if named:
                found = environments.own(stack, environment_folder(site, stack) or Path(named))
                yield ok(check, f"{found.path} (named)")
                continue
            made = environment_folder(site, stack)
            if made is not None:
                yield ok(check, str(made))
                continue
            interpreter = interpreters.find(PINS[stack].pythons, wanted_for=check)
            needed, free = PINS[stack].installed_mb / 1024, shutil.disk_usage(existing(folder)).free
            if free / GB < needed:
                yield fail(check, f"{free / GB:.1f} GB free in {folder}", f"free {needed:.1f} GB")
                continue
            yield warn(
                check,
                f"not made yet; Python {interpreter.text} would carry it ({needed:.1f} GB)",
                "the first run makes it; `lmsv setup cpu` does so now",
            )
        except EnvironmentProblem as problem:
            yield fail(check, str(problem), "see docs/environments.md")
