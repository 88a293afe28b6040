"""What is wrong with MULTI_NODE ends a session before any test: one line, exit 4."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests_selftest.plugin.conftest import Toy

NODE = {"HOST": "root@127.0.0.1", "LMSV_PATH": "/l"}


def refused(toy: Toy, block: dict[str, Any] | None, *arguments: str, models: str = "toy") -> str:
    if block is not None:
        config = {"MULTI_NODE": {"ENABLED": True, **block}}
        (toy.pytester.path / "nodes.json").write_text(json.dumps(config))
        arguments = ("--lmsv-config=nodes.json", *arguments)
    result = toy.run(*arguments, models=models)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert len(lines) == 1
    return lines[0]


def test_a_controller_needs_machines(toy: Toy) -> None:
    said = refused(toy, None, "--lmsv-controller")
    assert "--lmsv-controller: found no enabled MULTI_NODE; name a file" in said


def test_the_number_of_machines_must_agree(toy: Toy) -> None:
    said = refused(toy, {"NNODES": 3, "OTHER_NODES": [NODE]})
    assert "NNODES is 3, but OTHER_NODES and this machine make 2" in said


def test_a_machine_that_does_not_answer_ends_the_session(toy: Toy) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        node = {**NODE, "SSH_PORT": taken.getsockname()[1]}
        said = refused(toy, {"OTHER_NODES": [node]})
    assert "nothing listens on port" in said
    assert "correct SSH_PORT" in said


def test_npu_needs_the_paths_of_each_machine(toy: Toy) -> None:
    said = refused(toy, {"OTHER_NODES": [NODE]}, "--lmsv-device=npu", models="cogvideox")
    assert "OTHER_NODES[0] (127.0.0.1) has no PTA_NAME, MSA_NAME, PTA_PATH, MSA_PATH" in said


def test_a_user_without_a_host_is_refused(toy: Toy) -> None:
    said = refused(toy, {"OTHER_NODES": [{**NODE, "HOST": "root@"}]})
    assert "HOST of OTHER_NODES[0] is no host" in said
