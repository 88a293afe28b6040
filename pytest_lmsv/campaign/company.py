"""A campaign's team of machines: which folders, devices, ports and variables a run has on each."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING

from pytest_lmsv.campaign import several
from pytest_lmsv.campaign.contract import NOT_INHERITED, Seat
from pytest_lmsv.campaign.launchers import find_launcher
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.several import Gathered, Room
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.cluster.team import Member, Team
from pytest_lmsv.launch import devices, npus, ports
from pytest_lmsv.launch.job import Job, id_of_node
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Stack

if TYPE_CHECKING:
    from pytest_lmsv.campaign.run import Runner

HCCL_PORTS = 16
LEASE_S = 1.0


@dataclass
class Company:
    """The machines of one session at work."""

    team: Team
    size: int
    """NPUs of each machine that a run uses; 0 on cpu."""
    _environments: dict[tuple[str, Stack], PurePath | None] = field(default_factory=dict)

    def lease(self, say: Callable[[str], None]) -> None:
        """Hold NPUs on each other machine until the session ends; waits while others hold them.

        All or none, again and again: two campaigns that take machines in another order would
        otherwise wait for each other for ever.
        """
        if not self.size:
            return
        told = False
        while True:
            busy = next((m for m in self.team.members if not self._leased(m)), None)
            if busy is None:
                return
            for member in self.team.members:
                if member.work is not None:
                    member.agent.ask("release")
                    member.devices = ()
            if not told:
                say(f"waiting for NPUs of {busy.node.name}: another campaign holds them")
                told = True
            time.sleep(random.uniform(0.5, 1.5) * LEASE_S)

    def _leased(self, member: Member) -> bool:
        if member.work is None or member.devices:
            return True
        sets = devices.npu_sets(member.agent.ask("devices")["devices"], self.size)
        found = member.agent.ask("lease", sets=sets, device="npu")
        if found["index"] is None:
            return False
        for run_id in found["stale"]:
            member.agent.ask("end", run_id=run_id, grace=5.0)
        member.devices = sets[found["index"]]
        self._note(member, None)
        return True

    def _note(self, member: Member, run_id: str | None) -> None:
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        member.agent.ask("note", owner=owner, run_id=run_id)

    def run(
        self, runner: Runner, spec: ModelSpec, side: Side, place: Place, run_id: str
    ) -> tuple[Job, Gathered]:
        """Run *side* on all machines; the master's job, and what came back of all of them.

        EnvironmentProblem where a machine can't be reached, or lacks what the run needs.
        """
        self._revive(runner)
        if any(member.work is None for member in self.team.members):
            place.run_folder(side).mkdir(parents=True)
        rooms = several.rooms(self.team, spec.name, place, side)
        launcher = find_launcher(runner.settings, side, spec)
        folders = self.team.on_each(lambda member: member.bring(launcher.parent, "launchers"))
        roots = self.team.on_each(lambda member: self._dataset_root(runner, spec, member))
        self.team.on_each(lambda member: self._environment(runner, side.stack, member))
        if self.size:
            self.team.on_each(lambda member: self._check_devices(runner, member))
        master_port = self.team.port()
        jobs = {}
        for room, folder, root in zip(rooms, folders, roots, strict=True):
            seat = replace(
                self._seat(runner, spec, side, room, root, master_port), noise_run=place.noise
            )
            name = room.member.node.name
            own = id_of_node(run_id, room.member.node.rank)
            job = runner.job(spec, side, own, folder / launcher.name, seat, room.log)
            jobs[name] = replace(job, without=NOT_INHERITED)
            if room.member.work is None:
                runner.lease.note(own)
            elif room.member.devices:
                self._note(room.member, own)
        watch = runner.following(place.log(side))
        master = jobs[self.team.master.node.name]
        try:
            joint = several.run(self.team, rooms, lambda room: jobs[room.member.node.name], watch)
        except BaseException:
            place.keep_run(side)
            several.leave(rooms, keep_weights=False)
            raise
        settings, further = runner.settings, []
        if joint.exit_status != 0:
            further.append("run/ascend_log")
        if settings.fetch_weights:
            further.append("weights")
        gathered = several.gather(joint, rooms, place, side, further)
        keeps = settings.save_weights != "never" and not settings.fetch_weights
        several.leave(rooms, keep_weights=keeps)
        return master, gathered

    def remove(self, spec: ModelSpec, place: Place) -> None:
        """Remove the weights that runs of *place* left on other machines."""
        for member in self.team.members:
            if member.work is not None:
                with suppress(EnvironmentProblem):
                    folder = str(member.work / spec.name / place.name)
                    member.agent.ask("remove", folder=folder, base=str(member.work), timeout=600.0)

    def close(self) -> None:
        """Let all machines go."""
        for member in self.team.members:
            if member.devices:
                with suppress(EnvironmentProblem):
                    member.agent.ask("release", clean=True)
        self.team.close()

    def _revive(self, runner: Runner) -> None:
        gone = [member for member in self.team.members if not member.agent.is_alive]
        self.team.revive()
        for member in gone:
            member.devices = ()
        if gone:
            self.lease(runner.reporter.say)

    def _check_devices(self, runner: Runner, member: Member) -> None:
        """NPUs are free and no port of HCCL's range is held, on every machine."""
        base = _hccl_base_port(runner, member)
        taken = member.agent.ask("held", base=base, count=max(HCCL_PORTS, 2 * self.size))["held"]
        if taken:
            raise EnvironmentProblem(
                f"{member.node.name}: port {taken[0]} of HCCL's range from {base} is in use; end "
                "what uses it",
                "port_in_use",
            )
        ssh, limit, say = member.ssh, NPU_WAIT_S, runner.reporter.say
        if ssh is None:
            numbers = runner.lease.device_set.devices
            npus.wait_until_free(numbers, limit=limit, say=say)
            return

        def look() -> npus.Snapshot | None:
            done = ssh.run(["npu-smi", "info"])
            text = done.stdout.decode("utf-8", "replace")
            return npus.parse(text) if done.exit_status == 0 else None

        npus.wait_until_free(member.devices, limit=limit, looking=look, say=say)

    def _dataset_root(self, runner: Runner, spec: ModelSpec, member: Member) -> PurePath | None:
        root = runner.dataset_root(spec)
        if root is None or member.work is None:
            return root
        if runner.settings.dataset_root is None:  # made by this campaign: no other machine has it
            return member.bring(root, "datasets")
        return member.paths.on_node(root)

    def _environment(self, runner: Runner, stack: Stack, member: Member) -> PurePath | None:
        """The stack's environment folder on *member*; None: its launcher looks by name (npu)."""
        ours = runner.environments.get(stack)
        if member.work is None:
            return ours.path if ours else None
        key = (member.node.name, stack)
        if key not in self._environments:
            config = member.node.config
            named = (config.pta_name if stack == "pta" else config.msa_name) if config else ""
            found: PurePath | None = PurePosixPath(named) if "/" in named else None
            if runner.settings.device == "cpu":
                assert ours is not None
                found = found or member.paths.on_node(ours.path)
                python = str(found / "bin" / "python")
                if member.agent.ask("look", paths=[python])["kinds"][python] is None:
                    raise EnvironmentProblem(
                        f"{member.node.name}: no {stack.upper()} environment: {python} is not "
                        f"there; make it (lmsv setup cpu), and name its folder as "
                        f"{stack.upper()}_NAME of the node",
                        "file_missing",
                    )
            self._environments[key] = found
        return self._environments[key]

    def _seat(
        self,
        runner: Runner,
        spec: ModelSpec,
        side: Side,
        room: Room,
        dataset_root: PurePath | None,
        port: int,
    ) -> Seat:
        settings, member = runner.settings, room.member
        config = member.node.config
        load: PurePath | str | None = runner.load_path(spec)
        environment = self._environment(runner, side.stack, member)
        stack = settings.pta_path if side.stack == "pta" else settings.msa_path
        workspace: PurePath | None = stack
        code: PurePath | None = settings.mindspeed_mm_path
        names = settings.pta_env, settings.msa_env
        inherited = {}
        if config is None:
            ours = runner.environments[side.stack]
            inherited = ours.variables()
        else:
            there = config.pta_path if side.stack == "pta" else config.msa_path
            workspace = PurePosixPath(there) if there else None
            code_there = config.mindspeed_mm_path or config.pta_path
            code = PurePosixPath(code_there) if code_there else None
            names = config.pta_name or None, config.msa_name or None
            load = member.paths.on_node(load) if load else load
        return Seat(
            run_folder=room.run_folder,
            documents=room.documents,
            environment=environment,
            inherited=inherited,
            devices=member.devices or runner.lease.device_set.devices,
            master_port=port,
            hccl_base_port=_hccl_base_port(runner, member),
            dataset_root=dataset_root,
            save_path=None if settings.save_weights == "never" else room.weights,
            load_path=load,
            workspace=workspace,
            mindspeed_mm=code,
            pta_name=names[0],
            msa_name=names[1],
            master_address=self.team.master.address,
            nodes=len(self.team.members),
            rank=member.node.rank,
            network=self.team.network(member),
        )


def _hccl_base_port(runner: Runner, member: Member) -> int:
    """Where HCCL's ports begin on *member*: apart for each device set of a machine."""
    if member.devices:
        return ports.hccl_base_port(member.devices[0])
    return runner.lease.device_set.hccl_base_port


NPU_WAIT_S = 1800.0
"""How long a run waits for NPUs that others use."""
