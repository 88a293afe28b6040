"""The doctor on the other machines of a campaign, over the connection that a campaign uses.

What only the machine itself can tell (its packages, CANN, NPUs) it tells by its own copy of this
project, where LMSV_PATH holds one; everything else is asked of an agent, which needs only Python.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from pytest_lmsv import data
from pytest_lmsv.cluster import agents, nodes, transfer
from pytest_lmsv.cluster.agents import Agent
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.cluster.team import Team, mapping
from pytest_lmsv.doctor.rows import Row, fail, from_json, ok, warn
from pytest_lmsv.doctor.site import Site
from pytest_lmsv.launch import ascend
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from pytest_lmsv.task6_config import NodeConfig

LIMIT_S = 180.0
GB = 1024**3
CLOCK_S = 60.0
LEAST_GB = 1.0
COMPARED = ("CANN", "driver", "MindSpeed-MM", "MindSpeed-MM commit", "python")
STACKS = ("pta ", "msa ")


def checks(site: Site, here: Sequence[Row] = ()) -> Iterator[Row]:
    """The rows of every other machine, each under its name; *here*: this machine's, to compare."""
    if site.nodes is None:
        return
    try:
        machines = nodes.nodes(site.nodes, controller=site.controller, device=site.device)
    except InputProblem as problem:
        yield fail("MULTI_NODE", str(problem), "correct the configuration")
        return
    reached = True
    rows = {row.check: row.found for row in here}
    rows.setdefault("MindSpeed-MM commit", _commit_here(site.mindspeed_mm) or "")
    for node in machines:
        if node.is_here:
            continue
        found = list(_node(site, node))
        reached &= not any(
            row.check in ("ssh", "LMSV_PATH") and row.state == "FAIL" for row in found
        )
        yield from (_named(node, row) for row in found)
        if not site.controller:
            yield from (_named(node, row) for row in differences(rows, found))
        else:  # the first machine is what the others are compared with
            rows = rows if rows.get("ssh") else {row.check: row.found for row in found}
            yield from (_named(node, row) for row in differences(rows, found))
    if reached:
        yield from _together(site, machines)


def differences(rows: dict[str, str], found: Sequence[Row]) -> Iterator[Row]:
    """What is not the same as on the first machine: versions, and MindSpeed-MM's commit."""
    for row in found:
        is_version = row.check in COMPARED or row.check.startswith(STACKS)
        if not is_version or "environment" in row.check:
            continue
        first = rows.get(row.check)
        if first and first != row.found:
            yield warn(
                f"same {row.check}", f"{row.found}, first machine: {first}", "make them equal"
            )


def _node(site: Site, node: Node) -> Iterator[Row]:
    config = node.config
    assert config is not None
    connection = Connection(node)
    try:
        connection.check()
        agent = Agent(node.name, connection.open(agents.command()))
    except EnvironmentProblem as problem:
        what, _, remedy = str(problem).partition("; ")
        yield fail("ssh", what, remedy or "try it by hand with ssh")
        connection.close()
        return
    try:
        yield ok("ssh", "answers, its host key is known")
        for look in (_agent_rows, _paths, _launchers):
            yield from look(site, node, agent)
        yield from _commit(site, config, connection)
        yield from _own_doctor(site, config, connection)
    except EnvironmentProblem as problem:
        yield fail("agent", str(problem), "look at the machine")
    finally:
        agent.close()
        connection.close()


def _agent_rows(site: Site, node: Node, agent: Agent) -> Iterator[Row]:
    """What the agent's greeting tells, room, and the machine's own name."""
    facts = agent.facts
    yield ok("agent python", f"{facts['python']} (3.6 or newer is needed)")
    if not facts["rsync"]:
        yield warn("rsync", "missing; SFTP is used, slower for large logs", "install rsync")
    off = float(agent.ask("ping")["clock"]) - time.time()
    if abs(off) > CLOCK_S:
        yield warn("clock", f"{off:+.0f} s from this machine's", "set it by NTP")
    else:
        yield ok("clock", f"{off:+.1f} s from this machine's")
    assert node.config is not None
    room = agent.ask("space", path=node.config.lmsv_path)
    told = f"{room['free'] / GB:.1f} GB free in {room['place']}"
    yield ok("disk", told) if room["free"] > LEAST_GB * GB else fail("disk", told, "free some")
    shm = agent.ask("space", path="/dev/shm")
    told = f"{shm['free'] / GB:.1f} of {shm['total'] / GB:.1f} GB free"
    least = (8.0 if site.device == "npu" else 0.25) * GB
    yield (
        ok("/dev/shm", told)
        if shm["free"] >= least
        else warn("/dev/shm", told, "remove what your own ended runs left there")
    )
    try:
        agent.ask("route", to=facts["hostname"])
    except EnvironmentProblem:
        yield warn(
            "own name", f"{facts['hostname']} is not resolved there", "add it to its /etc/hosts"
        )
    if site.device == "npu":
        base = site.hccl_base_port
        held = agent.ask("held", base=base, count=16)["held"]
        if held:
            yield fail("HCCL ports", f"{held[0]} is in use", "end what uses it")
        else:
            yield ok("HCCL ports", f"{base}-{base + 15} are free")


