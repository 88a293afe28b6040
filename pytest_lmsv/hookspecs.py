"""The hooks that a project may implement beside its data (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_lmsv.records import IterationRecord


@pytest.hookspec
def pytest_lmsv_config_dirs(config: pytest.Config) -> Sequence[Path]:  # type: ignore[empty-body]
    """Return further folders of models, as ini ``lmsv_config_dirs`` does.

    For plugins that bring models::

        def pytest_lmsv_config_dirs(config):
            return [Path(__file__).parent / "models"]
    """


@pytest.hookspec
def pytest_lmsv_iteration_finished(config: pytest.Config, record: IterationRecord) -> None:
    """Do something with a finished iteration, in the process that ran it.

    To send figures to a database of your own::

        def pytest_lmsv_iteration_finished(config, record):
            database.add(record.model, record.iteration, record.verdicts)
    """
