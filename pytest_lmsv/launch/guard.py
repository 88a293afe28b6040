"""The guard of one run: a program that ends the run's whole tree when nobody holds its stdin.

Standard library only, Linux, Python >= 3.6 (hence quoted annotations and type comments): run as
a file here, sent as ``python3 -u -c SOURCE`` to other machines. Its scan is also imported by the
package, so it may not import the package.

First line of stdin: one JSON object
    argv, cwd, run_id  what to run, where, and its mark
    log                the file that takes stdout and stderr; starts empty
    env, inherit       the complete environment; with inherit, on top of the guard's own,
    without            of which it gets nothing whose NAME= begins with one of these
    heartbeat_s        0: only EOF ends the run; else silence on stdin for so long does too
    grace_s            seconds between SIGTERM and SIGKILL
    parent             optional pid: the guard ends the run also when this parent dies
Then any byte is a heartbeat, and ``q`` means quit. At the end, one JSON line on stdout:
    exit_status        of the command, negative for a signal; null if it never started
    ended              exit | eof | silence | quit
    leftovers          [{pid, command}]: outlived the command (exit), or SIGTERM (the others);
                       unkillable, likewise: still there after SIGKILL
    ago                seconds since the command ended; 0 if that was not seen
    problem            only if the command could not be started: why
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False  # `typing` takes 3 ms of a start; type checkers know this name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SETTLE_S = 0.25  # a child that is just ending when its parent has ended is no leftover
KILL_S = 10.0  # a process that SIGKILL does not end in so long hangs in the kernel


class Process:
    """A live process; ``start`` (clock ticks since boot) tells it from a later one of that pid."""

    __slots__ = ("command", "pid", "start")

    def __init__(self, pid: int, start: int) -> None:
        self.pid, self.start = pid, start
        command = read(pid, "cmdline").replace(b"\0", b" ")
        self.command = command[:200].decode("utf-8", "replace").strip()


def read(pid: int, name: str) -> bytes:
    """The whole of a file in /proc/PID; empty if the process is gone or is another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", 0) as file:  # noqa: PTH123 (pathlib: 5 ms of a start)
            return file.read()
    except OSError:
        return b""


def status(pid: int) -> "tuple[int, int] | None":
    """(parent, start) of a live process; None for a zombie or no process."""
    fields = read(pid, "stat").rpartition(b")")[2].split()
    # A zombie leader whose other threads still run is alive.
    if not fields or (fields[0] in (b"Z", b"X") and int(fields[17]) <= 1):
        return None
    return int(fields[1]), int(fields[19])


def scan(run_id: str, root: int = 0) -> "list[Process]":
    """Every live process of exactly this run id or under *root*, but us and our ancestors."""
    entry = code("LMSV_RUN_ID=" + run_id)
    alive = {}  # type: dict[int, tuple[int, int]]
    children = {}  # type: dict[int, list[int]]
    for item in os.scandir("/proc"):
        state = status(int(item.name)) if item.name.isdigit() else None
        if state is not None:
            alive[int(item.name)] = state
            children.setdefault(state[0], []).append(int(item.name))
    spared = set()  # type: set[int]
    pid = os.getpid()
    while pid in alive and pid not in spared:
        spared.add(pid)
        pid = alive[pid][0]
    ours = {pid for pid in alive if entry in read(pid, "environ").split(b"\0")} - spared
    queue = list(children.get(root, ())) if root else []
    while queue:
        pid = queue.pop()
        if pid not in spared:
            ours.add(pid)
            queue.extend(children.get(pid, ()))
    return [Process(pid, alive[pid][1]) for pid in sorted(ours)]


def send(process: Process, number: int) -> None:
    """Signal the process that was scanned, never a later one that got its pid."""
    descriptor = -1
    try:
        if hasattr(os, "pidfd_open"):  # Python 3.9
            descriptor = os.pidfd_open(process.pid)
        state = status(process.pid)
        if state is not None and state[1] == process.start:
            if descriptor >= 0:
                signal.pidfd_send_signal(descriptor, number)
            else:
                os.kill(process.pid, number)
    except OSError:
        return  # gone, or another user's: the caller sees what is still there
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def end_all(
    run_id: str, grace_s: float, root: int = 0, pause: "Callable[[float], bool] | None" = None
) -> "tuple[list[Process], list[Process], list[Process]]":
    """End all of :func:`scan`: SIGTERM once each, after the grace SIGKILL until none is left.

    Returns all that were found, those that SIGTERM did not end, those that nothing ended.
    *pause* waits a moment, reaps, and says whether a child is left: exact, for a subreaper.
    Others go by two empty scans (a process in the middle of an exec has no environment).
    """
    found = {}  # type: dict[tuple[int, int], Process]
    stubborn = {}  # type: dict[tuple[int, int], Process]
    term_until = time.monotonic() + grace_s
    empty = 0
    while True:
        live = scan(run_id, root)
        now = time.monotonic()
        for process in live:
            key = (process.pid, process.start)
            if now >= term_until:
                stubborn[key] = process
                send(process, signal.SIGKILL)
            elif key not in found:
                send(process, signal.SIGTERM)
            found.setdefault(key, process)  # a dying one has lost its command line
        if pause is None:
            time.sleep(0.02 if now < term_until else 0.005)
            empty = 0 if live else empty + 1
        else:
            empty = 0 if pause(0.02 if now < term_until else 0.0005) or live else 2
        if empty == 2 or now >= term_until + KILL_S:
            return list(found.values()), list(stubborn.values()), live


