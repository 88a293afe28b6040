"""The guard of one run: a program that ends the run's whole tree when nobody holds its stdin.

Standard library only, Python >= 3.6, Linux: run as a file here, sent as ``python3 -u -c SOURCE``
to other machines. Its scan is also imported by the package, so it may not import the package.

First line of stdin: one JSON object
    argv, cwd, run_id        what to run, where, and its mark
    log                      the file that takes stdout and stderr; starts empty
    env                      the complete environment (``inherit`` true: on top of the guard's own)
    heartbeat_s              0: only EOF ends the run; else silence on stdin for so long does too
    grace_s                  seconds between SIGTERM and SIGKILL
    parent                   optional pid: the guard ends the run also when this parent dies
Then any byte is a heartbeat, and ``q`` means quit. At the end, one JSON line on stdout:
    exit_status              of the command, negative for a signal; null if it never started
    ended                    exit | eof | silence | quit
    leftovers                [{pid, command}]: outlived the command (exit), or SIGTERM (the others)
    unkillable               [{pid, command}]: still there after SIGKILL
    problem                  only if the command could not be started: why
"""

# No `from __future__ import annotations` (3.7) and no typing: quoted annotations cost nothing.
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False  # `typing` takes 3 ms of a start; checkers know this name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MARK = "LMSV_RUN_ID"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SETTLE_S = 0.25  # a child that is just ending when its parent has ended is no leftover
KILL_S = 10.0  # a process that SIGKILL does not end in so long hangs in the kernel


class Process:
    """A live process; ``start`` (clock ticks since boot) tells it from a later one of that pid."""

    __slots__ = ("command", "pid", "start")

    def __init__(self, pid: int, start: int, command: str) -> None:
        self.pid = pid
        self.start = start
        self.command = command

    def as_json(self) -> "dict[str, object]":
        return {"pid": self.pid, "command": self.command}


