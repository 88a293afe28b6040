"""Asks the agent of a machine, here or over a connection, and keeps it alive."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from pytest_lmsv.cluster import agent, agent_machine
from pytest_lmsv.launch import guard
from pytest_lmsv.problems import EnvironmentProblem

PING_S = 1.0
ANSWER_S = 60.0
CATEGORIES = {errno.ENOSPC: "no_space", errno.EDQUOT: "no_space", errno.EADDRINUSE: "port_in_use"}


class Channel(Protocol):
    """A live process on a machine."""

    def write(self, text: bytes) -> None:
        """Give it *text*; OSError or EnvironmentProblem where it is gone."""

    def readline(self, timeout: float) -> bytes:
        """Its next line; ``b""`` where it is gone, TimeoutError where none comes."""

    def close(self) -> None:
        """Close its stdin, which ends it."""

    def errors(self) -> str:
        """What it wrote to stderr, after its end."""


class HereChannel:
    """A process on this machine."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._text = b""

    def write(self, text: bytes) -> None:
        """Give it *text*; OSError where it is gone."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def readline(self, timeout: float) -> bytes:
        """Its next line; ``b""`` where it is gone, TimeoutError where none comes."""
        assert self._process.stdout is not None
        until = time.monotonic() + timeout
        while b"\n" not in self._text:
            if not select.select([self._process.stdout], [], [], max(0, until - time.monotonic()))[
                0
            ]:
                raise TimeoutError
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            self._text += part
        line, _, self._text = self._text.partition(b"\n")
        return line + b"\n"

    def close(self) -> None:
        """Close its stdin, which ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def errors(self) -> str:
        """Nothing: its stderr is this process's."""
        return ""


class Agent:
    """One machine's agent. Thread-safe; every question raises EnvironmentProblem."""

    def __init__(self, name: str, channel: Channel) -> None:
        self.name = name
        self._channel = channel
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._ended = False
        try:
            self.facts = self.ask("hello", sources=[source(guard), source(agent_machine)])
        except EnvironmentProblem:
            said = channel.errors().strip().splitlines() if self._ended else []
            if not said:
                raise
            raise EnvironmentProblem(
                f"{name}: no agent started there: {said[-1]}; python3 (3.6 or newer) must be in "
                "PATH of a login over ssh",
                "file_missing",
            ) from None
        """What its machine said of itself (agent.hello)."""
        threading.Thread(target=self._keep_alive, daemon=True, name=f"lmsv-{name}").start()

    @property
    def is_alive(self) -> bool:
        """Whether nothing has shown yet that it is gone."""
        return not self._closed.is_set()

    def ask(self, op: str, *, timeout: float = ANSWER_S, **asked: Any) -> dict[str, Any]:
        """The answer to one question; EnvironmentProblem where it says no, or is gone."""
        line = json.dumps({"op": op, **asked}).encode("ascii") + b"\n"
        with self._lock:
            if self._closed.is_set():
                raise self._gone("it was lost before")
            try:
                self._channel.write(line)
                said = self._channel.readline(timeout)
            except TimeoutError:
                self._closed.set()
                raise self._gone(f"no answer in {timeout:.0f} s") from None
            except EnvironmentProblem:
                self._closed.set()
                raise
            except OSError as error:
                self._closed.set()
                raise self._gone(error.strerror or str(error)) from None
        if not said:
            self._ended = True
            self._closed.set()
            raise self._gone("its agent ended")
        try:
            found: dict[str, Any] = json.loads(said)
        except ValueError:
            self._closed.set()
            raise EnvironmentProblem(
                f"{self.name}: unexpected output {said[:80]!r}; does a start-up file of the shell "
                "there (~/.bashrc) print something? It must not, without a terminal"
            ) from None
        if "problem" in found:
            category = CATEGORIES.get(found.get("errno") or 0)
            raise EnvironmentProblem(f"{self.name}: {found['problem']}", category)
        return found

    def close(self) -> None:
        """End it; its lease is free then."""
        self._closed.set()
        with self._lock:
            self._channel.close()

    def _keep_alive(self) -> None:
        while not self._closed.wait(PING_S):
            try:
                self.ask("ping", timeout=agent.SILENCE_S)
            except EnvironmentProblem:
                return

    def _gone(self, why: str) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"the connection to {self.name} was lost: {why}; look at the machine and the network",
            "lost_node",
        )


def command(python: str = "python3") -> list[str]:
    """What starts an agent on a machine that has nothing of ours."""
    return [python, "-u", "-c", source(agent)]


def source(module: ModuleType) -> str:
    """The text of *module*, to be sent."""
    assert module.__file__ is not None
    return Path(module.__file__).read_text(encoding="utf-8")


def here() -> HereChannel:
    """An agent's process on this machine."""
    return HereChannel([sys.executable, "-I", "-S", "-u", agent.__file__])
