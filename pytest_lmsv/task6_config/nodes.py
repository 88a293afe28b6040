"""MULTI_NODE of Task6's configuration: the other machines of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pytest_lmsv.task6_config import values
from pytest_lmsv.task6_config.fields import OF_OTHER_TASKS, WITHOUT_MEANING
from pytest_lmsv.task6_config.text import ParsedFile, Place

DEFAULT_MASTER_PORT = 29505
HostKeys = Literal["strict", "accept-new"]
"""``strict``: only keys of known_hosts. ``accept-new`` (labs): an unknown host's key is added."""
Pairs = tuple[tuple[str, str], ...]
"""Paths here and the same places on a node."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One entry of OTHER_NODES; its rank is its position plus 1."""

    host: str
    user: str | None
    """The part before @ where HOST names a user; never part of an address."""
    ssh_port: int
    lmsv_path: str
    pta_name: str = ""
    msa_name: str = ""
    pta_path: str = ""
    msa_path: str = ""
    """Empty where not given; npu needs all four, cpu only what differs from this machine."""
    mindspeed_mm_path: str | None = None
    ssh_key: str | None = None
    ssh_host_keys: HostKeys | None = None
    gloo_socket_ifname: str | None = None
    hccl_socket_ifname: str | None = None
    path_map: Pairs = ()


@dataclass(frozen=True, slots=True)
class MultiNode:
    """The MULTI_NODE object. Without ``enabled`` nothing else of it was read."""

    enabled: bool
    master_addr: str = "127.0.0.1"
    master_port: int = DEFAULT_MASTER_PORT
    gloo_socket_ifname: str | None = None
    hccl_socket_ifname: str | None = None
    other_nodes: tuple[NodeConfig, ...] = ()
    nnodes: int | None = None
    """As written: checked where it is known whether this machine is part of the run."""
    ssh_key: str | None = None
    ssh_host_keys: HostKeys = "strict"
    ssh_known_hosts: str | None = None
    """Instead of the user's and the system's known_hosts."""
    ssh_config: str | None = None
    """Instead of the user's ssh configuration."""
    path_map: Pairs = ()
    """Holds for every node; a node's own pairs win."""


_EVERYWHERE = ("PATH_MAP", "SSH_HOST_KEYS", "SSH_KEY")
_BLOCK_KEYS = (
    "ENABLED",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NNODES",
    "GLOO_SOCKET_IFNAME",
    "HCCL_SOCKET_IFNAME",
    "OTHER_NODES",
    "SSH_KNOWN_HOSTS",
    "SSH_CONFIG",
    *_EVERYWHERE,
)
_REQUIRED = ("HOST", "LMSV_PATH")
_NODE_KEYS = (
    *_REQUIRED,
    "PTA_NAME",
    "MSA_NAME",
    "PTA_PATH",
    "MSA_PATH",
    "MINDSPEED_MM_PATH",
    "SSH_PORT",
    "GLOO_SOCKET_IFNAME",
    "HCCL_SOCKET_IFNAME",
    *_EVERYWHERE,
)


def read_multi_node(file: ParsedFile, place: Place, block: Any, warnings: list[str]) -> MultiNode:
    """The MULTI_NODE object *block* of *file*; appends to *warnings*; raises InputProblem."""
    if not isinstance(block, dict):
        raise file.problem(place, f"MULTI_NODE must be an object, found {block!r}", "write { }")
    reader = _Block(file, place, block)
    if not reader.get("ENABLED", values.truth, False):
        return MultiNode(enabled=False)
    warnings += unknown_keys(file, place, block, _BLOCK_KEYS)
    entries = block.get("OTHER_NODES")
    if not isinstance(entries, list) or not entries:
        raise file.problem(
            (*place, "OTHER_NODES"),
            "MULTI_NODE is ENABLED without OTHER_NODES",
            "list the other machines there, or set ENABLED to false",
        )
    nodes = tuple(
        _node(file, (*place, "OTHER_NODES", position), entry, warnings)
        for position, entry in enumerate(entries)
    )
    return MultiNode(
        enabled=True,
        master_addr=reader.get("MASTER_ADDR", values.text, "127.0.0.1"),
        master_port=reader.get("MASTER_PORT", values.whole(1024, 65535), DEFAULT_MASTER_PORT),
        gloo_socket_ifname=reader.get("GLOO_SOCKET_IFNAME", values.text, None),
        hccl_socket_ifname=reader.get("HCCL_SOCKET_IFNAME", values.text, None),
        other_nodes=nodes,
        nnodes=reader.get("NNODES", values.whole(1), None),
        ssh_key=reader.get("SSH_KEY", values.folder, None),
        ssh_host_keys=reader.get("SSH_HOST_KEYS", host_keys, "strict"),
        ssh_known_hosts=reader.get("SSH_KNOWN_HOSTS", values.folder, None),
        ssh_config=reader.get("SSH_CONFIG", values.folder, None),
        path_map=reader.get("PATH_MAP", pairs, ()),
    )


