"""Runs the sweep over operations in a stack's environment, and goes on after a crash.

The operations themselves are data of the launchers (``cpu/operations.ini``); this side needs only
their names and sources, and the lines that ``cpu/sweep.py`` writes.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pytest_lmsv.judge import operations
from pytest_lmsv.judge.operations import Sweep
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Stack

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

CRASHES = 20
"""So often may the interpreter end before the sweep is given up."""
TIME_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation as it is listed: what a report and a test need to know of it."""

    name: str
    for_networks: bool
    source: str
    """Source of a function ``operation`` over ``torch`` and ``F``."""
    inputs: Mapping[str, tuple[str, bool]]
    """NumPy expression of each input, and whether its gradient is compared."""


def listed(launchers: Path) -> dict[str, Operation]:
    """Return all operations by name, in the order of the table; needs neither NumPy nor a stack."""
    module = _module(launchers / "cpu" / "operations.py")
    return {
        name: Operation(
            name,
            found.for_networks,
            found.source(),
            {k: (v.expression, v.gradient) for k, v in found.inputs.items()},
        )
        for name, found in module.operations().items()
    }


def _module(path: Path) -> ModuleType:
    name = "pytest_lmsv_operations_table"  # its plain name would be taken for anyone's module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run(
    environment: StackEnvironment, launchers: Path, out: Path, *, stack: Stack, fixes: bool = True
) -> Sweep:
    """Return the sweep of one stack, whose lines are kept in *out* (a new file).

    An operation that ends the interpreter is noted there, and the sweep goes on after it. Raises
    EnvironmentProblem where the stack does not start at all.
    """
    after: str | None = None
    for _ in range(CRASHES):
        ended = _start(environment, launchers, out, stack, fixes, after)
        lines = read(out)
        if lines and lines[-1].get("end"):
            return operations.sweep(stack, lines)
        begun = [line["begin"] for line in lines if "begin" in line]
        if not begun or begun[-1] == after:
            raise EnvironmentProblem(f"the sweep of {stack} did not run: {ended}; see {out.parent}")
        after = begun[-1]
        with out.open("a", encoding="utf-8") as stream:  # the line before may be cut short
            stream.write("\n" + json.dumps({"crash": after, "how": ended}) + "\n")
    raise EnvironmentProblem(f"the sweep of {stack} crashed {CRASHES} times; see {out}")


def _start(
    environment: StackEnvironment,
    launchers: Path,
    out: Path,
    stack: Stack,
    fixes: bool,
    after: str | None,
) -> str:
    """Run the sweep once, and return how it ended, in words."""
    argv = [str(launchers / "cpu" / "sweep.py"), "--stack", stack, "--out", str(out)]
    if after is not None:
        argv += ["--after", after]
    variables = {"LMSV_ADAPTER_FIXES": "on" if fixes else "off"}
    try:
        ended = environment.run(argv, env=variables, cwd=out.parent, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"no end after {TIME_LIMIT_S:.0f} s"
    said = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    return f"exit status {ended.returncode}" + (f", {said[-1]}" if said else "")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines that a sweep wrote; a line cut short by a crash is left out."""
    lines = []
    if path.is_file():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                continue
    return lines
