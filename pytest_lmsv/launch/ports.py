"""TCP ports of a run: disjoint between device sets, and tested before use."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from pytest_lmsv.problems import EnvironmentProblem

HCCL_PORTS = 61000  # above Linux's ephemeral range; HCCL takes up to 16 from its base port on
HCCL_STEP = 16
MASTER_PORTS = 20000  # up to the ephemeral range, from which outgoing connections take theirs
MASTER_STEP = 100


def hccl_base_port(number: int) -> int:
    """``HCCL_IF_BASE_PORT`` of the set whose first device is *number*."""
    return HCCL_PORTS + HCCL_STEP * number


def free_port(number: int) -> int:
    """A free TCP port for set *number*: from its own hundred below the ephemeral range.

    Nothing reserves it: use it at once, and take another one after "address in use".
    """
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Where an administrator widened the range down to our ports, the test alone must do.
    top = ephemeral if ephemeral >= MASTER_PORTS + MASTER_STEP else 32768
    first = MASTER_PORTS + MASTER_STEP * (number % ((top - MASTER_PORTS) // MASTER_STEP))
    ports = list(range(first, first + MASTER_STEP))
    random.shuffle(ports)
    for port in ports:
        if is_free(port):
            return port
    raise EnvironmentProblem(
        f"no free TCP port from {first} to {first + MASTER_STEP - 1}: end what listens there",
        "port_in_use",
    )


def is_free(port: int) -> bool:
    """Whether a server could listen on *port*, on any address of either protocol."""
    addresses = [
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET6, "::"),
        (socket.AF_INET, "127.0.0.1"),
    ]
    for family, address in addresses:
        try:
            with socket.socket(family) as server:
                if family == socket.AF_INET6:
                    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                server.bind((address, port))
                server.listen(1)
        except OSError:
            if family == socket.AF_INET6 and not has_ipv6():
                continue
            return False
    return True


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as server:
            server.bind(("::", 0))
    except OSError:
        return False
    return True
