"""What torchrun, msrun and srun say of the ranks that ended."""

from __future__ import annotations

import re

from pytest_lmsv.logs.candidate import Candidate
from pytest_lmsv.logs.text import RawLine

BANNER_LINES = 400
_SIGNAL = re.compile(r"Signal (\d{1,2}) \((SIG[A-Z]{2,6})\) received by PID \d")
_EXIT_CODE = re.compile(r"(?:exitcode\s{0,4}:|Error code:)\s{0,2}-(\d{1,2})\b")
_BANNER = re.compile(r"\s{1,4}(rank|exitcode|traceback)\s{1,6}: (.{0,300})")
IN_BANNER = re.compile(r" {2}traceback {1,6}: \Z")
INDENT = r" {2}"
"""What stands before each line of a traceback in torchrun's list."""
_HOOK = re.compile(r"\(PID:\d{1,9},.{0,40}RankID:(-?\d{1,6})\) (ERR\d{5})\b")
_PID_ENDED = re.compile(r"Worker process (\d{1,9}) exit\w* with exception")
_LAUNCHER = re.compile(
    r"process \d{1,9} exit\w* with exception|failed \(exitcode: -?\d{1,5}\)"
    r"|Distributed job exited with exception|srun: error: .{1,100}: Exited with exit code"
)
SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV",
           1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}  # fmt: skip


class Launcher:
    """Which rank failed first, and how, in the words of the launchers."""

    def __init__(self) -> None:
        self.first_failed: int | None = None
        """The rank that torchrun names as the first to fail."""
        self.first_pid: int | None = None
        """The process that msrun names as the first to fail."""
        self.failed_at: int | None = None
        """Order of the last line in which a launcher says that a rank failed."""
        self._lines = 0
        self.rank: int | None = None
        """The rank that torchrun's list is at."""
        self._root_cause = False

    def begin_banner(self, order: int) -> None:
        """torchrun's list of failed ranks begins."""
        self.failed_at = order
        self._lines, self._root_cause = BANNER_LINES, False

    def banner_line(self, raw: RawLine, text: str, order: int) -> Candidate | None:
        """A line that may be of the list: the rank under `Root Cause` failed first."""
        if not self._lines:
            return None
        self._lines -= 1
        if text.startswith("Root Cause"):
            self._root_cause = True
        match = _BANNER.match(text)
        if match and match[1] == "rank":
            digits = match[2].split(" ")[0]
            self.rank = int(digits) if digits.isdigit() else None
            if self._root_cause and self.first_failed is None:
                self.first_failed = self.rank
        elif match and match[1] == "exitcode" and self._root_cause:
            code = re.match(r"(\d{1,5}) \(pid", match[2])
            if code and int(code[1]) > 1 and self.first_failed == self.rank:
                line = text.strip()
                return Candidate("exit", "ExitStatus", line, line, raw, order, self.rank)
        return None

    def line(self, raw: RawLine, text: str, order: int, rank: int | None) -> list[Candidate]:
        """What an end that *text* reports amounts to."""
        found = []
        line = text.strip()
        if "xit" in text and _LAUNCHER.search(text):
            if self.failed_at is None:
                found.append(Candidate("launcher", "ExitStatus", line, line, raw, order, None))
            self.failed_at = order
            pid = _PID_ENDED.search(text)
            if pid and self.first_pid is None:
                self.first_pid = int(pid[1])
        if "ERR" in text and (hook := _HOOK.search(text)):  # torch_npu's own exit hook
            told = rank if hook[1].startswith("-") else int(hook[1])
            found.append(Candidate("echo", hook[2], line, line, raw, order, told))
        name: str | None = None
        if "Signal " in text and (signal := _SIGNAL.search(text)):
            name = signal[2]
        elif "exitcode" in text or "rror code" in text:
            code = _EXIT_CODE.search(text)
            name = SIGNALS.get(int(code[1])) if code else None
        if name:
            found.append(Candidate("signal", name, line, line, raw, order, self.rank))
        return found
