"""What a failed run means: the table of DESIGN 5.3, row by row."""

from __future__ import annotations

import pytest

from pytest_lmsv.judge.policy import next_step
from pytest_lmsv.records import Metrics, RunError, RunRecord


def failed(category: str, steps: int = 0) -> RunRecord:
    times = tuple((step, 1.0) for step in range(1, steps + 1))
    error = RunError("E", "", category)
    return RunRecord("msa", 1, "error", False, Metrics(step_time_ms=times), error)


@pytest.mark.parametrize("category", ["port_in_use", "lost_node", "no_space", "device_busy"])
def test_the_environment_gets_one_more_run(category: str) -> None:
    assert next_step(failed(category), 1) == "again"
    assert next_step(failed(category), 2) == "environment"


@pytest.mark.parametrize("category", ["missing_module", "file_missing", "weights"])
def test_where_no_retry_helps_there_is_none(category: str) -> None:
    assert next_step(failed(category), 1) == "environment"


@pytest.mark.parametrize("category", ["hccl_comm", "killed", "hang"])
def test_a_second_failure_counts_unless_something_is_gone(category: str) -> None:
    assert next_step(failed(category), 1) == "again"
    assert next_step(failed(category), 2) == "final"
    assert next_step(failed(category), 2, resources_gone="no space left") == "environment"


def test_a_hang_after_the_first_step_is_no_matter_of_the_environment() -> None:
    assert next_step(failed("hang", steps=1), 1) == "final"


@pytest.mark.parametrize(
    "category",
    [
        "out_of_memory",
        "device_exception",
        "aclnn_param",
        "op_compile",
        "numeric_nan",
        "config_assertion",
        "segfault",
        "incomplete",
        "other_python",
        "unknown",
    ],
)
def test_all_else_counts_at_once(category: str) -> None:
    assert next_step(failed(category), 1) == "final"


def test_a_failure_without_a_reason_counts_at_once() -> None:
    assert next_step(RunRecord("pta", 1, "error", None, Metrics()), 1) == "final"
