"""Runs one job on each node at once, ends all of them when one fails, and names the first to fail.

A remote job runs under the same guard as a local one, sent over SSH; what leaves no connection
(a link that is down, a killed pytest) ends it there by missing heartbeats.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_lmsv.cluster import thread
from pytest_lmsv.cluster.ending import Joint, NodeEnded, cause
from pytest_lmsv.cluster.here import Here
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.remote import GRACE_S, Remote
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.launch import local
from pytest_lmsv.launch.job import Job, Reason

SURVIVORS_S = 3.0
"""After a node's failure, for the others' own last words; torchrun and msrun may hang for long."""
POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class NodeJob:
    """What one node does in a run; without a connection: this machine.

    A remote job's environment is put on top of the node's own, and its folders must be there.
    """

    node: Node
    job: Job
    connection: Connection | None = None


def run(
    items: Sequence[NodeJob],
    watch: Callable[[], None] | None = None,
    *,
    together: bool = True,
) -> Joint:
    """Run all jobs to their end; the shortest of their limits holds for all nodes together.

    *together*: they are one distributed run, so that a node's failure ends the others. Silence is
    the silence of all nodes. *watch* is called about every half second. Whatever is raised
    meanwhile (KeyboardInterrupt) passes on after the trees were ended on all nodes.
    EnvironmentProblem if a node can't be reached, or a command not be started, at the beginning.
    """
    connections = [item.connection for item in items if item.connection is not None]
    thread.wait_for(_connected(connections))
    parts: list[Here | Remote] = []
    try:
        for item in items:
            job = replace(item.job, grace=min(item.job.grace, GRACE_S))
            if item.connection is None:
                parts.append(Here(item.node, job))
            else:
                parts.append(Remote(item.node, job, item.connection))
        limits = min(i.job.time_limit for i in items), min(i.job.silence_limit for i in items)
        started = time.monotonic()
        try:
            for part in parts:
                part.start()
            reason = _wait(parts, started, limits, watch, together)
        except BaseException:
            # Told at once, so that the trees end even if we are interrupted again.
            for part in parts:
                part.stop("interrupted")
            _wait(parts, started, None, None, together)
            raise
    finally:
        for part in parts:
            part.close()
    ends = tuple(part.end for part in parts if part.end is not None)
    for part in parts:
        if part.problem is not None:
            raise part.problem
    blamed = cause(ends, SURVIVORS_S) if reason == "exit" else None
    if blamed is not None:
        reason = blamed.ended.reason
    return Joint(ends, blamed, reason, time.monotonic() - started)


async def _connected(connections: Sequence[Connection]) -> None:
    await asyncio.gather(*(connection.connected() for connection in connections))


def _wait(
    parts: Sequence[Here | Remote],
    started: float,
    limits: tuple[float, float] | None,
    watch: Callable[[], None] | None,
    together: bool,
) -> Reason:
    """Wait until every part has ended; stops all at a limit, and the others when one failed."""
    reason: Reason = "exit"
    looked = 0.0
    while True:
        for part in parts:
            part.look()
        if all(part.over for part in parts):
            return reason
        now = time.monotonic()
        if reason == "exit" and limits is not None:
            if now >= started + limits[0]:
                reason = "time limit"
            elif now >= max(part.grew for part in parts) + limits[1]:
                reason = "silence"
        if reason != "exit":
            for part in parts:
                part.stop(reason)
        elif together and _failed(parts, now - started):
            for part in parts:
                part.stop("interrupted")
        if watch is not None and now >= looked + local.WATCH_S:
            watch()
            looked = now
        handles = [part.handle for part in parts if part.handle is not None]
        select.select(handles, [], [], POLL_S)


def _failed(parts: Sequence[Here | Remote], now: float) -> bool:
    """Whether a node has failed and the others have had their time for last words."""
    if any(part.problem is not None for part in parts):
        return True
    ends = [part.end for part in parts if part.end is not None and part.end.failed]
    first = min((end.after for end in ends), default=now)
    return any(end.ended.reason == "lost" for end in ends) or now >= first + SURVIVORS_S


__all__ = ["Joint", "NodeEnded", "NodeJob", "run"]
