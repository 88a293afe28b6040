"""The fault table: campaigns over two hosts meet each fault, and all is clean soon after.

Each row measures the seconds from the fault until nothing of the campaign runs on any host, and
what is left; the table is printed at the end of the session. The master is a host of its own, so
that no process of it sees those of the others. Where the launchers' own behaviour is no matter,
the campaign's model is a toy that starts awkward descendants (test_no_orphans' own).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_selftest.cluster import hosts as machines
from tests_selftest.cluster.conftest import FaultTable, unavailable
from tests_selftest.cluster.hosts import Hosts
from tests_selftest.cluster.toys import Toy, toy
from tests_selftest.launch.awkward import until

AIM_S = 10.0
STAY = {"pta0": "awkward", "pta1": "awkward"}


@pytest.fixture
def trio(can_have_hosts: None, tmp_path: Path) -> Hosts:
    """A master that steers, and the two hosts of its campaigns."""
    raise NotImplementedError
