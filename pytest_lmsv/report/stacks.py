"""The environments of the stacks for this session, made on first use and said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_lmsv import session
from pytest_lmsv.launch import ascend, environments
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.launch.pins import PINS
from pytest_lmsv.records import Stack

ENVIRONMENTS = pytest.StashKey[dict[str, StackEnvironment]]()


def environment(config: pytest.Config, stack: Stack) -> StackEnvironment:
    """Return the environment of *stack*, building it where that has not been done on this machine.

    Raises EnvironmentProblem with one line where it can't be built.
    """
    known = config.stash.setdefault(ENVIRONMENTS, {})
    if stack not in known:
        settings = session.settings_of(config)
        named = settings.pta_env if stack == "pta" else settings.msa_env
        if settings.device == "npu":
            known[stack] = ascend.environment(stack, named)
            return known[stack]
        known[stack] = environments.ensure(
            stack,
            settings.env_dir or environments.default_folder(),
            named=Path(named) if named else None,
            python=Path(settings.python) if settings.python else None,
            say=session.say(config),
        )
    return known[stack]


def build_missing(config: pytest.Config) -> None:
    """Build the environments that this session needs and this machine has not, saying so first.

    Raises EnvironmentProblem with one line where one can't be built.
    """
    settings = session.settings_of(config)
    if settings.device != "cpu":
        return
    folder = settings.env_dir or environments.default_folder()
    named = {"pta": settings.pta_env, "msa": settings.msa_env}
    python = Path(settings.python) if settings.python else None
    wanted: list[Stack] = sorted(set(settings.sides))
    missing = [
        stack
        for stack in wanted
        if named[stack] is None and environments.existing(stack, folder, python=python) is None
    ]
    if missing:
        size = sum(PINS[stack].installed_mb for stack in missing) / 1024
        session.say(config)(
            f"lmsv: first use on this machine: installing {' and '.join(missing)}, {size:.1f} GB, "
            f"under {folder}; `lmsv setup cpu` does it ahead of time"
        )
    for stack in wanted:
        environment(config, stack)