def read(path: str) -> bytes:
    """The whole of a /proc file; OSError if the process is gone or is another user's."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = []  # type: list[bytes]
        while True:
            part = os.read(descriptor, 65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        os.close(descriptor)


def status(pid: int) -> "tuple[int, int] | None":
    """(parent, start) of a live process; None for a zombie or no process."""
    try:
        text = read(f"/proc/{pid}/stat")
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    # A zombie leader whose other threads still run is alive.
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:
        return None
    return int(fields[1]), int(fields[19])


def carries(pid: int, entry: bytes) -> bool:
    """Whether the environment of *pid* holds exactly *entry* (``NAME=value``)."""
    try:
        return entry in read(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        return False


def command_of(pid: int) -> str:
    try:
        return read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def scan(run_id: str, root: int = 0) -> "list[Process]":
    """Every live process that carries exactly this run id or descends from *root*.

    Never this process itself nor one of its ancestors, whatever their environment.
    """
    entry = (MARK + "=" + run_id).encode("utf-8", "surrogateescape")
    alive = {}  # type: dict[int, tuple[int, int]]
    children = {}  # type: dict[int, list[int]]
    for item in os.scandir("/proc"):
        if item.name.isdigit():
            pid = int(item.name)
            state = status(pid)
            if state is not None:
                alive[pid] = state
                children.setdefault(state[0], []).append(pid)
    spared = set()  # type: set[int]
    pid = os.getpid()
    while pid in alive and pid not in spared:
        spared.add(pid)
        pid = alive[pid][0]
    ours = {pid for pid in alive if pid not in spared and carries(pid, entry)}
    queue = list(children.get(root, ())) if root else []
    while queue:
        pid = queue.pop()
        if pid not in spared:
            ours.add(pid)
            queue.extend(children.get(pid, ()))
    return [Process(pid, alive[pid][1], command_of(pid)[:200]) for pid in sorted(ours)]


def send(process: Process, number: int) -> None:
    """Signal the process that was scanned, never a later one that got its pid."""
    pidfd_open = getattr(os, "pidfd_open", None)  # Python 3.9, Linux 5.3
    descriptor = None
    try:
        if pidfd_open is not None:
            try:
                descriptor = pidfd_open(process.pid)
            except OSError:
                if not os.path.exists(f"/proc/{process.pid}"):  # noqa: PTH110 (3 ms of import)
                    return
        state = status(process.pid)
        if state is None or state[1] != process.start:
            return
        if descriptor is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return
    finally:
        if descriptor is not None:
            os.close(descriptor)


def end_all(
    run_id: str,
    grace_s: float,
    root: int = 0,
    pause: "Callable[[float], bool] | None" = None,
) -> "tuple[list[Process], list[Process]]":
    """End all of :func:`scan`: SIGTERM once each, after the grace SIGKILL until none is left.

    Returns those that SIGTERM did not end, and those that nothing ended. *pause* waits a moment,
    reaps, and says whether a child is left (the guard's own; others go by two empty scans).
    """
    asked = set()  # type: set[tuple[int, int]]
    stubborn = {}  # type: dict[tuple[int, int], Process]
    term_until = time.monotonic() + grace_s
    kill_until = term_until + KILL_S
    empty = 0
    while True:
        now = time.monotonic()
        live = scan(run_id, root)
        forced = now >= term_until
        for process in live:
            key = (process.pid, process.start)
            if forced:
                stubborn[key] = process
                send(process, signal.SIGKILL)
            elif key not in asked:
                asked.add(key)
                send(process, signal.SIGTERM)
        # Polling, since most of them are no children of ours: 0.5 ms in a storm, 20 ms in peace.
        if pause is None:
            time.sleep(0.005 if forced else 0.02)
            empty = 0 if live else empty + 1
            done = empty >= 2
        else:
            done = not pause(0.0005 if forced else 0.02) and not live
        if done:
            return list(stubborn.values()), []
        if now >= kill_until:
            return list(stubborn.values()), live


class Guard:
    """The command and what is left of it, seen from its guard."""

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.spec = spec
        self.run_id = str(spec["run_id"])
        self.child = 0
        self.exit_status = None  # type: int | None
        self.asked = ""

    def start(self) -> None:
        """Start the command; OSError or ValueError if that is not possible."""
        spec = self.spec
        env = dict(os.environb) if spec.get("inherit") else {}
        env.update({code(name): code(value) for name, value in spec["env"].items()})
        env[code(MARK)] = code(self.run_id)
        log = os.open(code(spec["log"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(log, 2)  # so that a traceback of ours is found in the log too
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            self.child = subprocess.Popen(
                [code(part) for part in spec["argv"]],
                env=env,
                cwd=code(spec["cwd"]),
                stdin=nothing,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ).pid
        os.close(log)

    def reap(self) -> bool:
        """Collect what ended; whether a child is left (orphans of the tree come back to us)."""
        while True:
            try:
                pid, state = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                self.exit_status = -os.WTERMSIG(state) if os.WIFSIGNALED(state) else state >> 8

    def pause(self, seconds: float) -> bool:
        """Wait so long or for a signal; the shortest waits belong to the time of SIGKILL."""
        if seconds < 0.01:
            self.kill_children()
        select.select([WAKE[0]], [], [], seconds)
        drain(WAKE[0])
        return self.reap()

    def kill_children(self) -> None:
        """A chain of short-lived forks outruns a scan, but each orphan becomes a child of ours."""
        me = os.getpid()
        try:
            pids = read(f"/proc/{me}/task/{me}/children").split()
        except OSError:  # a kernel without CONFIG_PROC_CHILDREN
            return
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)  # not reaped yet, so the pid is still theirs
            except OSError:
                continue  # another user's: named as unkillable in the end

    def wait(self, early: bytes) -> str:
        """Wait for the end of the command or of the interest in it; returns ``ended``."""
        limit = float(self.spec.get("heartbeat_s") or 0)
        heard = time.monotonic()
        if b"q" in early:
            self.asked = "quit"
        while True:
            self.reap()
            if self.exit_status is not None:
                return "exit"
            if self.asked:
                return self.asked
            left = max(0.0, heard + limit - time.monotonic()) if limit else None
            ready = select.select([0, WAKE[0]], [], [], left)[0]
            if WAKE[0] in ready and TERM in drain(WAKE[0]):
                self.asked = "quit"
            if 0 in ready:
                heartbeat = os.read(0, 4096)
                heard = time.monotonic()
                if not heartbeat:
                    self.asked = "eof"
                elif b"q" in heartbeat:
                    self.asked = "quit"
            elif limit and time.monotonic() >= heard + limit:
                self.asked = "silence"

    def clean_up(self, ended: str) -> "tuple[list[Process], list[Process]]":
        """End what is left of the tree; returns leftovers and unkillable ones."""
        me, grace = os.getpid(), float(self.spec.get("grace_s") or 0)
        found = []  # type: list[Process]
        if ended == "exit":
            until = time.monotonic() + SETTLE_S
            while True:
                found = scan(self.run_id, me)
                if (not found and not self.reap()) or time.monotonic() >= until:
                    break
                self.pause(0.02)
            if not found and not self.reap():
                return [], []
        stubborn, unkillable = end_all(self.run_id, grace, me, self.pause)
        named = {(process.pid, process.start) for process in found}
        return found + [p for p in stubborn if (p.pid, p.start) not in named], unkillable


def code(text: object) -> bytes:
    """Bytes for the system calls, also under Python 3.6 with an ASCII locale."""
    return str(text).encode("utf-8", "surrogateescape")


WAKE = (-1, -1)
TERM = int(signal.SIGTERM)


def drain(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""


def prepare_signals() -> None:
    """Every signal wakes the loop; a handler, unlike SIG_IGN, is not inherited by the command."""
    global WAKE
    WAKE = os.pipe()
    for descriptor in WAKE:
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(WAKE[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def read_spec() -> "tuple[dict[str, Any], bytes]":
    """The specification and what was already read after it; exits if stdin ends before."""
    buffer = b""
    while b"\n" not in buffer:
        part = os.read(0, 65536)
        if not part:
            sys.exit(1)
        buffer += part
    line, early = buffer.split(b"\n", 1)
    return json.loads(line.decode("utf-8")), early


def main() -> int:
    prepare_signals()
    spec, early = read_spec()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.stderr.write("guard: this kernel has no PR_SET_CHILD_SUBREAPER\n")
    guard = Guard(spec)
    parent = spec.get("parent")
    if parent:
        # A forked child of the parent may hold our stdin open after the parent's death.
        prctl(PR_SET_PDEATHSIG, TERM, 0, 0, 0)
        if os.getppid() != parent:
            guard.asked = "eof"
    report = {"exit_status": None, "ended": "exit"}  # type: dict[str, Any]
    leftovers, unkillable = [], []  # type: list[Process], list[Process]
    try:
        guard.start()
    except (OSError, ValueError) as error:
        report["problem"] = str(error)
    else:
        report["ended"] = guard.wait(early)
        leftovers, unkillable = guard.clean_up(report["ended"])
        report["exit_status"] = guard.exit_status
    report["leftovers"] = [process.as_json() for process in leftovers]
    report["unkillable"] = [process.as_json() for process in unkillable]
    try:
        os.write(1, json.dumps(report).encode("ascii") + b"\n")
    except OSError:
        return 1  # nobody listens any more
    return 0


if __name__ == "__main__":
    sys.exit(main())
