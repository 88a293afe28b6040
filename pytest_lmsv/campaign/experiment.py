"""campaign.json: what experiment a campaign is, and whether a resumed one is still the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.campaign import stored_campaign
from pytest_lmsv.campaign.stored_campaign import FIXED
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.files import write_json
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.settings import Settings

JUDGING = (
    "gate",
    "loss_tolerance",
    "memory_tolerance",
    "time_tolerance",
    "output_tolerance",
    "output_psnr",
    "noise",
    "drift_factor",
    "drift_minima",
)
"""The settings that a resumed campaign or an analysis may be given anew."""


def write(
    folder: Path,
    settings: Settings,
    models: Mapping[str, ModelSpec],
    numbers: Sequence[tuple[str, int]],
    told: Mapping[str, Any],
) -> None:
    """Write campaign.json in *folder*; *told*: labels, versions, nodes and command, as they are.

    Where there is one it has to be of the same experiment: raises InputProblem naming the first
    setting that differs. What was asked for in the beginning stays in it.
    """
    path = folder / "campaign.json"
    wanted = {name: getattr(settings, name) for name in FIXED}
    spaces = {name: digest(model, settings) for name, model in models.items()}
    told = dict(told)
    if path.exists():
        stored = data.read_json(path)
        if not isinstance(stored, dict) or not {"settings", "spaces"} <= stored.keys():
            raise InputProblem(f"{path}: holds no campaign; start a new one")
        _check_same(folder, stored, wanted, spaces, len(told["nodes"]))
        spaces = {**stored["spaces"], **spaces}
        told["command"] = stored.get("command") or told["command"]
        numbers = stored_campaign.read(folder).merged(numbers)
    write_json(
        path,
        {
            "schema": 1,
            "models": list(models),
            "iters": settings.iters,
            "iterations": list(numbers),
            "settings": {**wanted, **{name: getattr(settings, name) for name in JUDGING}},
            "spaces": spaces,
            **told,
        },
    )


def digest(spec: ModelSpec, settings: Settings) -> str:
    """Return what the mutations of *spec* depend on: its space, documents and overrides."""
    device = settings.device
    parts = [spec.space(device).digest, spec.documents(device), spec.stack_overrides]
    text = json.dumps(parts, sort_keys=True, default=dict)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _check_same(
    folder: Path,
    stored: Mapping[str, Any],
    wanted: Mapping[str, Any],
    spaces: Mapping[str, str],
    nodes: int,
) -> None:
    for name, value in wanted.items():
        before = stored["settings"].get(name)
        if before != value:
            raise InputProblem(
                f"--lmsv-resume {folder}: it ran with {name} = {before!r}, now it is {value!r}; "
                "give the same"
            )
    machines = len(stored.get("nodes", []))
    if machines != nodes:
        raise InputProblem(
            f"--lmsv-resume {folder}: it ran on {machines} named machines, now there are {nodes}; "
            "give the same --lmsv-config"
        )
    for name, value in spaces.items():
        if stored["spaces"].get(name, value) != value:
            raise InputProblem(
                f"--lmsv-resume {folder}: {name} has other documents, another mutation space or "
                "another way of drawing now; start a new campaign"
            )
