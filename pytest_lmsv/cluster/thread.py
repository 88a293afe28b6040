"""One event loop in a thread of its own, for all connections of this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def loop() -> asyncio.AbstractEventLoop:
    """The running loop; the thread starts with the first call and ends with the process."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="lmsv-ssh", daemon=True).start()
        return _loop


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Run *work* there and return its result; an interrupt of the caller cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
