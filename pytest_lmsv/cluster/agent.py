"""The agent: a program on a machine of a run that answers what a campaign must know of it.

Standard library only, Linux, Python >= 3.6 (hence quoted annotations): sent over the connection as
``python3 -u -c SOURCE``, or run here. One JSON object a line on stdin (``op`` and what it needs),
one a line on stdout: the answer, or ``{"problem", "errno"}``. It holds the device lease of its
campaign as long as it lives; it ends at EOF, and when no line came for ``SILENCE_S`` seconds: the
lock must not outlive a lost link. This file answers about files, agent_machine about the rest.
"""

import errno
import hashlib
import json
import os
import select
import shutil
import socket
import stat
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401 (in a type comment)
    from typing import Any

SILENCE_S = 6.0
MOST_FILES = 100000


def hello(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Who this machine is; *sources* are the guard, whose scan is used, and agent_machine."""
    names = {}  # type: dict[str, Any]
    for source in asked["sources"]:
        names["__name__"] = "lmsv_part"
        exec(compile(source, "agent", "exec"), names)
    OPERATIONS.update({f.__name__: f for f in names["MACHINE"]})
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


def make(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Make *folder*, and those above it; with *new* it must not be there yet."""
    Path(asked["folder"]).mkdir(mode=0o755, parents=True, exist_ok=not asked.get("new"))
    return {}


def write(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Write *text* to the new file *path*: the token of a probe for shared folders."""
    with Path(asked["path"]).open("x", encoding="utf-8") as file:
        file.write(asked["text"])
        file.flush()
        os.fsync(file.fileno())
    return {}


def look(asked: "dict[str, Any]") -> "dict[str, Any]":
    """What each of *paths* is: "folder", "file" or null; of *read* files the first 4 kB or null."""
    kinds = {}  # type: dict[str, str | None]
    for name in asked.get("paths", ()):
        path = Path(name)
        kinds[name] = "folder" if path.is_dir() else "file" if path.is_file() else None
    texts = {}  # type: dict[str, str | None]
    for name in asked.get("read", ()):
        try:
            list(Path(name).parent.iterdir())  # NFS: reading the folder drops a stale "not there"
            with Path(name).open("rb") as file:
                texts[name] = file.read(4096).decode("utf-8", "replace")
        except OSError:
            texts[name] = None
    return {"kinds": kinds, "texts": texts}


def inventory(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Regular files below *folder* by relative path: size, and with *digests* also SHA-256.

    Links are named, never followed; folders named in *without* are left out, and files that vanish
    meanwhile. More than MOST_FILES are a problem.
    """
    top, count = Path(asked["folder"]), 0
    files, links = {}, []  # type: dict[str, list[Any]], list[str]
    leave_out = set(asked.get("without", ()))
    for place, folders, names in os.walk(str(top)):
        folders[:] = [name for name in folders if name not in leave_out]
        links += [str((Path(place) / n).relative_to(top)) for n in folders if _link(place, n)]
        for name in names:
            path = Path(place) / name
            relative = str(path.relative_to(top))
            try:
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode):
                    links.append(relative)
                    continue
                count += 1
                if count <= MOST_FILES:
                    digest = sha256(path) if asked.get("digests") else ""
                    files[relative] = [status.st_size, digest]
            except FileNotFoundError:
                continue
    if count > MOST_FILES:
        told = "{} holds {} files, and {} are the most that are copied; make an archive of it there"
        return {"problem": told.format(top, count, MOST_FILES)}
    return {"files": files, "links": links, "there": top.is_dir()}


def _link(place: str, name: str) -> bool:
    return (Path(place) / name).is_symlink()


def sha256(path: Path) -> str:
    """The digest of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            found.update(part)
    return found.hexdigest()


def remove(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Remove *folder*, which must lie below *base*; links in it are removed, not followed."""
    folder, base = Path(asked["folder"]), Path(asked["base"])
    if base not in folder.parents or ".." in folder.parts:
        return {"problem": f"{folder} is not below {base}"}
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(str(folder))
    return {}


def tidy(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Remove *folder* of a session, but for what lies in folders named ``weights``."""
    top = Path(asked["folder"])
    for place, folders, names in os.walk(str(top), topdown=False):
        if "weights" in Path(place).relative_to(top).parts:
            continue
        for name in [*names, *(folder for folder in folders if _link(place, folder))]:
            (Path(place) / name).unlink()
        if not list(Path(place).iterdir()):
            Path(place).rmdir()
    return {}


def rename(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Give the folder *source* the name *target*; where that is there already, *source* goes."""
    try:
        Path(asked["source"]).rename(asked["target"])
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        shutil.rmtree(asked["source"])
    return {}


def space(asked: "dict[str, Any]") -> "dict[str, Any]":
    """Free bytes where *path* lies, or will lie."""
    path = Path(asked["path"])
    while not path.exists():
        path = path.parent
    usage = shutil.disk_usage(str(path))
    return {"free": usage.free, "total": usage.total, "place": str(path)}


OPERATIONS = {}  # type: dict[str, Any]
for operation in (hello, ping, make, write, look, inventory, remove, tidy, rename, space):
    OPERATIONS[operation.__name__] = operation


def answer(line: bytes) -> "dict[str, Any]":
    """The answer to one line."""
    try:
        asked = json.loads(line.decode("utf-8"))
        answering = OPERATIONS[asked["op"]]  # type: Callable[[dict[str, Any]], dict[str, Any]]
        return answering(asked)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
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
