"""Single files to and from a node, by SFTP over the connection that is open already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_lmsv.cluster import refusals, thread
from pytest_lmsv.cluster.ssh import Connection
from pytest_lmsv.problems import EnvironmentProblem

if TYPE_CHECKING:
    import asyncssh

FILE_S = 3600.0
Result = TypeVar("Result")


class Files:
    """The files of one node."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client: asyncssh.SFTPClient | None = None
        self._of: Any = None

    def put(self, local: Path, remote: str) -> None:
        """Copy the file *local* to *remote*, whose folder is there; EnvironmentProblem."""

        async def work() -> None:
            await (await self._opened()).put(str(local), remote)

        self._do(work(), remote)

    def get(self, remote: str, local: Path) -> None:
        """Copy the file *remote* to *local*, whose folder is there; EnvironmentProblem."""

        async def work() -> None:
            await (await self._opened()).get(remote, str(local), follow_symlinks=False)

        self._do(work(), remote)

    async def _opened(self) -> asyncssh.SFTPClient:
        connection = await self._connection.connected()
        if self._client is None or self._of is not connection:
            self._client, self._of = await connection.start_sftp_client(), connection
        return self._client

    def _do(self, work: Coroutine[Any, Any, Result], remote: str) -> Result:
        import asyncssh

        node = self._connection.node
        try:
            return thread.wait_for(asyncio.wait_for(work, FILE_S))
        except asyncio.TimeoutError:
            raise refusals.lost(node, f"while {remote} was copied") from None
        except asyncssh.SFTPError as error:
            if isinstance(error, asyncssh.SFTPConnectionLost | asyncssh.SFTPNoConnection):
                self._client = None
                raise refusals.lost(node, f"while {remote} was copied") from None
            # SFTP's version 3 has no word for a full disk: it is a plain failure.
            raise EnvironmentProblem(
                f"node {node.name}: {remote}: {error.reason}; look at its disk and permissions",
                "file_missing" if isinstance(error, asyncssh.SFTPNoSuchFile) else None,
            ) from None
        except refusals.broken():
            raise refusals.lost(node, f"while {remote} was copied") from None
