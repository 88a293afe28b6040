"""Files that others may read while they are written: whole or not at all, one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


def write_whole(path: Path, text: str) -> None:
    """Write *text* under a temporary name, sync it and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Raise the OSError that writing to *path* would raise; leave nothing behind.

    By opening it: for root, permissions tell nothing of /proc or of a read-only disk.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        return  # a device or a pipe, where opening is more than a look
    new = not path.exists()
    path.open("a").close()
    if new:
        path.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write *value* as JSON, indented by two, text other than ASCII kept, no final newline.

    Raises ValueError for a NaN or an infinity: those travel as the strings of DESIGN 6.2.
    """
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def hold(path: Path) -> TextIO | None:
    """Take the lock file *path* as long as what is returned is open; None where another has it.

    The kernel frees it if this process dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = path.open("a", encoding="utf-8")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        return None
    return stream


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file *path* alone; the kernel frees it if this process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