def _paths(site: Site, node: Node, agent: Agent) -> Iterator[Row]:
    """How paths of here are mapped, and whether they are there."""
    assert site.nodes is not None
    config = node.config
    assert config is not None
    paths = [config.lmsv_path]
    if site.device == "npu":
        paths += [config.pta_path, config.msa_path]
    mapped = mapping(node, site.nodes, site.roots)
    given = (site.dataset_root, site.load_path)
    paths += [str(mapped.on_node(path)) for path in given if path is not None]
    kinds = agent.ask("look", paths=paths)["kinds"]
    for path in dict.fromkeys(paths):
        check = "LMSV_PATH" if path == config.lmsv_path else "path"
        if kinds[path] is None:
            yield fail(
                check, f"{path} is not there", "make it, or correct the node's paths or PATH_MAP"
            )
        else:
            yield ok(check, path)
    rules = "; ".join(map(str, mapped.rules)) or "none: paths are the same as here"
    yield ok("mapped paths", rules)


def _launchers(site: Site, node: Node, agent: Agent) -> Iterator[Row]:
    """The launchers that a campaign brings there are ours; an own copy that differs is not used."""
    assert node.config is not None
    ours = transfer.digests_of(data.launchers())
    digest = transfer.tree_digest(ours)[:16]
    own = PurePosixPath(node.config.lmsv_path) / "launchers"
    found = agent.ask("inventory", folder=str(own), digests=True, without=transfer.NOT_SENT)
    theirs = {name: entry[1] for name, entry in found["files"].items()}
    if found["there"] and transfer.tree_digest(theirs)[:16] != digest:
        yield warn(
            "launchers",
            f"{own} differs from ours ({digest}); a campaign brings its own",
            "bring the project there up to date, to run launchers by hand",
        )
    else:
        yield ok("launchers", f"digest {digest}" + ("" if found["there"] else ", brought at a run"))


def _commit(site: Site, config: NodeConfig, connection: Connection) -> Iterator[Row]:
    if site.device != "npu":
        return
    for code in _codes(config):
        done = connection.run(["git", "-C", code, "rev-parse", "HEAD"], timeout=30.0)
        if done.exit_status == 0:
            yield ok("MindSpeed-MM commit", done.stdout.decode().strip())
            return
    yield warn("MindSpeed-MM commit", "unknown", "keep MindSpeed-MM there as a git clone")


def _codes(config: NodeConfig) -> list[str]:
    named = config.mindspeed_mm_path or config.pta_path
    return [str(PurePosixPath(named) / "MindSpeed-MM"), named]


def _commit_here(code: Path | None) -> str | None:
    folder = ascend.mindspeed_mm(code) if code is not None else None
    if folder is None:
        return None
    try:
        words = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def command(site: Site, config: NodeConfig) -> list[str]:
    """What runs the machine's own doctor there and prints JSON; quoted word by word."""
    words = ["doctor", "--json", "--this-machine", "--device", site.device]
    if site.device == "npu" or "/" in config.pta_name:
        words += ["--pta-env", config.pta_name]
    if site.device == "npu" or "/" in config.msa_name:
        words += ["--msa-env", config.msa_name]
    if site.device == "npu":
        words += ["--mindspeed-mm-path", config.mindspeed_mm_path or _codes(config)[0]]
    for option, value in (("--dataset-root", site.dataset_root), ("--load-path", site.load_path)):
        if value is not None:
            words += [option, str(value)]
    for model in site.models:
        words += ["--model", model.name]
    remote = (
        f"cd {shlex.quote(config.lmsv_path)} && if command -v lmsv >/dev/null; then lmsv "
        f"{shlex.join(words)}; elif [ -d pytest_lmsv ]; then PYTHONPATH=. python3 -c 'from "
        "pytest_lmsv.cli import main; raise SystemExit(main())' "
        f"{shlex.join(words)}; else echo '{{\"rows\": null}}'; fi"
    )
    return ["bash", "-lc", remote]


def _own_doctor(site: Site, config: NodeConfig, connection: Connection) -> Iterator[Row]:
    done = connection.run(command(site, config), timeout=LIMIT_S)
    try:
        rows = json.loads(done.stdout[done.stdout.index(b"{") :])["rows"]
    except (ValueError, KeyError, TypeError):
        yield warn("own doctor", done.message, f"run `lmsv doctor` in {config.lmsv_path} there")
        return
    if rows is None:
        remedy = "install pytest-lmsv there, or put the project into LMSV_PATH"
        asked = warn("own doctor", "no copy of this project: packages were not looked at", remedy)
        yield asked if site.device == "npu" else ok("own doctor", "no copy of this project there")
        return
    seen = {"disk", "/dev/shm", "master port", "HCCL ports"}
    yield from (row for row in from_json(rows, "") if row.check not in seen)


def _together(site: Site, machines: Sequence[Node]) -> Iterator[Row]:
    """What shows only between machines: the way from one to another, and shared folders."""
    assert site.nodes is not None
    try:
        team = Team(machines, site.nodes, campaign="doctor", here=site.roots)
    except EnvironmentProblem as problem:
        yield fail("machines together", str(problem), "look at names and routes of the machines")
        return
    try:
        for member in team.members:
            told = f"{member.address} on {member.interface}"
            row = ok("interface", told)
            if member.interface in (None, "lo"):
                remedy = "name GLOO_SOCKET_IFNAME and HCCL_SOCKET_IFNAME of the machine"
                row = warn("interface", f"{member.address}: which one is unknown", remedy)
            yield _named(member.node, row)
        port = team.port()
        yield _named(
            team.master.node, ok("master port", f"such as {port}, free below the ephemeral range")
        )
        for name, others in team.shared.items():
            yield Row(
                "shared folder", "OK", f"LMSV_PATH is also that of {', '.join(others)}", "", name
            )
    except EnvironmentProblem as problem:
        yield fail("machines together", str(problem), "look at the machine")
    finally:
        team.close()


def _named(node: Node, row: Row) -> Row:
    return Row(row.check, row.state, row.found, row.remedy, node.name)