class Guard:
    """The command and what is left of it, seen from its guard."""

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.spec = spec
        self.child = None  # type: subprocess.Popen[bytes] | None
        self.exit_status, self.ended_at = None, float("inf")  # type: int | None, float
        self.asked = ""
        # Every signal wakes the loop; a handler, unlike SIG_IGN, is not inherited by the command.
        self.waker, waking = os.pipe()
        os.set_blocking(self.waker, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def adopt(self) -> None:
        """Orphans of the tree become our children, and we hear of our parent's death."""
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if self.spec.get("parent"):
            # A forked child of the parent may hold our stdin open after the parent's death.
            prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != self.spec["parent"]:
                self.asked = "eof"

    def start(self) -> None:
        """Start the command; OSError or ValueError if that is not possible."""
        spec, without = self.spec, tuple(map(code, self.spec.get("without", ())))
        own = os.environb.items() if spec.get("inherit") else ()
        env = {name: text for name, text in own if not (name + b"=").startswith(without)}
        env.update({code(name): code(value) for name, value in spec["env"].items()})
        env[b"LMSV_RUN_ID"] = code(spec["run_id"])
        log = os.open(code(spec["log"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        os.dup2(log, 2)  # so that a traceback of ours is found there too
        self.child = subprocess.Popen(  # kept: as garbage it would wait for its process itself
            [code(part) for part in spec["argv"]],
            env=env,
            cwd=code(spec["cwd"]),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        os.close(log)

    def reap(self) -> bool:
        """Collect what ended; whether a child is left."""
        while True:
            try:
                pid, state = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if self.child is not None and pid == self.child.pid:
                self.exit_status = -os.WTERMSIG(state) if os.WIFSIGNALED(state) else state >> 8
                self.ended_at = time.monotonic()

    def woken(self) -> bytes:
        """The numbers of the signals that came."""
        try:
            return os.read(self.waker, 4096)
        except BlockingIOError:
            return b""

    def pause(self, seconds: float) -> bool:
        """Wait so long or for a signal; the shortest waits belong to the time of SIGKILL."""
        if seconds < 0.01:
            self.kill_children()
        select.select([self.waker], [], [], seconds)
        self.woken()
        return self.reap()

    def kill_children(self) -> None:
        """A chain of short-lived forks outruns a scan, but each orphan becomes a child of ours."""
        for pid in read(os.getpid(), f"task/{os.getpid()}/children").split():
            try:
                os.kill(int(pid), signal.SIGKILL)  # not reaped yet, so the pid is still theirs
            except OSError:
                continue  # another user's: the scan names it

    def wait(self, early: bytes) -> str:
        """Wait for the end of the command or of the interest in it; returns ``ended``."""
        limit = float(self.spec.get("heartbeat_s") or 0)
        heard = time.monotonic()
        self.asked = self.asked or ("quit" if b"q" in early else "")
        while True:
            self.reap()
            if self.exit_status is not None or self.asked:
                return self.asked if self.exit_status is None else "exit"
            left = max(0.0, heard + limit - time.monotonic()) if limit else None
            ready = select.select([0, self.waker], [], [], left)[0]
            if signal.SIGTERM in self.woken():
                self.asked = "quit"
            if 0 in ready:
                heartbeat = os.read(0, 4096)
                heard = time.monotonic()
                if not heartbeat or b"q" in heartbeat:
                    self.asked = "quit" if heartbeat else "eof"
            elif limit and time.monotonic() >= heard + limit:
                self.asked = "silence"

    def clean_up(self, ended: str) -> "tuple[list[Process], list[Process]]":
        """End what is left of the tree; returns leftovers and unkillable ones."""
        me, run_id, until = os.getpid(), self.spec["run_id"], time.monotonic() + SETTLE_S
        while ended == "exit" and time.monotonic() < until:
            if not self.reap() and not scan(run_id, me):
                return [], []
            self.pause(0.02)
        found, stubborn, left = end_all(run_id, float(self.spec["grace_s"]), me, self.pause)
        return found if ended == "exit" else stubborn, left


def code(text: object) -> bytes:
    """Bytes for the system calls, also under Python 3.6 with an ASCII locale."""
    return str(text).encode("utf-8", "surrogateescape")


def main() -> int:
    line = b""
    while b"\n" not in line:
        line, before = line + os.read(0, 65536), line
        if line == before:
            return 1
    line, early = line.split(b"\n", 1)
    guard = Guard(json.loads(line.decode("utf-8")))
    report = {"exit_status": None, "ended": "exit", "ago": 0.0}  # type: dict[str, Any]
    left = [], []  # type: tuple[list[Process], list[Process]]
    try:
        guard.adopt()
        guard.start()
    except (OSError, ValueError) as error:
        where = os.fsdecode(getattr(error, "filename", None) or b"")
        report["problem"] = ": ".join(filter(None, [getattr(error, "strerror", str(error)), where]))
    else:
        report["ended"] = guard.wait(early)
        left = guard.clean_up(report["ended"])
        report["exit_status"] = guard.exit_status
        report["ago"] = max(0.0, time.monotonic() - guard.ended_at)
    for name, processes in zip(("leftovers", "unkillable"), left):  # noqa: B905 (Python 3.10)
        report[name] = [{"pid": process.pid, "command": process.command} for process in processes]
    try:
        os.write(1, json.dumps(report).encode("ascii") + b"\n")
    except OSError:
        return 1  # nobody listens any more
    return 0


if __name__ == "__main__":
    sys.exit(main())
