"""Is the machine that answers the one that is meant? Host keys by known_hosts, never unchecked."""

from __future__ import annotations

import fcntl
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncssh

    from pytest_lmsv.cluster.nodes import Node

SYSTEM = Path("/etc/ssh/ssh_known_hosts")


class HostKeys:
    """What is known of one node's host keys, and what it showed in this connection."""

    def __init__(self, node: Node, configured: Sequence[str]) -> None:
        """*configured*: the known_hosts files that the user's ssh configuration names."""
        self.node = node
        self.files = [node.known_hosts] if node.known_hosts else [Path(f) for f in configured]
        if not self.files:
            self.files = [Path.home() / ".ssh" / "known_hosts", SYSTEM]
        self.known: list[asyncssh.SSHKey] = []
        self.shown: asyncssh.SSHKey | None = None
        self.entry = ""

    def match(self, host: str, address: str, port: int | None) -> Any:
        """The keys that are trusted for *host*, in asyncssh's form for a known_hosts function."""
        import asyncssh

        self.entry = f"[{host}]:{port}" if port not in (None, 22) else host
        files = [str(path) for path in self.files if path.is_file()]
        found = asyncssh.match_known_hosts(asyncssh.read_known_hosts(files), host, address, port)
        self.known = list(dict.fromkeys(found[0]))  # by name and by address
        return found

    def accept(self, key: asyncssh.SSHKey) -> bool:
        """Whether a key that is not trusted may be taken: only a new host's, where that is set."""
        self.shown = key
        if self.known or self.node.host_keys != "accept-new":
            return False
        file = self.files[0].expanduser()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = f"{self.entry} {key.export_public_key().decode().strip()}\n"
        with file.open("a+", encoding="utf-8") as known_hosts:
            fcntl.flock(known_hosts, fcntl.LOCK_EX)
            known_hosts.seek(0)
            text = known_hosts.read()
            if line not in text.splitlines(keepends=True):
                known_hosts.write(line if not text or text.endswith("\n") else f"\n{line}")
        return True

    def refusal(self) -> str:
        """Why the host key was refused and what to do, for a person."""
        shown = fingerprint(self.shown) if self.shown else "a key of another kind"
        file = next((path for path in self.files if path.is_file()), self.files[0])
        if self.known:
            known = ", ".join(fingerprint(key) for key in self.known)
            remove = shlex.join(["ssh-keygen", "-R", self.entry, "-f", str(file)])
            return (
                f"the host key is not the known one: {file} has {known}, it showed {shown}; if the "
                f"machine was installed anew, remove the old key ({remove}) and log in once by "
                "hand; if not, somebody may stand between"
            )
        port = "" if self.node.port == 22 else f"-p {self.node.port} "
        return (
            f"an unknown host: {file} has no key of {self.entry}, it showed {shown}; log in once "
            f"by hand and compare the fingerprint (ssh {port}{self.node.host}), or in a lab give "
            '"SSH_HOST_KEYS": "accept-new"'
        )


def fingerprint(key: asyncssh.SSHKey) -> str:
    return f"{key.get_algorithm()} {key.get_fingerprint()}"
