"""The agent: a program on a machine of a run that answers what a campaign must know of it.

Standard library only, Linux, Python >= 3.6 (hence quoted annotations): sent over the connection as
``python3 -u -c SOURCE``, or run here. One JSON object a line on stdin (``op`` and what it needs),
one a line on stdout: the answer, or ``{"problem", "errno"}``. It holds the device lease of its
campaign as long as it lives; it ends at EOF, and when no line came for ``SILENCE_S`` seconds: the
lock must not outlive a lost link.
"""

import errno
import fcntl
import hashlib
import json
import os
import random
import select
import shutil
import socket
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SILENCE_S = 8.0
MOST_FILES = 100000
LEASED = {}  # type: dict[str, int]
GUARD = {}  # type: dict[str, Any]


def hello(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Who this machine is; *guard* is the source of the guard, whose scan `end` uses."""
    GUARD["__name__"] = "lmsv_guard"
    exec(compile(asked["guard"], "guard.py", "exec"), GUARD)
    return {
        "hostname": socket.gethostname(),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "environment": dict(os.environ),
        "clock": time.time(),
        "uid": os.getuid(),
        "rsync": shutil.which("rsync") is not None,
    }


def ping(asked: "dict[str, Any]") -> "dict[str, Any]":
    """That it is there."""
    return {"clock": time.time()}


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
    if family == socket.AF_INET6:
        interface = _ipv6_interface(own)
    else:
        interface = _ipv4_interface(socket.inet_aton(str(target[0])))
    return {"address": own, "interface": interface, "target": target[0]}


def _ipv4_interface(target: bytes) -> "str | None":
    wanted = int.from_bytes(target, sys.byteorder)
    best = None  # type: tuple[tuple[int, int], str] | None
    with open("/proc/net/route") as file:
        for line in list(file)[1:]:
            words = line.split()
            destination, mask = int(words[1], 16), int(words[7], 16)
            if int(words[3], 16) & 1 and wanted & mask == destination:
                rank = (bin(mask).count("1"), -int(words[6]))
                if best is None or rank > best[0]:
                    best = (rank, words[0])
    return best[1] if best else None


def _ipv6_interface(own: str) -> "str | None":
    wanted = socket.inet_pton(socket.AF_INET6, own.partition("%")[0]).hex()
    with open("/proc/net/if_inet6") as file:
        for line in file:
            words = line.split()
            if words[0] == wanted:
                return words[5]
    return None


def ports(asked: "dict[str, Any]") -> "dict[str, Any]":
    """*count* TCP ports below the ephemeral range on which a server can listen now."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        low = int(file.read().split()[0])
    candidates = list(range(20000, low)) if low >= 21000 else list(range(20000, 32768))
    random.shuffle(candidates)
    found = []
    for port in candidates:
        if is_free(port, asked["address"]):
            found.append(port)
        if len(found) == asked["count"]:
            return {"ports": found}
    return {"problem": "no free TCP port from 20000 to {}".format(low), "errno": errno.EADDRINUSE}


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
    """Which ports from *base* on are held (established or listening): HCCL's range."""
    taken = set()  # type: set[int]
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + name) as file:
                lines = list(file)[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            if words[3] in ("01", "0A"):
                taken.add(int(words[1].rpartition(":")[2], 16))
    wanted = range(asked["base"], asked["base"] + asked["count"])
    return {"held": sorted(taken.intersection(wanted))}


def make(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Make *folder*, and those above it; with *new* it must not be there yet."""
    os.makedirs(asked["folder"], mode=0o755, exist_ok=not asked.get("new"))
    return {}


def write(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Write *text* to the new file *path*: the token of a probe for shared folders."""
    with open(asked["path"], "x", encoding="utf-8") as file:
        file.write(asked["text"])
        file.flush()
        os.fsync(file.fileno())
    return {}


def look(asked: "dict[str, Any]") -> "dict[str, Any]":
    """What each of *paths* is: "folder", "file", or null; of *read* files the first 4 kB."""
    kinds = {}  # type: dict[str, str | None]
    for path in asked.get("paths", ()):
        is_folder = os.path.isdir(path)
        kinds[path] = "folder" if is_folder else "file" if os.path.isfile(path) else None
    texts = {}  # type: dict[str, str | None]
    for path in asked.get("read", ()):
        try:
            os.listdir(os.path.dirname(path))  # NFS: a look at the folder drops a stale "not there"
            with open(path, "rb") as file:
                texts[path] = file.read(4096).decode("utf-8", "replace")
        except OSError:
            texts[path] = None
    return {"kinds": kinds, "texts": texts}


def inventory(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Regular files below *folder* by relative path: size, and with *digests* also SHA-256.

    Links are named, never followed; *without* names folders that are left out.
    """
    top, files, links = asked["folder"], {}, []  # type: str, dict[str, list[Any]], list[str]
    leave_out = set(asked.get("without", ()))
    for place, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in leave_out]
        for name in folders:
            if os.path.islink(os.path.join(place, name)):
                links.append(os.path.relpath(os.path.join(place, name), top))
        for name in names:
            path = os.path.join(place, name)
            relative = os.path.relpath(path, top)
            status = os.lstat(path)
            if not stat.S_ISREG(status.st_mode):
                links.append(relative)
            elif len(files) < MOST_FILES:
                digest = sha256(path) if asked.get("digests") else ""
                files[relative] = [status.st_size, digest]
    return {"files": files, "links": links, "there": os.path.isdir(top)}


def sha256(path: str) -> str:
    """The digest of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def remove(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Remove *folder*, which must lie below *base*; links in it are removed, not followed."""
    folder, base = os.path.abspath(asked["folder"]), os.path.abspath(asked["base"])
    if os.path.commonpath([folder, base]) != base or folder == base:
        return {"problem": "{} is not below {}".format(folder, base)}
    if os.path.isdir(folder) and not os.path.islink(folder):
        shutil.rmtree(folder)
    return {}


def rename(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Give the folder *source* the name *target*; where that is there already, *source* goes."""
    try:
        os.rename(asked["source"], asked["target"])
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        shutil.rmtree(asked["source"])
    return {}


def space(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Free bytes where *path* lies, or will lie."""
    path = os.path.abspath(asked["path"])
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return {"free": shutil.disk_usage(path).free, "place": path}


def lease(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Lock the first free one of *sets* of *device*, by the files that sessions here lock too.

    Answers its index, and the run ids that a dead holder had noted; index null: all are held.
    """
    release({})
    folder = lease_folder()
    os.makedirs(folder, exist_ok=True)
    for index, numbers in enumerate(asked["sets"]):
        paths = [os.path.join(folder, asked["device"] + str(n) + ".lock") for n in sorted(numbers)]
        if take(paths):
            stale = []  # type: list[str]
            for descriptor in LEASED.values():
                lines = os.pread(descriptor, 65536, 0).decode("utf-8", "replace").splitlines()
                stale += [line for line in lines[1:] if line and line not in stale]
            return {"index": index, "stale": stale}
    holders = []
    for path in sorted(os.listdir(folder)):
        with open(os.path.join(folder, path), errors="replace") as file:
            holders.append("{}: {}".format(path, file.readline(200).strip() or "free"))
    return {"index": None, "stale": [], "holders": holders}


def lease_folder() -> str:
    """Where sessions of this machine keep their locks."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "pytest-lmsv", "leases", socket.gethostname())


def take(paths: "list[str]") -> bool:
    """Lock all of *paths*, or none."""
    for path in paths:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        LEASED[path] = descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for other in LEASED.values():
                os.close(other)
            LEASED.clear()
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
    found, _, unkillable = GUARD["end_all"](asked["run_id"], asked["grace"])
    return {
        "found": [[p.pid, p.command] for p in found],
        "unkillable": [[p.pid, p.command] for p in unkillable],
    }


OPERATIONS = {
    f.__name__: f
    for f in (
        hello, ping, route, ports, held, make, write, look, inventory, remove, rename, space, lease,
        note, release, end,
    )
}  # fmt: skip


def answer(line: bytes) -> "dict[str, Any]":
    """The answer to one line."""
    try:
        asked = json.loads(line.decode("utf-8"))
        return OPERATIONS[asked["op"]](asked)
    except OSError as error:
        where = ": {}".format(error.filename) if error.filename else ""
        return {"problem": (error.strerror or str(error)) + where, "errno": error.errno}


def main() -> None:
    """Answer until EOF or silence."""
    text = b""
    while True:
        ready, _, _ = select.select([0], [], [], SILENCE_S)
        part = os.read(0, 1 << 16) if ready else b""
        if not part:
            return
        text += part
        while b"\n" in text:
            line, _, text = text.partition(b"\n")
            said = json.dumps(answer(line)).encode("ascii") + b"\n"
            while said:
                said = said[os.write(1, said) :]


if __name__ == "__main__":
    main()
