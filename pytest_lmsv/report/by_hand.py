"""The commands that repeat a run by hand, without pytest: launcher and environment (DESIGN 6.3)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.launchers import find_launcher
from pytest_lmsv.campaign.place import Place, iteration_folder
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.judge.findings import Finding
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import IterationRecord

ENVIRONMENTS = '"${XDG_CACHE_HOME:-$HOME/.cache}"/pytest-lmsv/envs'
"""Where the environments of the cpu stacks are made, as a shell says it."""


def by_hand(campaign: Campaign, record: IterationRecord, finding: Finding) -> list[str]:
    """Return the commands that run what *finding* is of again without pytest."""
    folder = iteration_folder(campaign.folder, record.model, record.iteration)
    place = Place(folder, f"iter{record.iteration}")
    wanted = campaign.sides if finding.error is None else campaign.sides[1:]
    lines = []
    for side in wanted:
        kept = place.evidence(side) / "by_hand.sh"
        if kept.is_file():
            lines += [f"bash {shlex.quote(str(kept))}"]
        else:
            lines += _launch(campaign, record, side, place)
    return lines


def _launch(campaign: Campaign, record: IterationRecord, side: Side, place: Place) -> Iterator[str]:
    settings, spec = campaign.settings, campaign.models[record.model]
    try:
        launcher = str(find_launcher(settings, side, spec))
    except InputProblem:
        launcher = f"launchers/{side.stack}_{record.model}.sh"
    environment = settings.pta_env if side.stack == "pta" else settings.msa_env
    layout = spec.layouts.get(settings.device)
    values = {
        "LMSV_DEVICE": settings.device,
        "LMSV_RUN_ID": f"by-hand-{side.slug}",
        "LMSV_ARGS": place.document(side, "args.txt"),
        "LMSV_SEED": settings.seed,
        "LMSV_ADAPTER_FIXES": "on" if settings.adapter_fixes else "off",
        "MM_MODEL": place.document(side, "model.json"),
        "MM_DATA": place.document(side, "data.json"),
        "TRAIN_ITERS": settings.steps,
        "NPUS_PER_NODE": layout.devices if layout else 1,
        "DATASET_ROOT": settings.dataset_root,
        "LOAD_PATH": settings.load_path,
        "MINDSPEED_MM_PATH": settings.mindspeed_mm_path,
    }
    if settings.device == "cpu":
        folder = shlex.quote(str(settings.env_dir)) if settings.env_dir else ENVIRONMENTS
        made = f"$(ls -d {folder}/{side.stack}-*/ | tail -1)"
        yield f"export LMSV_ENV={shlex.quote(environment) if environment else made}"
        if spec.datasets and settings.dataset_root is None:
            values["DATASET_ROOT"] = campaign.folder / "datasets"
    else:
        values[f"{side.stack.upper()}_NAME"] = environment
    for name, value in values.items():
        if value is not None:
            yield f"export {name}={shlex.quote(str(value))}"
    yield f'export LMSV_RUN_DIR=$PWD/by_hand_{side.slug}; mkdir -p "$LMSV_RUN_DIR"'
    yield f"bash {shlex.quote(launcher)}"
