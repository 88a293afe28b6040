"""Which launcher starts a side of a model."""

from __future__ import annotations

from pathlib import Path

from pytest_lmsv import data
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.settings import Settings


def find_launcher(settings: Settings, side: Side, spec: ModelSpec) -> Path:
    """Return the launcher of *side*; raises InputProblem where there is none."""
    name = f"{side.stack}_{spec.name}.sh"
    folders = (*settings.launcher_dirs, settings.root / "launchers", data.launchers())
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    places = ", ".join(dict.fromkeys(map(str, folders)))
    raise InputProblem(
        f"launcher {name}: not found in {places}; write it there, or name its folder in "
        "lmsv_launcher_dirs"
    )
