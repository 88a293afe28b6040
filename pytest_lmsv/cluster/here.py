"""This machine's part of a run over several nodes."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from pytest_lmsv.cluster.ending import NodeEnded
from pytest_lmsv.cluster.nodes import Node
from pytest_lmsv.launch import local
from pytest_lmsv.launch.job import Ended, Job, Reason
from pytest_lmsv.problems import EnvironmentProblem


class Here:
    """A job under a guard on this machine, looked at without waiting."""

    def __init__(self, node: Node, job: Job) -> None:
        self.node, self.job = node, job
        self.end: NodeEnded | None = None
        self.problem: EnvironmentProblem | None = None
        self.grew = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._reason: Reason = "exit"
        self._deadline = 0.0
        self._growth: list[tuple[str, int, int]] = []
        self._looked = 0.0

    def start(self) -> None:
        self._started = self.grew = time.monotonic()
        self._process = local.start(self.job)

    @property
    def over(self) -> bool:
        return self.end is not None or self.problem is not None or self._process is None

    @property
    def handle(self) -> int | None:
        """What becomes readable when there is something to look at."""
        if self.over or self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def look(self) -> None:
        """Take note of output and of the end."""
        now = time.monotonic()
        if self.over or self._process is None:
            return
        if now >= self._looked + local.WATCH_S:
            self._looked = now
            seen = local.growth(self.job)
            if seen != self._growth:
                self._growth, self.grew = seen, now
        left = self._deadline - now if self._deadline else None
        if local.readable(self._process) or (left is not None and left <= 0):
            report = local.read_report(self._process, max(0.0, left) if left is not None else 5.0)
            self._finish(report)

    def stop(self, reason: Reason) -> None:
        """Ask the guard to end the tree; its report says when that is done."""
        if self._process is not None and not self.over and not self._deadline:
            self._reason = reason
            self._deadline = time.monotonic() + self.job.grace + local.END_S
            local.close_stdin(self._process)

    def close(self) -> None:
        """Let go of the guard; one that still runs ends its tree."""
        if self._process is not None:
            with self._process:
                local.close_stdin(self._process)

    def _finish(self, report: dict[str, Any] | None) -> None:
        after = time.monotonic() - self._started
        if report is None:  # the guard was killed
            found, left = local.end_run(self.job.run_id, self.job.grace)
            reason: Reason = self._reason if self._reason != "exit" else "lost"
            ended = Ended(None, reason, after, found, left)
            self.end = NodeEnded(self.node, ended, after, "the guard of the run was killed")
            return
        after -= float(report["ago"])  # the guard says so only when its tree is gone
        try:
            ended = local.ended(report, self.job, self._reason, after)
        except EnvironmentProblem as problem:
            self.problem = problem
            return
        self.end = NodeEnded(self.node, ended, after)
