"""All machines of a session, reached: an agent and a folder of this campaign's own on each.

A machine's folder is ``LMSV_PATH/output/CAMPAIGN-TOKEN/NAME``: new for each session, and another
one for each machine, so that machines that share a file system neither read nor clear what is
another's, and no cached attribute can show an old file for a new one.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pytest_lmsv.cluster import agents, transfer
from pytest_lmsv.cluster.agents import Agent
from pytest_lmsv.cluster.nodes import Node, address_of
from pytest_lmsv.cluster.paths import PathMap, path_map
from pytest_lmsv.cluster.sftp import Files
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.cluster.transfer import Machine
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.task6_config import MultiNode

T = TypeVar("T")
R = TypeVar("R")
PROBE = "probe"


@dataclass
class Member:
    """One machine of the team. Paths are as that machine has them."""

    node: Node
    paths: PathMap
    machine: Machine
    ssh: Connection | None
    """None: this machine."""
    work: PurePosixPath | None
    """This session's folder there; None here, where the campaign's own folders serve."""
    address: str
    """By which the other machines reach it."""
    interface: str | None
    """The network interface that leads to them."""
    devices: tuple[int, ...] = ()
    """NPUs that are leased there."""
    sent: dict[Path, PurePosixPath] = field(default_factory=dict)
    """Folders of here that were brought there."""

    @property
    def agent(self) -> Agent:
        """Answers questions about it."""
        return self.machine.agent

    def bring(self, folder: Path, name: str) -> PurePosixPath:
        """*folder* of here as it lies there, brought and checked once a session."""
        if self.work is None:
            return PurePosixPath(folder)
        if folder not in self.sent:
            assert self.node.config is not None
            home = PurePosixPath(self.node.config.lmsv_path) / ".lmsv"
            self.sent[folder] = transfer.push_tree(self.machine, folder, home, name)
        return self.sent[folder]


def mapping(node: Node, block: MultiNode, here: Mapping[str, Path | None]) -> PathMap:
    """The path mapping of *node*; *here*: lmsv, mindspeed_mm, pta and msa roots of this machine."""
    config = node.config
    if config is None:
        return PathMap()
    there = {
        "lmsv": config.lmsv_path,
        "mindspeed_mm": config.mindspeed_mm_path or config.pta_path,
        "pta": config.pta_path,
        "msa": config.msa_path,
    }
    roots = [(str(path), there[name]) for name, path in here.items() if path and there[name]]
    return path_map(roots, (*config.path_map, *block.path_map))


class Team:
    """The machines of one session, in the order of their ranks."""

    def __init__(
        self,
        nodes: Sequence[Node],
        block: MultiNode,
        *,
        campaign: str,
        here: Mapping[str, Path | None],
    ) -> None:
        """Reach all *nodes*; EnvironmentProblem names the first that can't be, and the remedy."""
        self.block = block
        self.token = secrets.token_hex(4)
        self._folder = f"{campaign}-{self.token}"
        self._nodes, self._here = tuple(nodes), dict(here)
        self.members: tuple[Member, ...] = ()
        self._lock = threading.Lock()
        try:
            # Each is a member as soon as it is reached: where another fails, close() lets it go.
            reached = self._parallel(self._join, self._nodes)
            self.members = tuple(reached)
            self._find_routes()
            self.shared = self._find_shared()
        except BaseException:
            self.close()
            raise

    @property
    def master(self) -> Member:
        """The machine of rank 0."""
        return self.members[0]

    def on_each(self, work: Callable[[Member], T]) -> list[T]:
        """The results of *work* on all members at once; raises the first one's problem."""
        return self._parallel(work, self.members)

    def revive(self) -> None:
        """Reach again what was lost since the last run; EnvironmentProblem where that fails."""
        for member in self.members:
            if not member.agent.is_alive:
                fresh = self._reach(member.node)
                member.machine, member.ssh = fresh.machine, fresh.ssh
                member.sent.clear()

    def port(self) -> int:
        """A TCP port that is free on the master now; to be used at once."""
        found = self.master.agent.ask("ports", count=1, address=self.master.address)
        return int(found["ports"][0])

    def network(self, member: Member) -> dict[str, str]:
        """What HCCL and gloo are told on *member* (DESIGN 6.3)."""
        config, block = member.node.config, self.block
        gloo = (config and config.gloo_socket_ifname) or block.gloo_socket_ifname
        hccl = (config and config.hccl_socket_ifname) or block.hccl_socket_ifname
        found = {
            "GLOO_SOCKET_IFNAME": gloo or hccl or member.interface,
            "HCCL_SOCKET_IFNAME": hccl or gloo or member.interface,
            "HCCL_IF_IP": member.address,
            "HCCL_CONNECT_TIMEOUT": "1200",
            "ENABLE_OVERLAP": "",
        }
        return {name: value for name, value in found.items() if value is not None}

    def close(self) -> None:
        """Remove this session's folders where they are empty of kept things, and let go."""
        for member in self.members:
            try:
                if member.work is not None and member.agent.is_alive:
                    member.agent.ask("tidy", folder=str(member.work.parent), timeout=20.0)
                member.agent.close()
                if member.ssh is not None:
                    member.ssh.close()
            except (EnvironmentProblem, OSError):
                continue  # lost: its agent ends by itself

    def _join(self, node: Node) -> Member:
        member = self._reach(node)
        with self._lock:
            self.members = (*self.members, member)
        return member

    def _reach(self, node: Node) -> Member:
        paths = mapping(node, self.block, self._here)
        if node.is_here:
            agent = Agent(node.name, agents.here())
            return Member(node, paths, Machine(node, agent, None), None, None, node.address, None)
        assert node.config is not None
        connection = Connection(node)
        connection.check()
        agent = Agent(node.name, connection.open(agents.command()))
        root = PurePosixPath(node.config.lmsv_path)
        if agent.ask("look", paths=[str(root)])["kinds"][str(root)] != "folder":
            agent.close()
            raise EnvironmentProblem(
                f"{node.name}: LMSV_PATH {root} is no folder there; make it, or correct LMSV_PATH",
                "file_missing",
            )
        work = root / "output" / self._folder / node.name
        agent.ask("make", folder=str(work))  # it may be back after it was lost
        machine = Machine(node, agent, Files(connection))
        return Member(node, paths, machine, connection, work, address_of(node), None)

    def _find_routes(self) -> None:
        """The interface and address of each machine on the way to the master."""
        others = self.members[1:]
        if others:
            found = self.master.agent.ask("route", to=others[0].address)
            self.master.interface = found["interface"]
            self.master.address = self.master.address or str(found["address"])
        for member in others:
            found = member.agent.ask("route", to=self.master.address)
            member.interface = found["interface"]
            member.address = str(found["address"])

    def _find_shared(self) -> dict[str, tuple[str, ...]]:
        """Name of a machine -> the others whose folder it sees, by a token in a file."""
        tokens = {}
        for member in self.members:
            if member.work is not None:
                tokens[member.node.name] = secrets.token_hex(16)
                path = str(member.work / PROBE)
                member.agent.ask("write", path=path, text=tokens[member.node.name])
        shared = {}
        for member in self.members:
            config = member.node.config
            here = self._here.get("lmsv")
            root = PurePosixPath(config.lmsv_path) if config else PurePosixPath(here or "/")
            places = {
                name: str(root / "output" / self._folder / name / PROBE)
                for name in tokens
                if name != member.node.name
            }
            texts = member.agent.ask("look", read=list(places.values()))["texts"]
            seen = tuple(name for name, path in places.items() if texts[path] == tokens[name])
            if seen:
                shared[member.node.name] = seen
        return shared

    def _parallel(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        with ThreadPoolExecutor(max_workers=16, thread_name_prefix="lmsv-node") as pool:
            futures = [pool.submit(work, item) for item in items]
        return [future.result() for future in futures]
