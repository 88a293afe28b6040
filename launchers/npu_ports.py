"""Checks HCCL's port range of this run: no port in use (exit 2), and reserved (a warning).

``python npu_ports.py BASE COUNT``. The remedy is a sysctl line that this program only prints: ports
of a machine belong to its administrator.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROC = Path("/proc")


HELD = {"01", "0A"}
"""States of /proc/net/tcp in which a port is held: established and listening. A run that ended a
moment ago leaves ports in TIME_WAIT, which keeps nobody from them."""


def used(proc: Path = PROC) -> set[int]:
    """Return the local TCP ports that sockets of this machine hold."""
    ports: set[int] = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            if words[3] in HELD:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def reserved(proc: Path = PROC) -> set[int]:
    """Return the ports that the kernel never gives to an outgoing connection."""
    try:
        text = (proc / "sys/net/ipv4/ip_local_reserved_ports").read_text(encoding="ascii")
        low, high = (proc / "sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return set(range(65536))  # the system does not tell: nothing to warn of
    ports = set(range(int(low))) | set(range(int(high) + 1, 65536))
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.strip():
            ports.update(range(int(first), int(last or first) + 1))
    return ports


def main(argv: list[str]) -> int:
    """Return 2 where a port of the range is in use, else 0."""
    base, count = int(argv[0]), max(16, int(argv[1]))
    wanted = set(range(base, base + count))
    taken = sorted(wanted & used())
    if taken:
        print(
            f"lmsv: error: HCCL_IF_BASE_PORT {base}: port {taken[0]} is in use; set another range, "
            "or end what uses it",
            file=sys.stderr,
        )
        return 2
    if wanted - reserved():
        line = f'sysctl -w net.ipv4.ip_local_reserved_ports="{base}-{base + count - 1}"'
        print(
            f"lmsv: warning: ports {base}-{base + count - 1} are not reserved for HCCL; an "
            f"administrator can do so: {line}",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
