"""The machines of a run, in the order of their ranks."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Device
from pytest_lmsv.task6_config import MultiNode, NodeConfig
from pytest_lmsv.task6_config.nodes import HostKeys

UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Node:
    """One machine of a run, and how it is reached. Rank 0 is the master."""

    name: str
    """For messages, and for file names: letters, digits, ``.``, ``_`` and ``-``; no two alike."""
    rank: int
    host: str | None
    """None: this machine, without ssh."""
    address: str
    """What the other machines call it, without a user; ``""`` where the route will tell."""
    user: str | None = None
    port: int = 22
    keys: tuple[Path, ...] = ()
    """Private keys to try; none: the user's own and the agent's."""
    host_keys: HostKeys = "strict"
    known_hosts: Path | None = None
    """None: the user's and the system's."""
    ssh_config: Path | None = None
    """None: the user's."""
    config: NodeConfig | None = None
    """Its entry of OTHER_NODES; None for this machine."""

    @property
    def is_here(self) -> bool:
        """Whether it is this machine."""
        return self.host is None


def address_of(node: Node) -> str:
    """What the others call *node*: HostName of the ssh configuration where HOST is an alias."""
    import asyncssh

    if node.host is None or node.address != node.host:
        return node.address
    given = {"config": [str(node.ssh_config.expanduser())]} if node.ssh_config else {}
    return str(asyncssh.SSHClientConnectionOptions(host=node.host, **given).host)


def nodes(
    block: MultiNode, *, controller: bool = False, device: Device = "cpu"
) -> tuple[Node, ...]:
    """The machines of a run by MULTI_NODE; a *controller* steers and is no part of the run.

    Raises InputProblem where NNODES says otherwise, or an entry lacks what *device* needs.
    """
    entries = list(block.other_nodes)
    total = len(entries) + (not controller)
    if block.nnodes not in (None, total):
        who = "OTHER_NODES makes" if controller else "OTHER_NODES and this machine make"
        raise InputProblem(
            f"MULTI_NODE: NNODES is {block.nnodes}, but {who} {total}; correct it or leave it out"
        )
    if device == "npu":
        for position, entry in enumerate(entries):
            needed = ("pta_name", "msa_name", "pta_path", "msa_path")
            missing = [name.upper() for name in needed if not getattr(entry, name)]
            if missing:
                raise InputProblem(
                    f"MULTI_NODE: OTHER_NODES[{position}] ({entry.host}) has no "
                    f"{', '.join(missing)}; npu needs them"
                )
    named = "" if block.master_addr in ("", "localhost") else block.master_addr
    named = "" if named.startswith("127.") else named
    found = []
    if not controller:
        found.append(Node(_name(socket.gethostname()), 0, None, named))
    for entry in entries:
        first = not found
        found.append(
            Node(
                name=_name(entry.host),
                rank=len(found),
                host=entry.host,
                address=(named if first else "") or entry.host,
                user=entry.user,
                port=entry.ssh_port,
                keys=_paths(entry.ssh_key or block.ssh_key),
                host_keys=entry.ssh_host_keys or block.ssh_host_keys,
                known_hosts=_path(block.ssh_known_hosts),
                ssh_config=_path(block.ssh_config),
                config=entry,
            )
        )
    return _distinct(found)


def _distinct(found: list[Node]) -> tuple[Node, ...]:
    """*found* with names that differ: containers of one machine have one host, several ports."""
    seen: set[str] = set()
    distinct = []
    for node in found:
        name = node.name
        if name.lower() in seen:
            name = f"{node.name}-{node.port if node.host else node.rank}"
        if name.lower() in seen:
            raise InputProblem(
                f"MULTI_NODE: {node.host} (SSH_PORT {node.port}) is listed twice; each machine once"
            )
        seen.add(name.lower())
        distinct.append(replace(node, name=name))
    return tuple(distinct)


def _name(host: str) -> str:
    return UNSAFE.sub("-", host).strip("-.") or "node"


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _paths(text: str | None) -> tuple[Path, ...]:
    return (Path(text),) if text else ()
