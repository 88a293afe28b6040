"""Files to a machine and back: digests checked there, names of there never trusted here.

SFTP for small things; rsync for much, where both sides have it. What comes back goes into a folder
that is new, keeps neither links nor times (a machine's clock may be wrong), and no name leaves it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from pytest_lmsv.cluster.agent import sha256
from pytest_lmsv.cluster.agents import Agent
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.openssh import client_command
from pytest_lmsv.problems import EnvironmentProblem

RSYNC_FROM_MB = 16.0
"""From so much on rsync is faster than SFTP over the connection that is open already."""
RSYNC_LIMIT_S = 1800.0
NOT_SENT = ("__pycache__", ".git")


class Connection(Protocol):
    """What carries files to and from a machine; both raise EnvironmentProblem."""

    def put(self, local: Path, remote: str) -> None:
        """Copy the file *local* to *remote*, whose folder is there."""

    def get(self, remote: str, local: Path) -> None:
        """Copy the file *remote* to *local*, whose folder is there."""


@dataclass(frozen=True)
class Machine:
    """One machine of a campaign, reached."""

    node: Node
    agent: Agent
    connection: Connection | None
    """None: this machine."""


def digests_of(folder: Path) -> dict[str, str]:
    """Relative path and SHA-256 of every file in *folder* that a machine needs."""
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not set(relative.parts) & set(NOT_SENT):
            found[str(relative)] = sha256(path)
    return found


def tree_digest(digests: Mapping[str, str]) -> str:
    """One digest for a whole folder."""
    text = "".join(f"{name}\0{digest}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def push_files(machine: Machine, files: Mapping[str, Path], folder: PurePosixPath) -> None:
    """Copy *files* (name there, file here) into *folder* of *machine*; their digests are checked.

    EnvironmentProblem where a file arrived different.
    """
    connection = machine.connection
    assert connection is not None
    for parent in sorted({str((folder / name).parent) for name in files}):
        machine.agent.ask("make", folder=parent)
    for name, path in files.items():
        connection.put(path, str(folder / name))
    _check(machine, folder, {name: sha256(path) for name, path in files.items()})


def push_tree(machine: Machine, local: Path, home: PurePosixPath, name: str) -> PurePosixPath:
    """*local* on *machine*, in ``home/name-DIGEST``: copied once, and checked each time.

    Machines that share *home* find what another one brought.
    """
    wanted = digests_of(local)
    target = home / f"{name}-{tree_digest(wanted)[:16]}"
    if not machine.agent.ask("inventory", folder=str(target))["there"]:
        part = home / f".{target.name}.{secrets.token_hex(4)}"
        push_files(machine, {name: local / name for name in wanted}, part)
        machine.agent.ask("rename", source=str(part), target=str(target))
    _check(machine, target, wanted)
    return target


def _check(machine: Machine, folder: PurePosixPath, wanted: Mapping[str, str]) -> None:
    found = machine.agent.ask(
        "inventory", folder=str(folder), digests=True, without=NOT_SENT, timeout=600.0
    )["files"]
    for name, digest in wanted.items():
        there = found.get(name, [0, None])[1]
        if there != digest:
            told = "is missing" if there is None else "differs"
            raise EnvironmentProblem(
                f"{machine.node.name}: {folder / name} {told} after it was sent; remove {folder} "
                "there and look at its disk",
                "file_missing",
            )
    further = sorted(set(found) - set(wanted))
    if further:
        raise EnvironmentProblem(
            f"{machine.node.name}: {folder} holds {further[0]}, which is not ours; remove it there",
            "file_missing",
        )


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came back."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]
    """Links, names that are not safe, files that vanished meanwhile: one phrase each."""


def pull_tree(
    machine: Machine, remote: PurePosixPath, local: Path, only: Sequence[str] = ()
) -> Pulled:
    """Copy the regular files below *remote* of *machine* into the new folder *local*.

    *only*: files and folders (relative) to copy; none: all.

    EnvironmentProblem where the machine is lost meanwhile.
    """
    connection = machine.connection
    assert connection is not None
    listed = machine.agent.ask("inventory", folder=str(remote), timeout=600.0)
    left_out = [
        f"{machine.node.name}: {name!r} is no regular file"
        for name in listed["links"]
        if _wanted(name, only)
    ]
    sizes: dict[str, int] = {}
    for name, (size, _) in listed["files"].items():
        if not _wanted(name, only):
            continue
        if is_safe(name):
            sizes[name] = int(size)
        else:
            left_out.append(f"{machine.node.name}: {name!r} is no safe name")
    local.mkdir(parents=True)
    for parent in sorted({(local / name).parent for name in sizes}):
        parent.mkdir(parents=True, exist_ok=True)
    files = list(sizes)
    if sum(sizes.values()) >= RSYNC_FROM_MB * 1024 * 1024 and _can_rsync(machine):
        _rsync(machine.node, remote, local, files)
        files = [name for name in files if not (local / name).is_file()]
    for name in files:
        try:
            connection.get(str(remote / name), local / name)
        except EnvironmentProblem as problem:
            if problem.category == "lost_node":
                raise
            left_out.append(f"{machine.node.name}: {name}: {problem}")
    return Pulled(tuple(_regular(local)), tuple(left_out))


def _wanted(name: str, only: Sequence[str]) -> bool:
    return not only or any(name == item or name.startswith(f"{item}/") for item in only)


def is_safe(name: str) -> bool:
    """Whether a relative path that a machine told may become a path here."""
    parts = name.split("/")
    return (
        bool(name)
        and not any(part in ("", ".", "..") or len(os.fsencode(part)) > 255 for part in parts)
        and name.isprintable()
        and len(os.fsencode(name)) < 3000
    )


def _regular(folder: Path) -> Iterable[Path]:
    """The files that came; what is neither a file nor a folder is removed, whoever made it."""
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                path.unlink()
            elif path.is_file():
                yield path


def _can_rsync(machine: Machine) -> bool:
    programs = shutil.which("rsync") and shutil.which("ssh")
    return bool(programs) and bool(machine.agent.facts["rsync"])


def _rsync(node: Node, remote: PurePosixPath, local: Path, names: Iterable[str]) -> bool:
    """Fetch *names* by rsync; False where it failed, and SFTP fetches what is missing."""
    try:
        done = subprocess.run(
            rsync_command(node, remote, local),
            input=b"".join(os.fsencode(name) + b"\0" for name in names),
            capture_output=True,
            timeout=RSYNC_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def rsync_command(node: Node, remote: PurePosixPath, local: Path) -> list[str]:
    """The rsync call that fetches files named on stdin: no links, no times, strict host keys."""
    words = ["rsync", "-s", "--files-from=-", "--from0", "--no-links", "--no-devices"]
    words += ["--no-specials", "--no-perms", "--no-times", "--no-implied-dirs", "-e"]
    host = f"[{node.host}]" if ":" in (node.host or "") else node.host
    return [*words, shlex.join(client_command(node)), "--", f"{host}:{remote}/", f"{local}/"]
