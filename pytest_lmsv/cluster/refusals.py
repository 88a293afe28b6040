"""Why a node could not be reached: one line that says what was found and what to do."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

from pytest_lmsv.problems import EnvironmentProblem

if TYPE_CHECKING:
    from pytest_lmsv.cluster.host_keys import HostKeys
    from pytest_lmsv.cluster.nodes import Node


def problem(
    node: Node, error: BaseException, host_keys: HostKeys | None, limit: float
) -> EnvironmentProblem:
    """What a connection that was not made amounts to; *limit* is the one of connecting (s).

    Category ``lost_node`` where another try may help: nobody answered, or the line was cut.
    """
    import asyncssh

    place = f"{node.host}:{node.port}"
    user = f"{node.user}@" if node.user else ""
    category = None
    if isinstance(error, socket.gaierror):
        what = (
            f"the name {node.host} is not resolved; correct HOST in OTHER_NODES, or add the "
            "machine to /etc/hosts"
        )
    elif isinstance(error, asyncssh.HostKeyNotVerifiable) or (
        isinstance(error, asyncssh.KeyExchangeFailed)
        and host_keys is not None
        and host_keys.known
        and "host key" in str(error)
    ):
        shown = host_keys is not None and (host_keys.entry or host_keys.shown)
        what = host_keys.refusal() if shown and host_keys is not None else f"a jump host: {error}"
    elif isinstance(error, asyncssh.PermissionDenied):
        port = "" if node.port == 22 else f"-p {node.port} "
        what = (
            "none of your keys is accepted; put the public one there: "
            f"ssh-copy-id {port}{user}{node.host} (or name the key: SSH_KEY, or add it to the "
            "agent)"
        )
    elif isinstance(error, ConnectionRefusedError):
        what = (
            f"nothing listens on port {node.port}; start sshd there, or correct SSH_PORT in "
            "OTHER_NODES"
        )
    elif isinstance(error, (TimeoutError, asyncio.TimeoutError)) or (
        isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH)
    ):
        category = "lost_node"
        why = getattr(error, "strerror", None) or f"nothing within {limit:.0f} s"
        what = f"no answer ({why}); is the machine on, the address right, the firewall open?"
    elif (
        isinstance(error, (asyncssh.ConfigParseError, asyncssh.KeyImportError))
        or getattr(error, "filename", None) is not None
    ):
        what = f"your ssh configuration or key can't be read: {error}"
    elif isinstance(error, (asyncssh.DisconnectError, OSError)):
        category = "lost_node"
        what = f"the connection broke: {error or type(error).__name__}"
    else:
        what = f"{type(error).__name__}: {error}"
    return EnvironmentProblem(f"node {node.name} ({user}{place}): {what}", category)


def lost(node: Node, while_doing: str) -> EnvironmentProblem:
    """The connection ended in the middle of something."""
    return EnvironmentProblem(
        f"node {node.name} ({node.host}:{node.port}): the connection was lost {while_doing}; "
        "look at the machine and its network",
        "lost_node",
    )


def broken() -> tuple[type[BaseException], ...]:
    """All that a connection or what runs over it raises where it fails."""
    import asyncssh

    return (
        OSError,
        ValueError,
        asyncio.TimeoutError,
        asyncssh.Error,
        asyncssh.ConfigParseError,
        asyncssh.KeyImportError,
    )