def host_keys(value: Any) -> HostKeys:
    """How host keys are checked."""
    if value == "strict":
        return "strict"
    if value == "accept-new":
        return "accept-new"
    raise ValueError("strict or accept-new (an unknown host key is added, a changed one refused)")


def pairs(value: Any) -> Pairs:
    """Paths here and on the nodes, as an object or a list of pairs."""
    listed = list(value.items()) if isinstance(value, dict) else value
    try:
        found = tuple((values.folder(local), values.text(remote)) for local, remote in listed)
    except (TypeError, ValueError):
        found = (("", ""),)
    if not all(local.startswith("/") and remote.startswith("/") for local, remote in found):
        raise ValueError('pairs of absolute paths, as { "/here/data": "/there/data" }')
    return found


def unknown_keys(file: ParsedFile, place: Place, block: Any, known: tuple[str, ...]) -> list[str]:
    """One warning for each key of *block* without meaning here; it gives the nearest known name."""
    warnings = []
    for key in block:
        if key in known or key in OF_OTHER_TASKS:
            continue
        line = file.lines.get((*place, key), 1)
        if key in WITHOUT_MEANING:
            told = f"{key} has no meaning any more: {WITHOUT_MEANING[key]}"
        else:
            near = values.nearest(key, known)
            told = f"unknown key {key!r} is ignored" + (f"; did you mean {near}?" if near else "")
        warnings.append(f"{file.path}:{line}: {told}")
    return warnings


class _Block:
    """One JSON object whose values are read with their place in the file."""

    def __init__(self, file: ParsedFile, place: Place, block: dict[str, Any]) -> None:
        self.file, self.place, self.block = file, place, block

    def get(self, key: str, understand: values.Understand, default: Any) -> Any:
        value = self.block.get(key)
        if value is None or value == "":
            return default
        try:
            return understand(value)
        except ValueError as expected:
            raise self.file.problem(
                (*self.place, key),
                f"{key} must be {expected}, found {value!r}",
                "correct the value",
            ) from None


def _node(file: ParsedFile, place: Place, entry: Any, warnings: list[str]) -> NodeConfig:
    name = f"OTHER_NODES[{place[-1]}]"
    if not isinstance(entry, dict):
        raise file.problem(place, f"{name} must be an object, found {entry!r}", "write { }")
    reader = _Block(file, place, entry)
    missing = [key for key in _REQUIRED if not reader.get(key, values.text, None)]
    if missing:
        raise file.problem(place, f"{name} has no {', '.join(missing)}", "add what is missing")
    warnings += unknown_keys(file, place, entry, _NODE_KEYS)
    user, _, host = reader.get("HOST", values.text, "").rpartition("@")
    if not host or host.startswith("-"):
        raise file.problem(
            (*place, "HOST"), f"HOST of {name} is no host: {entry['HOST']!r}", "name the machine"
        )
    return NodeConfig(
        host=host,
        user=user or None,
        ssh_port=reader.get("SSH_PORT", values.whole(1, 65535), 22),
        lmsv_path=reader.get("LMSV_PATH", values.text, ""),
        pta_name=reader.get("PTA_NAME", values.text, ""),
        msa_name=reader.get("MSA_NAME", values.text, ""),
        pta_path=reader.get("PTA_PATH", values.text, ""),
        msa_path=reader.get("MSA_PATH", values.text, ""),
        mindspeed_mm_path=reader.get("MINDSPEED_MM_PATH", values.text, None),
        ssh_key=reader.get("SSH_KEY", values.folder, None),
        ssh_host_keys=reader.get("SSH_HOST_KEYS", host_keys, None),
        gloo_socket_ifname=reader.get("GLOO_SOCKET_IFNAME", values.text, None),
        hccl_socket_ifname=reader.get("HCCL_SOCKET_IFNAME", values.text, None),
        path_map=reader.get("PATH_MAP", pairs, ()),
    )
