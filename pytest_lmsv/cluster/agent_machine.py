"""What an agent answers about its machine: routes, ports, device leases, processes of a run.

The source of this file is sent to the agent after the guard's, into the same names; rules as there.
"""

import errno
import fcntl
import json
import os
import random
import socket
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pytest_lmsv.launch.guard import end_all

LEASED = {}  # type: dict[Path, int]


def route(asked: "dict[str, Any]") -> "dict[str, Any]":
    """The interface that leads to host *to*, and this machine's own address on it."""
    try:
        found = socket.getaddrinfo(asked["to"], 9, type=socket.SOCK_DGRAM)
    except socket.gaierror as error:
        return {"problem": "can't resolve {}: {}".format(asked["to"], error.strerror)}
    family, kind, protocol, _, target = found[0]
    with socket.socket(family, kind, protocol) as trial:
        trial.connect(target)
        own = str(trial.getsockname()[0])
    is_ipv6 = family == socket.AF_INET6
    interface = ipv6_interface(own) if is_ipv6 else ipv4_interface(str(target[0]))
    return {"address": own, "interface": interface, "target": target[0]}


def ipv4_interface(target: str) -> "str | None":
    """The interface of the most special route to *target*."""
    wanted = int.from_bytes(socket.inet_aton(target), "little")
    if sys.byteorder == "big":
        wanted = int.from_bytes(socket.inet_aton(target), "big")
    best = None  # type: tuple[tuple[int, int], str] | None
    for line in Path("/proc/net/route").read_text(encoding="ascii").splitlines()[1:]:
        words = line.split()
        destination, mask = int(words[1], 16), int(words[7], 16)
        if int(words[3], 16) & 1 and wanted & mask == destination:
            rank = (bin(mask).count("1"), -int(words[6]))
            if best is None or rank > best[0]:
                best = (rank, words[0])
    return best[1] if best else None


def ipv6_interface(own: str) -> "str | None":
    """The interface that has the address *own*."""
    wanted = socket.inet_pton(socket.AF_INET6, own.partition("%")[0]).hex()
    for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
        words = line.split()
        if words[0] == wanted:
            return words[5]
    return None


def ports(asked: "dict[str, Any]") -> "dict[str, Any]":
    """*count* TCP ports below the ephemeral range on which a server can listen now."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    low = int(text.split()[0])
    # Where an administrator widened the range down to these ports, the test alone must do.
    candidates = list(range(20000, low if low >= 21000 else 32768))
    random.shuffle(candidates)
    found = []  # type: list[int]
    for port in candidates:
        if is_free(port, asked["address"]):
            found.append(port)
        if len(found) == asked["count"]:
            return {"ports": found}
    return {"problem": "no free TCP port from 20000 on", "errno": errno.EADDRINUSE}


def is_free(port: int, address: str) -> bool:
    """Whether a server could listen on *port* on any address, of either protocol, and *address*."""
    places = [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]
    if address:
        places.append((socket.AF_INET6 if ":" in address else socket.AF_INET, address))
    for family, place in places:
        try:
            with socket.socket(family) as server:
                if family == socket.AF_INET6:
                    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                server.bind((place, port))
                server.listen(1)
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and place == "::":
                continue
            return False
    return True


def held(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Which of *count* ports from *base* on sockets hold (established or listening)."""
    taken = set()  # type: set[int]
    for name in ("tcp", "tcp6"):
        try:
            text = (Path("/proc/net") / name).read_text(encoding="ascii")
        except OSError:
            continue
        for words in map(str.split, text.splitlines()[1:]):
            if words[3] in ("01", "0A"):
                taken.add(int(words[1].rpartition(":")[2], 16))
    wanted = range(asked["base"], asked["base"] + asked["count"])
    return {"held": sorted(taken.intersection(wanted))}


def devices(asked: "dict[str, Any]") -> "dict[str, Any]":
    """The NPUs that a login of this machine may use."""
    given = os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "").strip()
    if given:
        return {"devices": [int(number) for number in given.split(",")]}
    names = [path.name[len("davinci") :] for path in Path("/dev").glob("davinci[0-9]*")]
    return {"devices": sorted(int(name) for name in names if name.isdigit())}


def lease(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Lock the first free one of *sets* of *device*, by the files that sessions here lock too.

    Answers its index, and the run ids that a dead holder had noted; index null: all are held.
    """
    release({})
    folder = lease_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for index, numbers in enumerate(asked["sets"]):
        if take([folder / "{}{}.lock".format(asked["device"], n) for n in sorted(numbers)]):
            stale = []  # type: list[str]
            for descriptor in LEASED.values():
                lines = os.pread(descriptor, 65536, 0).decode("utf-8", "replace").splitlines()
                stale += [line for line in lines[1:] if line and line not in stale]
            return {"index": index, "stale": stale}
    holders = []
    for path in sorted(folder.glob(asked["device"] + "*.lock")):
        owner = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
        holders.append("{}: {}".format(path.name[:-5], owner[:200] or "just being taken"))
    return {"index": None, "stale": [], "holders": holders}


def lease_folder() -> Path:
    """Where sessions of this machine keep their locks."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path.home() / ".cache"
    return cache / "pytest-lmsv" / "leases" / socket.gethostname()


def take(paths: "list[Path]") -> bool:
    """Lock all of *paths*, or none."""
    for path in paths:
        descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        LEASED[path] = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            release({})
            return False
    return True


def note(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Note *owner* and *run_id* in the locks, so that the next holder can end what we leave."""
    for descriptor in LEASED.values():
        os.ftruncate(descriptor, 0)
        text = json.dumps(asked["owner"]) + "\n" + (asked.get("run_id") or "") + "\n"
        os.write(descriptor, text.encode("utf-8"))
    return {}


def release(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Give the lease back; with *clean* its runs are over and their notes go."""
    for descriptor in LEASED.values():
        if asked.get("clean"):
            os.ftruncate(descriptor, 0)
        os.close(descriptor)
    LEASED.clear()
    return {}


def end(asked: "dict[str, Any]") -> "dict[str, Any]":
    """End all processes that carry exactly *run_id*."""
    found, _, unkillable = end_all(asked["run_id"], asked["grace"])
    return {
        "found": [[p.pid, p.command] for p in found],
        "unkillable": [[p.pid, p.command] for p in unkillable],
    }


MACHINE = (route, ports, held, devices, lease, note, release, end)
