"""One run over several machines: sent there, started together, and what it wrote brought back."""

from __future__ import annotations

import errno
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath

from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.cluster import running, transfer
from pytest_lmsv.cluster.running import Joint, NodeJob
from pytest_lmsv.cluster.team import Member, Team
from pytest_lmsv.launch.job import Ended, Job
from pytest_lmsv.logs import reading
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import NodeRun, Note, RunError, RunRecord
from pytest_lmsv.settings import Settings

DOCUMENTS = ("model.json", "data.json", "args.txt")
LOG = "launcher.log"
BACK = ("run/record", "run/msrun_log", "run/samples", "run/documents")
SILENT = ("unknown", "killed", "incomplete")
"""Categories of a run that said nothing of why it failed."""
OF_A_RANK = re.compile(r"(rank_\d+\.json|steps_\d+\.jsonl)")


@dataclass(frozen=True)
class Room:
    """The folders of one run on one machine, as that machine has them."""

    member: Member
    folder: PurePath
    run_folder: PurePath
    documents: dict[str, PurePath]
    log: PurePath
    weights: PurePath


@dataclass(frozen=True)
class Gathered:
    """A run that has ended on all machines, as it lies here."""

    ended: Ended
    logs: tuple[Path, ...]
    """The launchers' logs, in the order of the ranks."""
    nodes: tuple[NodeRun, ...]
    notes: tuple[Note, ...]
    full: str = ""
    """The folder of the machine that failed first, where its disk has no space left."""
    missing: tuple[RunError, ...] = ()
    """What could not be brought here of a machine: without it nobody can say how it went."""

    @property
    def cause(self) -> NodeRun | None:
        """The machine that failed first."""
        return next((node for node in self.nodes if node.is_cause), None)


def rooms(team: Team, model: str, place: Place, side: Side) -> list[Room]:
    """Make the folders of one run on all machines and bring its documents there."""
    token = secrets.token_hex(4)

    def make(member: Member) -> Room:
        files = {name: place.document(side, name) for name in DOCUMENTS}
        if member.work is None:
            run = place.run_folder(side)
            return Room(member, run, run, {**files}, place.log(side), place.weights(side))
        folder = member.work / model / place.name / f"{side.slug}-{token}"
        member.agent.ask("make", folder=str(folder / "run"), new=True)
        transfer.push_files(member.machine, files, folder / "inputs")
        there: dict[str, PurePath] = {name: folder / "inputs" / name for name in DOCUMENTS}
        return Room(member, folder, folder / "run", there, folder / LOG, folder / "weights")

    return team.on_each(make)


def run(
    team: Team,
    all_rooms: Iterable[Room],
    job_of: Callable[[Room], Job],
    watch: Callable[[], None],
) -> Joint:
    """Start the run in all rooms together and wait until it has ended in all of them."""
    jobs = [NodeJob(room.member.node, job_of(room), room.member.ssh) for room in all_rooms]
    return running.run(jobs, watch)


def gather(
    joint: Joint, all_rooms: list[Room], place: Place, side: Side, further: Sequence[str] = ()
) -> Gathered:
    """Bring home what the run wrote on all machines, as one run of this place.

    *further*: what is wanted beside logs, records and samples (``weights``, ``run/ascend_log``).
    """
    nodes = tuple(
        NodeRun(
            name=end.node.name,
            rank=room.member.node.rank,
            reason=end.ended.reason,
            exit_status=end.ended.exit_status,
            seconds=end.ended.seconds,
            is_cause=end is joint.cause,
            why=end.why,
        )
        for end, room in zip(joint.nodes, all_rooms, strict=True)
    )
    full = next((_full(r) for r, node in zip(all_rooms, nodes, strict=True) if node.is_cause), "")
    place.keep_run(side)
    notes: list[Note] = []
    logs: list[Path] = []
    absent: list[RunError] = []
    for room in all_rooms:
        if room.member.work is None:
            logs.append(place.log(side))
            continue
        try:
            logs += _bring_home(room, place, side, notes, further)
        except (EnvironmentProblem, OSError) as problem:
            absent.append(_nothing_came(room.member.node.name, problem))
    leftovers = tuple(x for end in joint.nodes for x in end.ended.leftovers)
    unkillable = tuple(x for end in joint.nodes for x in end.ended.unkillable)
    status = joint.cause.ended.exit_status if joint.cause is not None else 0
    ended = Ended(status, joint.reason, joint.seconds, leftovers, unkillable)
    return Gathered(ended, tuple(logs), nodes, tuple(notes), full, tuple(absent))


