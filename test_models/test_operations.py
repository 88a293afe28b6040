"""The two stacks compared operation by operation: `pytest test_models/test_operations.py`.

One test for each operation that networks use: value, gradient and, for elementwise functions, the
accuracy against float64. With `--lmsv-adapter-fixes off` the adapter runs as its makers ship it.
"""

from __future__ import annotations

import pytest

from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.report import operations
from pytest_lmsv.report.operations import Sweeps


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "operation" in metafunc.fixturenames:
        metafunc.parametrize("operation", operations.parameters(metafunc.config))


@pytest.fixture(scope="session")
def sweeps(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    pta_env: StackEnvironment,
    msa_env: StackEnvironment,
) -> Sweeps:
    """Both stacks' sweeps, run once a session, however many workers it has."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        shared = shared.parent  # xdist gives each worker a folder in the session's own
    return operations.run_sweeps(request.config, shared, pta_env, msa_env)


@pytest.fixture
def findings(operation: str, sweeps: Sweeps) -> operations.Findings:
    """In what MSA's operation differs from PTA's; an ERROR where PTA itself has no result."""
    return sweeps.findings(operation)


def test_operation(operation: str, sweeps: Sweeps, findings: operations.Findings) -> None:
    """MSA computes it as PTA does."""
    sweeps.conclude(operation, findings)
