"""The guard as a program for other machines: sent as source, with a heartbeat."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_lmsv.launch import guard, local
from tests_selftest.launch.awkward import (
    AWKWARD,
    STORM,
    alive,
    carriers,
    new_run_id,
    pids,
)


@pytest.fixture
def run_id() -> Iterator[str]:
    name = new_run_id()
    yield name
    local.end_run(name, 0)


def speak(tmp_path: Path, run_id: str, **more: object) -> tuple[subprocess.Popen[bytes], Path]:
    """The guard as it is sent to another machine: from its source, with a heartbeat."""
    source = Path(guard.__file__).read_text(encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin is not None
    specification = {
        "argv": ["bash", "-c", AWKWARD + "sleep 300"],
        "env": {},
        "inherit": True,
        "cwd": str(tmp_path),
        "log": str(tmp_path / "log"),
        "run_id": run_id,
        "heartbeat_s": 0,
        "grace_s": 0.3,
        **more,
    }
    process.stdin.write(json.dumps(specification).encode() + b"\n")
    return process, tmp_path / "log"


@pytest.mark.parametrize(
    ("last", "ended"), [(b"q", "quit"), (b"hhhq", "quit"), (None, "eof"), (b"", "silence")]
)
def test_a_guard_sent_as_source_ends_the_tree(
    last: bytes | None, ended: str, tmp_path: Path, run_id: str
) -> None:
    process, log = speak(tmp_path, run_id, heartbeat_s=0.5)
    assert process.stdin is not None
    assert process.stdout is not None
    begun = time.monotonic()
    while (
        "ready" not in (log.read_text() if log.exists() else "") or time.monotonic() < begun + 0.8
    ):
        process.stdin.write(b"h")
        time.sleep(0.1)
    if last is None:
        process.stdin.close()
    else:
        process.stdin.write(last)
    report = json.loads(process.stdout.readline())
    process.stdin.close()
    process.stdout.close()
    assert process.wait() == 0
    assert (report["ended"], report["exit_status"]) == (ended, -signal.SIGTERM)
    assert not [pid for pid in pids(tmp_path).values() if alive(pid)]


def test_the_report_says_how_long_ago_the_command_ended(tmp_path: Path, run_id: str) -> None:
    deaf = "(trap '' TERM; exec sleep 300) & exit 3"
    process, _ = speak(tmp_path, run_id, argv=["bash", "-c", deaf], grace_s=1.0)
    with process:
        assert process.stdout is not None
        report = json.loads(process.stdout.readline())
    assert (report["ended"], report["exit_status"]) == ("exit", 3)
    assert 1.0 <= report["ago"] < 5


def test_a_heartbeat_that_stops_under_a_storm_is_noticed(tmp_path: Path, run_id: str) -> None:
    process, _ = speak(tmp_path, run_id, heartbeat_s=0.5, argv=["bash", "-c", STORM])
    assert process.stdin is not None
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["ended"] == "silence"
    process.stdin.close()
    process.stdout.close()
    process.wait()
    assert not carriers(run_id)


def test_the_guard_is_source_for_python_3_6_without_the_package() -> None:
    source = Path(guard.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source, feature_version=(3, 6))
    imported = {
        alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported <= set(sys.stdlib_module_names)
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom)]