def _nothing_came(name: str, problem: EnvironmentProblem | OSError) -> RunError:
    """What it means that the files of a machine could not be brought here."""
    if isinstance(problem, OSError):
        text = f"what {name} wrote can't be kept here: {problem}"
        full = problem.errno == errno.ENOSPC
    else:
        text, full = f"nothing came back: {problem}", problem.category == "no_space"
    kind, category = ("DiskFull", "no_space") if full else ("LostNode", "lost_node")
    return RunError(kind, text, category, node=name)


def _full(room: Room) -> str:
    """The run's folder where less than 1 MB is free: what failed could not even log why."""
    folder = str(room.folder)
    try:
        return folder if room.member.agent.ask("space", path=folder)["free"] < 1024**2 else ""
    except EnvironmentProblem:
        return ""  # lost: which is said elsewhere


def log_of(member: Member, place: Place, side: Side) -> Path:
    """The launcher's log of one machine; that of the master has the name of a run's only log."""
    log = place.log(side)
    return log if member.node.rank == 0 else log.with_name(f"{log.stem}.{member.node.name}.log")


def _bring_home(
    room: Room, place: Place, side: Side, notes: list[Note], further: Sequence[str]
) -> list[Path]:
    member = room.member
    fetched = place.folder / f".from-{member.node.name}-{secrets.token_hex(4)}"
    only = (LOG, *BACK, *further)
    try:
        pulled = transfer.pull_tree(member.machine, PurePosixPath(room.folder), fetched, only=only)
        notes += [Note("left_out", text) for text in pulled.left_out]
        if pulled.left_out and not (fetched / LOG).is_file():
            raise EnvironmentProblem(f"not even {LOG} of {member.node.name}: {pulled.left_out[0]}")
        log = log_of(member, place, side)
        log.parent.mkdir(parents=True, exist_ok=True)
        if (fetched / LOG).is_file():
            (fetched / LOG).replace(log)
        else:
            log.write_bytes(b"")
        _merge(fetched / "run", member, place, side, notes)
        if (fetched / "weights").is_dir():
            weights = place.weights(side) / member.node.name
            weights.parent.mkdir(parents=True, exist_ok=True)
            (fetched / "weights").rename(weights)
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return [log]


def _merge(run: Path, member: Member, place: Place, side: Side, notes: list[Note]) -> None:
    """Put what one machine wrote beside what the others did.

    Ranks are the whole run's, so records fit into one folder; logs of workers stay apart, as the
    reader takes those of one folder for those of one machine's clock.
    """
    for path in sorted((run / "record").glob("*")):
        target = place.kept(side, "record") / path.name
        if not OF_A_RANK.fullmatch(path.name) or target.exists():
            notes.append(Note("left_out", f"{member.node.name}: record/{path.name}: not expected"))
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    for what in ("msrun_log", "samples", "ascend_log", "documents"):
        if not (run / what).is_dir():
            continue
        target = place.folder / "artifacts" / "run_folder" / side.slug
        target = target / what if what == "documents" else place.kept(side, what)
        if member.node.rank > 0:
            target /= member.node.name
        if target.exists():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        (run / what).rename(target)


