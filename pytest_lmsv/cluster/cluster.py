"""All machines of a session in the hands of a test: run a command on each, push, pull."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath

from pytest_lmsv.cluster import running, transfer
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.running import NodeJob
from pytest_lmsv.cluster.team import Member, Team
from pytest_lmsv.launch.job import Job
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.task6_config import MultiNode


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended on one machine."""

    exit_status: int | None
    """Negative for a signal, ours at the time limit too; None where nobody saw it end."""
    output: str
    """stdout and stderr, as they came."""
    seconds: float
    timed_out: bool = False


class Cluster:
    """The machines of MULTI_NODE, the master first; without one, this machine alone.

    Each has a folder of its own for this object, in which commands run and where pushed files lie;
    :meth:`close` removes it. Keys of every mapping are the machines' names. Whatever can't be done
    because of a machine is an EnvironmentProblem that names it.
    """

    def __init__(
        self, nodes: Sequence[Node], block: MultiNode | None, here: Mapping[str, Path | None]
    ) -> None:
        """Reach all *nodes*; *here*: the roots of this machine, which the mapping starts from."""
        block = block or MultiNode(enabled=False)
        alone = (Node("here", 0, None, "127.0.0.1"),)
        self._team = Team(nodes or alone, block, campaign="cluster", here=here)
        self._here = Path(tempfile.mkdtemp(prefix="lmsv-cluster-"))
        self._pushes = count(1)

    @property
    def names(self) -> tuple[str, ...]:
        """The machines, by their ranks."""
        return tuple(member.node.name for member in self._team.members)

    @property
    def folders(self) -> dict[str, PurePosixPath]:
        """This object's folder on each machine."""
        return {member.node.name: self._folder(member) for member in self._team.members}

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        together: bool = False,
    ) -> dict[str, Answer]:
        """Run one command on all machines at once; its words reach them as they are.

        *env* comes on top of each machine's own environment. After *timeout* seconds it is ended,
        with all that it started, as it is if pytest is interrupted or killed. *together*: it is
        one distributed program, which ends everywhere when it fails on one machine.
        """
        run_id = f"cluster-{secrets.token_hex(6)}"
        items, logs = [], {}
        for member in self._team.members:
            folder = self._folder(member)
            own = dict(os.environ) if member.work is None else {}
            logs[member.node.name] = folder / f"{run_id}.log"
            job = Job(
                argv=tuple(argv),
                env={**own, **(env or {})},
                cwd=Path(folder),
                log=Path(folder / f"{run_id}.log"),
                run_id=f"{run_id}-{member.node.rank}",  # machines may see each other's processes
                time_limit=timeout,
                silence_limit=timeout,
            )
            items.append(NodeJob(member.node, job, member.ssh))
        joint = running.run(items, together=together)
        lost = next((end for end in joint.nodes if end.ended.reason == "lost"), None)
        if lost is not None:
            raise EnvironmentProblem(f"node {lost.node.name} was lost: {lost.why}", "lost_node")
        answers = {}
        for member, end in zip(self._team.members, joint.nodes, strict=True):
            ours = end.ended.reason in ("time limit", "silence")
            output = self._read(member, logs[member.node.name])
            answers[member.node.name] = Answer(
                end.ended.exit_status, output, end.ended.seconds, ours
            )
        return answers

    def push(self, local: Path) -> dict[str, PurePosixPath]:
        """Copy a file or folder to every machine, with checked digests; where it is on each."""
        files = {local.name: local}
        if local.is_dir():
            files = {
                f"{local.name}/{path.relative_to(local)}": path
                for path in sorted(local.rglob("*"))
                if path.is_file()
            }
        if not all(path.is_file() for path in files.values()):
            raise EnvironmentProblem(f"{local}: not found on this machine", "file_missing")
        place = f"in{next(self._pushes)}"

        def send(member: Member) -> PurePosixPath:
            folder = self._folder(member) / place
            if member.work is not None:
                transfer.push_files(member.machine, files, folder)
            else:
                for name, path in files.items():
                    Path(folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, folder / name)
            return folder / local.name

        return dict(zip(self.names, self._team.on_each(send), strict=True))

    def pull(self, path: str | Mapping[str, PurePosixPath], into: Path) -> dict[str, Path]:
        """Copy a file or folder of every machine to *into*/NAME; where it is then.

        *path*: relative to its folder there or absolute, or one for each machine.
        """

        def fetch(member: Member) -> Path:
            name = member.node.name
            remote = self._folder(member) / (path if isinstance(path, str) else path[name])
            target = into / name / remote.name
            kind = member.agent.ask("look", paths=[str(remote)])["kinds"][str(remote)]
            if kind is None:
                raise EnvironmentProblem(f"{name}: {remote} is not there", "file_missing")
            target.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                if member.work is None:
                    shutil.copytree(remote, target, symlinks=True)
                else:
                    transfer.pull_tree(member.machine, remote, target)
            elif member.work is None:
                shutil.copyfile(remote, target)
            else:
                assert member.machine.connection is not None
                member.machine.connection.get(str(remote), target)
            return target

        return dict(zip(self.names, self._team.on_each(fetch), strict=True))

    def close(self) -> None:
        """Remove the folders and let the machines go."""

        self._team.close()
        shutil.rmtree(self._here, ignore_errors=True)

    def _folder(self, member: Member) -> PurePosixPath:
        return member.work if member.work is not None else PurePosixPath(self._here)

    def _read(self, member: Member, log: PurePosixPath) -> str:
        if member.ssh is None:
            text = Path(log).read_bytes()
        else:
            text = member.ssh.run(("cat", "--", str(log)), timeout=600.0).stdout
        return text.decode("utf-8", "replace")
