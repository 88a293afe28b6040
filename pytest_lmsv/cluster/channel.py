"""A program on a node that is talked to line by line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytest_lmsv.cluster import refusals, thread

if TYPE_CHECKING:
    import asyncssh

    from pytest_lmsv.cluster.nodes import Node


class Channel:
    """A program on a node that is talked to."""

    def __init__(self, node: Node, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._node, self._process = node, process

    def write(self, text: bytes) -> None:
        """Send *text* to its stdin; EnvironmentProblem if the node is lost."""

        async def send() -> None:
            self._process.stdin.write(text)

        try:
            thread.wait_for(send())
        except refusals.broken():
            raise refusals.lost(self._node, "while it was talked to") from None

    def readline(self, timeout: float = 30.0) -> bytes:
        """The next line of its stdout, ``b""`` at its end.

        EnvironmentProblem if the node is lost, or silent for *timeout* seconds.
        """

        async def receive() -> bytes:
            return await asyncio.wait_for(self._line(), timeout)

        node = self._node
        try:
            line = thread.wait_for(receive())
        except asyncio.TimeoutError:
            raise refusals.lost(node, f"or nothing came for {timeout:.0f} s") from None
        except refusals.broken():
            raise refusals.lost(node, "while it was talked to") from None
        if not line and self._process.is_closing() and self._process.returncode is None:
            raise refusals.lost(node, "while it was talked to")
        return line

    async def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            # asyncssh gives a line in parts where it is longer than its buffer (2 MB).
            part = bytes(await self._process.stdout.readline())
            if not part:
                break
            line += part
        return line

    def errors(self) -> str:
        """What it has written to stderr; to be asked for after its end."""
        return bytes(thread.wait_for(self._process.stderr.read())).decode("utf-8", "replace")

    def close(self) -> None:
        """Close its stdin and the channel."""

        async def end() -> None:
            if self._process.stdin.can_write_eof() and not self._process.is_closing():
                self._process.stdin.write_eof()
            self._process.close()

        thread.wait_for(end())