def logs_of_one(place: Place, side: Side, node: NodeRun) -> list[Path]:
    """The log files of one machine."""
    log, workers = place.log(side), place.kept(side, "msrun_log")
    if node.rank > 0:
        log = log.with_name(f"{log.stem}.{node.name}.log")
        workers /= node.name
    return [log, *sorted(workers.glob("*.log"))]


def leave(all_rooms: Iterable[Room], keep_weights: bool) -> None:
    """Remove what the run left on the machines, but for weights that may be wanted."""
    for room in all_rooms:
        member = room.member
        if member.work is None or not member.agent.is_alive:
            continue
        folder = str(room.folder)
        try:
            if keep_weights:
                member.agent.ask("tidy", folder=folder, timeout=120.0)
            else:
                member.agent.ask("remove", folder=folder, base=str(member.work), timeout=120.0)
        except EnvironmentProblem:
            continue  # lost: the run says so, and a later session finds another folder


def judged(
    run: RunRecord, gathered: Gathered, place: Place, side: Side, settings: Settings
) -> RunRecord:
    """*run* as one of several machines: what the machine that failed first says is the cause.

    A machine that was lost, or failed before its work was done, makes the run failed, whatever the
    others say.
    """
    notes = (*run.notes, *gathered.notes)
    run = replace(run, nodes=len(gathered.nodes), per_node=gathered.nodes, notes=notes)
    cause, error = gathered.cause, run.error or run.teardown_error
    if gathered.missing and (cause is None or cause.reason != "lost"):
        return replace(run, outcome="error", error=gathered.missing[0], teardown_error=None)
    if cause is None:
        return _complete(run)
    if cause.reason == "lost":
        # What the others print of a peer that went away comes from this.
        message = cause.why or f"the connection to {cause.name} was lost"
        lost = RunError("LostNode", message, "lost_node", node=cause.name)
        return replace(run, outcome="error", error=lost, teardown_error=None)
    if error is None:
        return run
    if run.outcome == "ok" and _all_done(run):
        error = replace(error, node=cause.name, phase="teardown")
        return replace(run, teardown_error=error)
    present = [path for path in logs_of_one(place, side, cause) if path.is_file()]
    if present:
        patterns = settings.log_patterns
        alone = reading.read(present, stack=side.stack, failed=True, patterns=patterns)
        # The others' errors may stand out more, but tell only of the peer that went away.
        error = alone.error or error
    if gathered.full and error.category in SILENT:
        message = f"no space left on the disk of {gathered.full}"
        error = replace(error, type="DiskFull", message=message, category="no_space")
    outcome = "error" if run.outcome == "ok" else run.outcome
    error = replace(error, node=cause.name, phase="run")
    return replace(run, outcome=outcome, error=error, teardown_error=None)


def _complete(run: RunRecord) -> RunRecord:
    """Return *run*, failed where a rank that others know of did not write that its work is done.

    A machine whose command ends with 0 without having done anything says nothing by itself.
    """
    absent = _absent(run)
    if run.outcome != "ok" or not run.completions or not absent:
        return run
    each = max(1, max(item.world_size for item in run.completions) // max(1, run.nodes))
    names = {node.rank: node.name for node in run.per_node}
    name = names.get(absent[0] // each, "")
    ranks = ", ".join(map(str, absent))
    message = f"no completion record of rank {ranks}, though the run ended with 0"
    error = RunError("Incomplete", message, "incomplete", rank=absent[0], node=name)
    return replace(run, outcome="error", complete=False, error=error, teardown_error=None)


def _absent(run: RunRecord) -> list[int]:
    """The ranks that wrote no completion record, of those that the others' records count."""
    world = max((item.world_size for item in run.completions), default=1)
    return sorted({*range(world)} - {item.rank for item in run.completions})


def _all_done(run: RunRecord) -> bool:
    """Whether every rank wrote that its work is done; the steps are printed by one of them."""
    return not _absent(run)
