"""All machines of a session, reached, lost and reached again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lmsv.cluster.nodes import nodes
from pytest_lmsv.cluster.team import Team
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.task6_config import MultiNode, NodeConfig
from tests_selftest.cluster.hosts import Hosts
from tests_selftest.launch.awkward import until


def block(hosts: Hosts, lmsv_path: str | None = None) -> MultiNode:
    entries = tuple(
        NodeConfig(host.address, "root", host.port, lmsv_path or host.work) for host in hosts
    )
    return MultiNode(
        enabled=True,
        other_nodes=entries,
        ssh_key=str(hosts.key),
        ssh_known_hosts=str(hosts.known_hosts),
    )


def team(hosts: Hosts, folder: Path, lmsv_path: str | None = None) -> Team:
    given = block(hosts, lmsv_path)
    return Team(nodes(given), given, campaign="c", here={"lmsv": folder})


def test_this_machine_is_the_master_of_the_others(hosts: Hosts, tmp_path: Path) -> None:
    found = team(hosts, tmp_path)
    try:
        master, first, second = found.members
        assert (master.address, master.interface) == (hosts.master, hosts.interface)
        assert (first.address, first.interface) == (hosts[0].address, "eth0")
        assert found.network(second)["HCCL_IF_IP"] == hosts[1].address
        assert found.shared == {}
        assert str(master.bring(tmp_path, "launchers")) == str(tmp_path)
        assert str(first.paths.on_node(tmp_path / "x")) == f"{hosts[0].work}/x"
    finally:
        found.close()
    assert until(lambda: not any(host.processes() for host in hosts))
    assert not any(list(host.outside(host.work).glob("output/*")) for host in hosts)


def test_a_machine_whose_agent_died_is_reached_again(hosts: Hosts, tmp_path: Path) -> None:
    found = team(hosts, tmp_path)
    try:
        for pid in hosts[1].processes():
            os.kill(pid, 9)
        lost = found.members[2]
        with pytest.raises(EnvironmentProblem) as caught:
            until(lambda: lost.agent.ask("ping") and False, 10)
        assert caught.value.category == "lost_node"
        found.revive()
        assert lost.agent.ask("ping")["clock"] > 0
        assert lost.interface == "eth0"
    finally:
        found.close()


def test_a_folder_that_is_not_there_is_told(hosts: Hosts, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="LMSV_PATH /no/where is no folder there"):
        team(hosts, tmp_path, "/no/where")
    assert until(lambda: not any(host.processes() for host in hosts))


@pytest.mark.parametrize("controller", [False, True])
def test_aliases_of_the_ssh_configuration_are_machines(
    hosts: Hosts, tmp_path: Path, controller: bool
) -> None:
    config = tmp_path / "ssh_config"
    config.write_text(
        "".join(
            f"Host box{number}\n HostName {host.address}\n Port {host.port}\n User root\n"
            for number, host in enumerate(hosts)
        )
    )
    entries = tuple(
        NodeConfig(f"box{number}", None, 22, host.work) for number, host in enumerate(hosts)
    )
    given = replace(block(hosts), other_nodes=entries, ssh_config=str(config))
    found = Team(nodes(given, controller=controller), given, campaign="c", here={"lmsv": tmp_path})
    try:
        wanted = [] if controller else [hosts.master]
        assert [m.address for m in found.members] == [*wanted, *(h.address for h in hosts)]
    finally:
        found.close()


def test_where_one_machine_fails_the_others_are_left_clean(hosts: Hosts, tmp_path: Path) -> None:
    given = block(hosts)
    first, second = given.other_nodes
    given = replace(given, other_nodes=(first, replace(second, lmsv_path="/no/where")))
    with pytest.raises(EnvironmentProblem, match="/no/where is no folder there"):
        Team(nodes(given), given, campaign="c", here={"lmsv": tmp_path})
    assert until(lambda: not any(host.processes() for host in hosts))
    assert not list(hosts[0].outside(hosts[0].work).glob("output/*"))
