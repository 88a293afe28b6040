"""The live line: what runs at this moment, on a terminal and in a CI log.

During a test pytest captures the standard output, so the line goes to a copy of it that was made
before. On a terminal one line is written over and over; elsewhere a line is printed when a run
begins, and every minute.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from pytest_lmsv.campaign.progress import Doing, states

ERASE = "\r\x1b[K"
LOOK_EVERY_S, PRINT_EVERY_S = 0.2, 60.0


class Live:
    """Shows the states that the workers of a campaign write."""

    def __init__(self, campaign: Path | None = None) -> None:
        assert sys.__stdout__ is not None
        self._out = os.fdopen(os.dup(sys.__stdout__.fileno()), "w", encoding="utf-8")
        self._terminal = self._out.isatty()
        self._campaign = campaign
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._shown = False
        self._printed: dict[str, tuple[float, Doing]] = {}

    def start(self) -> None:
        """Show states until :meth:`stop`."""
        self._thread = threading.Thread(target=self._watch, name="lmsv-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and take the line away."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.clear()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._erase()
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Take the live line away, so that something else can be printed."""
        with self._lock:
            self._erase()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            assert self._campaign is not None
            doing = list(states(self._campaign))
            with self._lock:
                if self._terminal:
                    self._show(" | ".join(state.line() for _, state in doing))
                else:
                    for worker, state in doing:
                        self._print_now_and_then(worker, state)

    def _show(self, line: str) -> None:
        self._erase()
        if line:
            width = os.get_terminal_size(self._out.fileno()).columns or 80
            self._write(line[: max(1, width - 1)])
            self._shown = True

    def _print_now_and_then(self, worker: str, state: Doing) -> None:
        now = time.monotonic()
        last, before = self._printed.get(worker, (0.0, None))
        begun = before is None or before.since != state.since
        if begun or now - last >= PRINT_EVERY_S:
            self._printed[worker] = (now, state)
            self._write(state.line() + "\n")

    def _erase(self) -> None:
        if self._shown:
            self._write(ERASE)
            self._shown = False

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
