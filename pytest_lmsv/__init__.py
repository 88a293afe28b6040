"""pytest-lmsv: compares multimodal models on two software stacks, as pytest tests.

The public names load when they are first used: the plugin is imported in every pytest run of its
environment, and must cost nothing there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_lmsv.fixtures import Iteration, KnownBug, Untested, VerdictError
    from pytest_lmsv.launch.devices import DeviceSet
    from pytest_lmsv.launch.environments import StackEnvironment
    from pytest_lmsv.mutation.draw import mutations
    from pytest_lmsv.problems import EnvironmentProblem, InputProblem
    from pytest_lmsv.records import (
        Edit,
        IterationRecord,
        Metrics,
        Mutation,
        RunError,
        RunRecord,
        Verdict,
    )
    from pytest_lmsv.report.judgement import Judgement

_PLACES = {
    "DeviceSet": "launch.devices",
    "Edit": "records",
    "EnvironmentProblem": "problems",
    "InputProblem": "problems",
    "Iteration": "fixtures",
    "IterationRecord": "records",
    "Judgement": "report.judgement",
    "KnownBug": "fixtures",
    "Metrics": "records",
    "Mutation": "records",
    "RunError": "records",
    "RunRecord": "records",
    "StackEnvironment": "launch.environments",
    "Untested": "fixtures",
    "Verdict": "records",
    "VerdictError": "fixtures",
    "mutations": "mutation.draw",
}

__all__ = [
    "DeviceSet",
    "Edit",
    "EnvironmentProblem",
    "InputProblem",
    "Iteration",
    "IterationRecord",
    "Judgement",
    "KnownBug",
    "Metrics",
    "Mutation",
    "RunError",
    "RunRecord",
    "StackEnvironment",
    "Untested",
    "Verdict",
    "VerdictError",
    "mutations",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
