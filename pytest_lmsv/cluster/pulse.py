"""Sent to a node beside a run's guard: says every second that it lives, and whether output grew.

Standard library only, Linux, Python >= 3.6. First line of stdin: JSON {paths, beat_s, silence_s};
then any byte is a heartbeat, and it ends at EOF or after *silence_s* without one. On stdout one
line each *beat_s*: ``+`` where one of *paths* (files, or folders of files) changed, else ``-``.
"""

import json
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def state(paths: "Sequence[str]") -> "list[tuple[str, int, int]]":
    """Name, size and time of change of every file that the run writes its output to."""
    found = []
    for path in paths:
        try:
            files = [path]
            if os.path.isdir(path):  # noqa: PTH112
                files = [entry.path for entry in os.scandir(path)]
            stats = [(name, os.stat(name)) for name in files]  # noqa: PTH116
        except OSError:  # not there yet, or just removed
            continue
        found += [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return found


def line() -> str:
    """The first line of stdin, read without a buffer, since select must see what follows."""
    text = b""
    while not text.endswith(b"\n"):
        part = os.read(0, 1)
        if not part:
            sys.exit(1)
        text += part
    return text.decode("ascii")


def main() -> int:
    given = json.loads(line())
    before, heard, due = state(given["paths"]), time.monotonic(), 0.0
    while True:
        now = time.monotonic()
        if now >= due:
            after = state(given["paths"])
            try:
                os.write(1, b"-\n" if after == before else b"+\n")
            except OSError:
                return 1  # nobody listens any more
            before, due = after, now + given["beat_s"]
        if select.select([0], [], [], max(0.0, due - time.monotonic()))[0]:
            if not os.read(0, 4096):
                return 0
            heard = time.monotonic()
        elif time.monotonic() >= heard + given["silence_s"]:
            return 1


if __name__ == "__main__":
    sys.exit(main())
