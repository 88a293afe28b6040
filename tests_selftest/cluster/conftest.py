"""Fixtures of the tests over several machines: skipped by name where machines can't be made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests_selftest.cluster import hosts as machines
from tests_selftest.cluster.faults import FaultTable
from tests_selftest.cluster.hosts import Hosts


@pytest.fixture(scope="session")
def can_have_hosts() -> None:
    """Skip, or fail where LMSV_REQUIRE_MULTINODE=1, on a machine that can't have hosts."""
    lacking = machines.missing()
    if lacking is not None:
        unavailable(lacking)


def unavailable(why: str) -> None:
    if os.environ.get("LMSV_REQUIRE_MULTINODE") == "1":
        pytest.fail(f"LMSV_REQUIRE_MULTINODE=1, but {why}", pytrace=False)
    pytest.skip(f"needs several machines: {why}")


@pytest.fixture
def hosts(can_have_hosts: None, tmp_path: Path) -> Iterator[Hosts]:
    """Two hosts that don't see the test's own folder; this process is the master beside them."""
    with machines.hosts(tmp_path, hidden=[tmp_path]) as found:
        yield found


@pytest.fixture
def fault_table(request: pytest.FixtureRequest) -> FaultTable:
    """Takes the measured rows of faults, and shows them."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")

    def say(line: str) -> None:
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"\n{line}")

    return FaultTable(say)
