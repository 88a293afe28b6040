"""Dumps of every module by msprobe (mindstudio-probe), where ``LMSV_LOCATE`` asks for them.

``LMSV_LOCATE`` names training steps (``1,4``); of an inference the generation call is dumped.
Statistics of rank 0 go to ``record/msprobe/step<n>/rank0``, steps counted from 0. MindSpeed-MM
stays as it is: start, the call, stop and step are put around functions that npu_entry wraps too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NETWORKS: list[Any] = []
"""What was set up or loaded; msprobe wants the same kind, a list, on both sides."""


def steps() -> list[int]:
    """Return the training steps to dump; none: nothing was asked for."""
    return [int(step) for step in os.environ.get("LMSV_LOCATE", "").split(",") if step]


def demand() -> None:
    """Stop with one line where dumps are asked for and msprobe is not installed."""
    if steps() and importlib.util.find_spec("msprobe") is None:
        sys.exit(
            f"lmsv: error: no msprobe in {sys.prefix}: lmsv locate needs it on npu: "
            "pip install mindstudio-probe"
        )


def configuration(dumped: list[int]) -> dict[str, Any]:
    """Return msprobe's configuration: figures of every module, forward and backward."""
    return {
        "task": "statistics",
        "dump_path": str(Path(os.environ.get("LMSV_RUN_DIR", "."), "record", "msprobe")),
        "rank": [0] if int(os.environ.get("WORLD_SIZE", "1")) > 1 else [],  # alone it has no rank
        "step": dumped,
        "level": "L0",
        "statistics": {
            "scope": [],
            "list": [],
            "data_mode": ["all"],
            "summary_mode": "statistics",
        },
    }


def debugger(dumped: list[int]) -> Any:
    """Return msprobe's debugger; made when Megatron is there already, which it patches."""
    path = Path(os.environ.get("LMSV_RUN_DIR", "."), "record", f"msprobe_{os.getpid()}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(configuration(dumped), indent=1), encoding="utf-8")
    if os.environ.get("LMSV_STACK") == "msa":
        from msprobe.mindspore import PrecisionDebugger
    else:
        from msprobe.pytorch import PrecisionDebugger
    return PrecisionDebugger(config_path=str(path))


def wrapped(function: Callable[..., Any], dumped: list[int]) -> Callable[..., Any]:
    """Return *function*, dumping those of its calls, counted from 0, that are in *dumped*."""
    made: list[Any] = []
    calls = 0

    def call(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > max(dumped) + 1:
            return function(*arguments, **keywords)
        if not made:
            made.append(debugger(dumped))
        made[0].start(model=NETWORKS)
        try:
            return function(*arguments, **keywords)
        finally:
            made[0].stop()
            made[0].step()

    return call


def training(module: Any) -> None:
    """Patch MindSpeed-MM's train step, which its trainer looks up at every call."""
    module.train_step = wrapped(module.train_step, [step - 1 for step in steps()])


def generation(module: Any, function: str) -> None:
    """Patch the generation call ``Class.method`` of *module*: its first call is dumped."""
    *owners, name = function.split(".")
    owner = module
    for part in owners:
        owner = getattr(owner, part)
    setattr(owner, name, wrapped(getattr(owner, name), [0]))
