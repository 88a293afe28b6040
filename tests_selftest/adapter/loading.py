"""The launchers' modules and small sweeps, as the tests of this folder need them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pytest_lmsv import data
from pytest_lmsv.judge import operations
from pytest_lmsv.judge.operations import Sweep

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

SWEEP = data.launchers() / "cpu" / "sweep.py"


def module(name: str) -> ModuleType:
    """A module of launchers/cpu, loaded from its file; it must need no stack."""
    unique = f"tested_launchers_cpu_{name}"
    spec = importlib.util.spec_from_file_location(unique, SWEEP.with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[unique] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def a_sweep(
    environment: StackEnvironment, out: Path, *more: str, env: Mapping[str, str] | None = None
) -> Sweep:
    """What the real sweep program makes in a stack's environment, run once, without retries."""
    from pytest_lmsv.launch import sweep

    argv = [str(SWEEP), "--stack", environment.stack, "--out", str(out), *more]
    ended = environment.run(argv, cwd=out.parent, env=env, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return operations.sweep(environment.stack, sweep.read(out))


def array(*values: Any, dtype: str = "float32", shape: list[int] | None = None) -> dict[str, Any]:
    """An array as the sweep stores it."""
    return {"dtype": dtype, "shape": shape or [len(values)], "data": list(values)}
