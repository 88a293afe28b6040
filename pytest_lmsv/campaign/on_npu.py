"""What a run on npu has around it: its variables, free NPUs and room before, evidence after."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_lmsv.campaign import weights
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.launch import ascend, evidence, npus
from pytest_lmsv.launch.devices import DeviceSet
from pytest_lmsv.records import RunRecord
from pytest_lmsv.settings import Settings

WAIT_S = 600.0
"""How long a run waits for NPUs that others use."""
PROCESS_LOGS = "plog"
"""CANN's own logs, below the run folder (ASCEND_PROCESS_LOG_PATH)."""


def starts_from_checkpoint(settings: Settings, spec: ModelSpec) -> bool:
    """Whether runs of *spec* load weights: then only edits that fit them may be drawn."""
    return ascend.initial_weights(spec.name, settings.dataset_root, settings.load_path) is not None


def variables(
    settings: Settings, spec: ModelSpec, side: Side, place: Place, devices: DeviceSet
) -> dict[str, str]:
    """The variables that only npu has, beside the contract's; they win over what is inherited.

    LOAD_PATH is always there, "" for fresh weights: both sides and the drawing agree on it.
    """
    found = ascend.initial_weights(spec.name, settings.dataset_root, settings.load_path)
    saves = spec.kind == "training" and settings.save_weights != "never"
    return {
        "LOAD_PATH": str(found) if found else "",
        "SAVE_PATH": str(place.weights(side)) if saves else "",
        "ASCEND_RT_VISIBLE_DEVICES": ",".join(map(str, devices.devices)),
        "ASCEND_PROCESS_LOG_PATH": str(place.run_folder(side) / PROCESS_LOGS),
        "LMSV_SAMPLES": str(place.run_folder(side) / "samples"),
        "LMSV_PATCH_POINT": spec.patch_points.get(spec.entry_scripts["npu"], ""),
    }


def before(
    settings: Settings,
    spec: ModelSpec,
    place: Place,
    devices: DeviceSet,
    *,
    say: Callable[[str], None] = lambda line: None,
    limit: float = WAIT_S,
    looking: Callable[[], npus.Snapshot | None] = npus.look,
) -> None:
    """Wait until the NPUs of *devices* are free, and look whether the weights will fit.

    EnvironmentProblem ``device_busy`` names who is there, ``no_space`` what is missing.
    """
    if spec.kind == "training" and settings.save_weights != "never":
        weights.check_space(place.folder, sides=len(settings.sides))
    npus.wait_until_free(devices.devices, limit=limit, looking=looking, say=say)


def after(
    run: RunRecord,
    side: Side,
    place: Place,
    *,
    run_id: str,
    launcher: Sequence[str],
    given: Mapping[str, str],
    looking: Callable[[], npus.Snapshot | None] = npus.look,
) -> tuple[npus.NpuProcess, ...]:
    """Keep evidence of a failed run under ``artifacts/evidence``; what the run left on its NPUs.

    To be called when the run folder has been put away (``Place.keep_run``). CANN's logs of a sound
    run are removed: they are large and say nothing.
    """
    snapshot = looking()
    logs = place.folder / "artifacts" / "run_folder" / side.slug / PROCESS_LOGS
    if run.outcome == "ok":
        shutil.rmtree(logs, ignore_errors=True)
    else:
        evidence.keep(
            evidence_folder(place, side),
            launcher=launcher,
            variables={**given, "ASCEND_PROCESS_LOG_PATH": str(logs)},
            versions=run.versions,
            snapshot=snapshot,
        )
    return npus.left_over(snapshot, run_id)


def evidence_folder(place: Place, side: Side) -> Path:
    """Where the evidence of *side* lies, for the report."""
    return place.folder / "artifacts" / "evidence" / side.slug
