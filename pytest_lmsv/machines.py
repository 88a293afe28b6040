"""The machines of a session: which they are, how they are reached, and what a worker may use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_lmsv import session
from pytest_lmsv.campaign.company import Company
from pytest_lmsv.cluster import nodes
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.cluster.team import Team
from pytest_lmsv.launch import devices, npus
from pytest_lmsv.problems import InputProblem

NODES = pytest.StashKey[tuple[Node, ...]]()


def nodes_of(config: pytest.Config) -> tuple[Node, ...]:
    """Return the machines of a run over several, the master first; none for this one alone."""
    if NODES not in config.stash:
        settings = session.settings_of(config)
        block = config.stash.get(session.MULTI_NODE, None)
        if block is None and settings.controller:
            raise InputProblem(
                "--lmsv-controller: found no enabled MULTI_NODE; name a file that has one with "
                "--lmsv-config"
            )
        config.stash[NODES] = (
            ()
            if block is None
            else nodes.nodes(block, controller=settings.controller, device=settings.device)
        )
    return config.stash[NODES]


def company_of(config: pytest.Config) -> Company | None:
    """Reach the machines of a run over several; raises EnvironmentProblem for the first lost."""
    found = nodes_of(config)
    if not found:
        return None
    settings = session.settings_of(config)
    team = Team(
        found,
        config.stash[session.MULTI_NODE],
        campaign=session.campaign_of(config).folder.name,
        here=settings.roots,
    )
    for name, others in team.shared.items():
        session.say(config)(
            f"lmsv: {name} shares its folder with {', '.join(others)}: each writes to its own part"
        )
    size = 0
    if settings.device == "npu":
        size = max(spec.layouts["npu"].devices for spec in session.models_of(config).values())
    company = Company(team, size)
    try:
        company.lease(session.say(config))
    except BaseException:
        company.close()
        raise
    return company


def check(config: pytest.Config) -> None:
    """Connect to every machine and let go again; raises EnvironmentProblem for the first lost."""
    connections = [Connection(node) for node in nodes_of(config) if not node.is_here]
    try:
        with ThreadPoolExecutor(max_workers=16) as pool:
            list(pool.map(Connection.check, connections))
    finally:
        for connection in connections:
            connection.close()


def workers(config: pytest.Config) -> int:
    """Return how many workers ``-n auto`` is: as many as there are device sets.

    On cpu half the cores, since msrun keeps one busy.
    """
    if nodes_of(config):
        return 1
    if session.settings_of(config).device == "npu" and session.analyzed_campaign(config) is None:
        return len(device_sets(config))
    return devices.slots("auto", devices.cores())


def device_sets(config: pytest.Config) -> list[tuple[int, ...]]:
    """Return the sets that workers lease: on cpu a slot for each core, on npu groups of NPUs."""
    if session.settings_of(config).device == "cpu" or session.settings_of(config).controller:
        return devices.cpu_sets(devices.cores())
    size = max(spec.layouts["npu"].devices for spec in session.models_of(config).values())
    return devices.npu_sets(npus.visible(), size)
