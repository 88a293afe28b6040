"""SSH connections by asyncssh behind a face without asyncio: one per node, kept, thread-safe.

Host keys are always checked (host_keys.py). What comes from a configuration travels as JSON on
stdin or as a quoted word, never as shell text.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_lmsv.cluster import refusals, thread
from pytest_lmsv.cluster.channel import Channel
from pytest_lmsv.cluster.host_keys import HostKeys
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.cluster.openssh import CONNECT_S, KEEPALIVE_S, KEEPALIVES
from pytest_lmsv.launch import guard
from pytest_lmsv.launch.job import Leftover
from pytest_lmsv.problems import EnvironmentProblem

if TYPE_CHECKING:
    import asyncssh

GUARD = Path(guard.__file__)
END_RUN = """
import json, sys
given = json.loads(sys.stdin.readline())
space = {"__name__": "lmsv_guard"}
exec(given["source"], space)
found, _, left = space["end_all"](given["run_id"], given["grace"])
print(json.dumps([[[p.pid, p.command] for p in group] for group in (found, left)]))
"""


_owed: dict[tuple[str | None, int], list[tuple[str, float]]] = {}


@dataclass(frozen=True, slots=True)
class Done:
    """How a command on a node ended."""

    exit_status: int
    """Negative for a signal."""
    stdout: bytes
    stderr: bytes

    @property
    def message(self) -> str:
        """The last line that it wrote, errors first."""
        text = (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace")
        return text.splitlines()[-1] if text else f"exit status {self.exit_status}"


class Connection:
    """The connection to one node: made at the first use, kept, made anew after it was lost."""

    def __init__(self, node: Node, *, connect_timeout: float = CONNECT_S) -> None:
        assert node.host is not None, "this machine needs no connection"
        self.node, self.connect_timeout = node, connect_timeout
        self.owed = _owed.setdefault((node.host, node.port), [])
        """Runs (id, grace) of which something may be left there, since the node was lost.

        By the node: whoever connects next pays.
        """
        self._connection: asyncssh.SSHClientConnection | None = None
        self._making: asyncio.Lock | None = None

    def check(self) -> None:
        """Connect; EnvironmentProblem with the reason and the remedy where that fails."""
        thread.wait_for(self.connected())

    def run(self, argv: Sequence[str], given: bytes = b"", *, timeout: float = 60.0) -> Done:
        """Run a short command with *given* as its stdin; its words reach it as they are.

        EnvironmentProblem if the node is lost or has not answered in *timeout* seconds. What must
        leave nothing behind is a run (running.py), not this.
        """
        return thread.wait_for(self.run_async(argv, given, timeout=timeout))

    def python(self, source: str, given: Any = None, *, timeout: float = 60.0) -> Any:
        """Run a Python program (standard library, >= 3.6) there: JSON line in, JSON out.

        EnvironmentProblem if it fails, with its last line.
        """
        return thread.wait_for(self.python_async(source, given, timeout=timeout))

    def open(self, argv: Sequence[str]) -> Channel:
        """Start a program that is talked to line by line; its end is the caller's to ask for."""
        return Channel(self.node, thread.wait_for(self.process(argv)))

    def end_run(
        self, run_id: str, grace: float = 5.0
    ) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
        """End all processes of a run there by its exact id: what was found, what could not be."""
        return thread.wait_for(self.end_run_async(run_id, grace))

    def close(self) -> None:
        """Close it; what still runs there under a guard ends."""
        thread.wait_for(self.close_async())

    async def run_async(self, argv: Sequence[str], given: bytes, *, timeout: float) -> Done:
        async def whole() -> tuple[asyncssh.SSHClientProcess[bytes], Any, Any]:
            process = await self.process(argv)
            try:
                return process, *await process.communicate(given)
            finally:
                process.close()

        try:
            process, out, err = await asyncio.wait_for(whole(), timeout)
        except asyncio.TimeoutError:
            raise EnvironmentProblem(
                f"node {self.node.name}: {argv[0]} did not end within {timeout:.0f} s", "lost_node"
            ) from None
        except refusals.broken():
            raise refusals.lost(self.node, f"while {argv[0]} ran") from None
        if process.returncode is None:  # asyncssh says no more than this when a connection ends
            raise refusals.lost(self.node, f"while {argv[0]} ran")
        return Done(process.returncode, bytes(out or b""), bytes(err or b""))

    async def python_async(self, source: str, given: Any, *, timeout: float) -> Any:
        line = json.dumps(given).encode("ascii") + b"\n"
        done = await self.run_async(("python3", "-u", "-c", source), line, timeout=timeout)
        if done.exit_status:
            raise EnvironmentProblem(f"node {self.node.name}: python3 there: {done.message}")
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise EnvironmentProblem(
                f"node {self.node.name}: unexpected output ({done.message}); does a start-up file "
                "of the shell there print something?"
            ) from None

    async def end_run_async(
        self, run_id: str, grace: float
    ) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
        given = {"run_id": run_id, "grace": grace, "source": GUARD.read_text(encoding="utf-8")}
        limit = grace + guard.KILL_S + 15.0
        found, left = await self.python_async(END_RUN, given, timeout=limit)
        return tuple(Leftover(*item) for item in found), tuple(Leftover(*item) for item in left)

    async def process(self, argv: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        """Start a program; bytes in and out."""
        command = "exec " + shlex.join(argv)
        for again in (True, False):
            connection = await self.connected()
            try:
                return await connection.create_process(command, encoding=None, request_pty=False)
            except refusals.broken() as error:
                # A connection that broke since its last use is made anew, once.
                if not (again and connection.is_closed()):
                    raise refusals.problem(self.node, error, None, self.connect_timeout) from None
        raise AssertionError

    async def connected(self) -> asyncssh.SSHClientConnection:
        """The open connection, made if there is none; EnvironmentProblem where that fails."""
        if self._making is None:
            self._making = asyncio.Lock()
        async with self._making:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            found = self._connection
        await self.pay()  # the node is back: end what runs had left there
        return found

    async def pay(self) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
        """End what is :attr:`owed`; what was found, and what could not be ended."""
        found: list[Leftover] = []
        unkillable: list[Leftover] = []
        while self.owed:
            run = self.owed.pop()
            try:
                ended, left = await self.end_run_async(*run)
            except BaseException:
                self.owed.append(run)
                raise
            found += ended
            unkillable += left
        return tuple(found), tuple(unkillable)

    def broken(self) -> bool:
        """Whether the connection is known to be gone."""
        return self._connection is None or self._connection.is_closed()

    async def _connect(self) -> asyncssh.SSHClientConnection:
        import asyncssh

        node, keys = self.node, None
        assert node.host is not None
        given: dict[str, Any] = {
            "connect_timeout": self.connect_timeout,
            "login_timeout": self.connect_timeout,
            "keepalive_interval": KEEPALIVE_S,
            "keepalive_count_max": KEEPALIVES,
            "request_pty": False,
        }
        if node.port != 22:  # 22 may as well be what the user's ssh configuration says
            given["port"] = node.port
        if node.user is not None:
            given["username"] = node.user
        if node.keys:
            given["client_keys"] = [str(path.expanduser()) for path in node.keys]
        if node.ssh_config is not None:
            given["config"] = [str(node.ssh_config.expanduser())]
        try:
            options = asyncssh.SSHClientConnectionOptions(host=node.host, **given)
            configured = options.known_hosts
            keys = HostKeys(node, configured if isinstance(configured, list) else ())
            client = _client(keys)
            return await asyncio.wait_for(
                asyncssh.connect(node.host, client_factory=client, known_hosts=keys.match, **given),
                self.connect_timeout + 1.0,
            )
        except refusals.broken() as error:
            raise refusals.problem(node, error, keys, self.connect_timeout) from None

    async def close_async(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            try:
                await asyncio.wait_for(connection.wait_closed(), 2.0)
            except asyncio.TimeoutError:
                connection.abort()

    async def abort_async(self) -> None:
        """Give up a connection on which nobody answers."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


def _client(keys: HostKeys) -> Any:
    import asyncssh

    class Client(asyncssh.SSHClient):
        def validate_host_public_key(
            self, host: str, addr: str, port: int, key: asyncssh.SSHKey
        ) -> bool:
            return keys.accept(key)

    return Client
