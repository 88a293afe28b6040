"""The fault table: campaigns over two hosts meet each fault, and all is clean soon after.

Each row measures the seconds from the fault until nothing of the campaign runs on any host, and
what is left; the table is printed at the end of the session. The master is a host of its own, so
that no process of it sees those of the others. Where the launchers' own behaviour is no matter,
the campaign's model is a toy that starts awkward descendants (test_no_orphans' own).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests_selftest.cluster.hosts import Hosts

AIM_S = 10.0
STAY = {"pta0": "awkward", "pta1": "awkward"}


@pytest.fixture
def trio(can_have_hosts: None, tmp_path: Path) -> Hosts:
    """A master that steers, and the two hosts of its campaigns."""
    raise NotImplementedError
