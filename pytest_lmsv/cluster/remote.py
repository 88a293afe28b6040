"""Another machine's part of a run over several nodes: the guard over SSH, and its pulse."""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_lmsv.cluster import pulse, refusals, thread
from pytest_lmsv.cluster.ending import NodeEnded
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.ssh import GUARD, Connection
from pytest_lmsv.launch import local
from pytest_lmsv.launch.job import Ended, Job, Reason
from pytest_lmsv.problems import EnvironmentProblem

if TYPE_CHECKING:
    import asyncssh

BEAT_S = 1.0
LOST_S = 6.0
"""Without a sign of the other side for so long, a node is lost to us and we to its guard.

A link that is back after 2 s is heard again within 4 (TCP repeats after 0.2, 0.4, 0.8, 1.6 s).
"""
FIRST_S = 30.0
"""Until the first sign: Python starts slowly on a busy machine."""
GRACE_S = 2.5
"""Between SIGTERM and SIGKILL at most, so that all is over within 10 s of a loss."""
AGAIN_S = 3.0
"""For one more connection after a loss, to end there what is left."""
PULSE = Path(pulse.__file__)


class Remote:
    """A job under a guard on another machine; asyncio's side of it runs in the loop's thread."""

    def __init__(self, node: Node, job: Job, connection: Connection) -> None:
        self.node, self.job, self.connection = node, job, connection
        self.end: NodeEnded | None = None
        self.problem: EnvironmentProblem | None = None
        self.grew = self._heard = time.monotonic()
        self.handle: int | None = None
        self._patience = FIRST_S
        self._reason: Reason = "exit"
        self._lost = ""
        self._stopping = asyncio.Event()
        self._running: Future[None] | None = None

    def start(self) -> None:
        self._started = self.grew = self._heard = time.monotonic()
        self._running = asyncio.run_coroutine_threadsafe(self._run(), thread.loop())

    @property
    def over(self) -> bool:
        return self._running is None or self._running.done()

    def look(self) -> None:
        """What there is to see comes by itself; but a fault of ours must not be waited for."""
        if self._running is not None and self._running.done():
            self._running.result()

    def stop(self, reason: Reason) -> None:
        """Ask the guard to end the tree; its report says when that is done."""
        if self._reason == "exit" and self.end is None:
            self._reason = reason
            thread.loop().call_soon_threadsafe(self._stopping.set)

    def close(self) -> None:
        if self._running is not None and not self._running.done():
            self._running.cancel()

    async def _run(self) -> None:
        try:
            await self._whole()
        except EnvironmentProblem as problem:
            self.problem = problem

    async def _whole(self) -> None:
        heartbeat = {"heartbeat_s": LOST_S, "parent": None}
        inherited = {"inherit": True, "without": self.job.without}
        given = {**local.specification(self.job), **heartbeat, **inherited}
        guard = await self._program(GUARD, given)
        watcher: asyncssh.SSHClientProcess[bytes] | None = None
        helpers: list[asyncio.Task[None]] = []
        try:
            helpers.append(asyncio.ensure_future(_beat(guard)))
            paths = [self.job.log, self.job.cwd / "msrun_log", *self.job.outputs]
            given = {"paths": [str(p) for p in paths], "beat_s": BEAT_S, "silence_s": LOST_S}
            watcher = await self._program(PULSE, given)
            helpers.append(asyncio.ensure_future(_beat(watcher)))
            helpers.append(asyncio.ensure_future(self._listen(watcher)))
            text = await self._report(guard)
        except EnvironmentProblem as problem:  # lost while it began
            text, self._lost = b"", str(problem)
        finally:
            for helper in helpers:
                helper.cancel()
            for process in (guard, watcher):
                if process is not None:
                    process.close()
        await self._finish(text)

    async def _program(self, source: Path, given: Any) -> asyncssh.SSHClientProcess[bytes]:
        argv = ("python3", "-u", "-c", source.read_text(encoding="utf-8"))
        process = await self.connection.process(argv)
        process.stdin.write(json.dumps(given).encode("ascii") + b"\n")
        return process

    async def _listen(self, watcher: asyncssh.SSHClientProcess[bytes]) -> None:
        """Note each sign of life; its end says nothing that the guard does not say better."""
        try:
            while line := await watcher.stdout.readline():
                self._heard, self._patience = time.monotonic(), LOST_S
                if line == b"+\n":
                    self.grew = self._heard
        except refusals.broken():
            return

    async def _report(self, guard: asyncssh.SSHClientProcess[bytes]) -> bytes:
        """The guard's report; empty where the guard or the node was lost (``_lost`` says how)."""
        reading = asyncio.ensure_future(guard.stdout.read())
        stopping = asyncio.ensure_future(self._stopping.wait())
        deadline, looked = 0.0, time.monotonic()
        try:
            while True:
                waiting = {reading} if deadline else {reading, stopping}
                await asyncio.wait(waiting, timeout=0.25, return_when=asyncio.FIRST_COMPLETED)
                now = time.monotonic()
                if reading.done():
                    return _text(reading)
                if self._stopping.is_set() and not deadline:
                    deadline = now + self.job.grace + local.END_S
                    guard.stdin.write(b"q")
                if now > looked + BEAT_S:  # this process itself was held up, not the node
                    self._heard += now - looked
                looked = now
                if now > self._heard + self._patience:
                    self._lost = f"no sign of it for {self._patience:.0f} s"
                    return b""
                if deadline and now > deadline:
                    self._lost = "its guard does not answer"
                    return b""
        except refusals.broken():  # the connection, while something was sent
            return b""
        finally:
            for task in (reading, stopping):
                task.cancel()

    async def _finish(self, text: bytes) -> None:
        after = time.monotonic() - self._started
        if text.endswith(b"\n"):
            report = json.loads(text)
            # Counted back: when the guard there began is not known to within a login's time.
            after -= report["ago"]  # the guard says so only when its tree is gone
            if report["ended"] in ("silence", "eof"):  # the guard has lost us, before we lost it
                report["ended"], self._lost = "quit", "it has not heard of us for too long"
                reason: Reason = "lost"
            else:
                reason = self._reason
            ended = local.ended(report, self.job, reason, after)
            self.end = NodeEnded(self.node, ended, after, self._lost)
            return
        reason = self._reason if self._reason != "exit" else "lost"
        closed = self.connection.broken()
        if not self._lost:
            self._lost = "the connection was closed" if closed else "the guard there was killed"
        # Known at once, so that the others need not wait for what follows.
        self.end = NodeEnded(self.node, Ended(None, reason, after), after, self._lost)
        if closed or self._heard + self._patience < time.monotonic():
            await self.connection.abort_async()
        self.connection.owed.append((self.job.run_id, self.job.grace))
        try:
            found, left = await asyncio.wait_for(self.connection.pay(), AGAIN_S + GRACE_S)
        except (EnvironmentProblem, asyncio.TimeoutError):
            return  # owed still: paid when there is a connection again
        self.end = NodeEnded(self.node, Ended(None, reason, after, found, left), after, self._lost)


async def _beat(process: asyncssh.SSHClientProcess[bytes]) -> None:
    try:
        while True:
            await asyncio.sleep(BEAT_S)
            process.stdin.write(b".")
    except refusals.broken():
        return


def _text(reading: asyncio.Future[Any]) -> bytes:
    try:
        return bytes(reading.result())
    except refusals.broken():
        return b""
