"""The system's own ssh client, which rsync works through."""

from __future__ import annotations

from pathlib import Path

from pytest_lmsv.cluster.nodes import Node

CONNECT_S, KEEPALIVE_S, KEEPALIVES = 15, 5, 3
"""A connection is given up after so many keepalives in a row, so far apart, without an answer."""
IDENTITIES = ("id_ed25519", "id_ecdsa", "id_rsa")


def client_command(node: Node) -> list[str]:
    """The system's own ssh for *node* (rsync's ``-e``), without the host: it asks nothing.

    With the same keys, known_hosts and configuration that :class:`Connection` goes by, also where
    HOME is not what the password file says (OpenSSH heeds only that).
    """
    home = Path.home() / ".ssh"
    config = node.ssh_config or home / "config"
    words = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
    words += ["-o", f"ServerAliveInterval={KEEPALIVE_S}", "-o", f"ServerAliveCountMax={KEEPALIVES}"]
    words += ["-o", "StrictHostKeyChecking=yes"]  # the connection has added a new host's key before
    if config.is_file():
        words += ["-F", str(config)]
    known = node.known_hosts or home / "known_hosts"
    if node.known_hosts or known.is_file():
        words += ["-o", f"UserKnownHostsFile={_option(known)}"]
    for key in node.keys or [home / name for name in IDENTITIES if (home / name).is_file()]:
        words += ["-i", str(key.expanduser())]
    if node.port != 22:
        words += ["-p", str(node.port)]
    if node.user:
        words += ["-l", node.user]
    return words


def _option(path: Path) -> str:
    """A path as the value of an ssh option, where blanks separate and % is special."""
    return '"' + str(path.expanduser()).replace("%", "%%") + '"'
