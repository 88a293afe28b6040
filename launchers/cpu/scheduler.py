"""msrun's scheduler process: runs the entry script too, serves the group, and trains nothing.

MindSpore's scheduler looks only every 5 s whether its workers are gone, and waits 30 s for the
heartbeat of one that died. On one node this process can see for itself, so it serves the group in a
child and leaves as soon as the workers that msrun started beside it have ended. A child, not a
thread: MindSpore holds the interpreter's lock while it serves.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

WORKER = b"MS_ROLE=MS_WORKER"
INTERVAL_S = 0.2
PR_SET_PDEATHSIG = 1


def is_scheduler() -> bool:
    """True in the process that msrun started as scheduler."""
    return os.environ.get("MS_ROLE") == "MS_SCHED"


def serve() -> None:
    """Serve the group until its workers are done."""
    if int(os.environ.get("NNODES", "1")) > 1:
        serve_group()
        return
    msrun = os.getppid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # never outlive this process
        serve_group()
        return
    seen = False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            sys.exit(os.waitstatus_to_exitcode(status))
        present = bool(workers_of(msrun))
        if seen and not present:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        seen = seen or present
        time.sleep(INTERVAL_S)


def serve_group() -> None:
    """Be the group's scheduler: MindSpore returns when it thinks that the workers are done."""
    import mindspore
    from mindspore import communication

    mindspore.set_device("CPU")  # the adapter does that in the workers, before they join
    communication.init()


def workers_of(msrun: int) -> list[int]:
    """Return the workers among the living children of the process *msrun*."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in brackets may hold spaces; behind it come state and parent.
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == msrun and state != "Z" and runs_worker(folder):
                found.append(int(folder.name))
        except OSError:
            continue  # ended while we looked
    return found


def runs_worker(folder: Path) -> bool:
    """True where the process at ``/proc/<pid>`` is a worker, and not the tail of its log."""
    started = (folder / "environ").read_bytes().split(b"\0")
    return WORKER in started and b"entry.py" in (folder / "cmdline").read_bytes()
