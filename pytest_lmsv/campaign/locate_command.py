"""``lmsv locate ITER_DIR``: where the two sides of a stored iteration differ first."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv import catalog, data, task6_config
from pytest_lmsv.campaign import located, stored_campaign
from pytest_lmsv.campaign.progress import Reporter
from pytest_lmsv.campaign.run import Runner
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.doctor.site import ini
from pytest_lmsv.launch import ascend, devices, environments, npus
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Stack
from pytest_lmsv.settings import Settings, Source, resolve


def main(argv: Sequence[str]) -> int:
    """Run the iteration again with recorders and print what differs; 0 once that is known."""
    parser = argparse.ArgumentParser(
        prog="lmsv locate",
        description="Run the mutation of a stored iteration again on both sides, with recorders at "
        "every module, and name the first module or gradient that differs: locate.json and "
        "locate.md in ITER_DIR. The site is that of this folder's pytest ini and config.json.",
    )
    parser.add_argument("folder", metavar="ITER_DIR", type=Path)
    parser.add_argument(
        "--step", type=int, help="the training step to look at; default: the first that differs"
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="Task6's config.json")
    for name in ("pta-env", "msa-env", "mindspeed-mm-path", "dataset-root", "load-path"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args(argv)
    folder = options.folder.expanduser().resolve()
    if options.step is not None and options.step < 1:
        raise InputProblem(f"lmsv locate: --step {options.step}: give a number from 1 on")
    if len(folder.parents) < 3 or folder.parents[1].name != "iters":
        raise InputProblem(
            f"lmsv locate: {folder} is no iteration of a campaign; name a folder "
            "OUTPUT/iters/MODEL/iter_N"
        )
    _one_machine(folder.parents[2])
    settings = settings_of(folder.parents[2], vars(options))
    spec = model_of(settings, folder.parent.name)
    sets = _device_sets(settings, spec)
    with devices.lease(devices.default_folder(), sets, settings.device, say=_say) as lease:
        runner = Runner(
            settings,
            folder.parents[2],
            lease,
            {stack: _environment(settings, stack) for stack in set(settings.sides)},
            Reporter(folder.parents[2], "locate", _say),
            (),
        )
        found = located.locate_again(runner, spec, folder, options.step)
    print(found.sentence)
    print(folder / "locate.md")
    return 0


def _one_machine(campaign: Path) -> None:
    """Refuse a campaign over several machines, whose runs a session alone can start."""
    stored = data.read_json(campaign / "campaign.json") if campaign.is_dir() else {}
    nodes = stored.get("nodes", []) if isinstance(stored, dict) else []
    if len(nodes) > 1:
        raise InputProblem(
            f"lmsv locate: {campaign} ran on {len(nodes)} machines; run its mutation again with "
            "pytest --lmsv-replay ITER_DIR/mutation.json --lmsv-locate"
        )


def settings_of(campaign: Path, given: dict[str, Any]) -> Settings:
    """Return the settings of *campaign*, with the site of this folder and what is *given*."""
    here = Path.cwd()
    stored = stored_campaign.read(campaign, "lmsv locate")
    fixed = {**stored.fixed, "model": (), "gate": None}
    sources = [
        Source(given, lambda o: f"--{o.field.replace('_', '-')}"),
        Source(fixed, lambda o: f"{campaign / 'campaign.json'}: {o.field}"),
        Source(ini(here), lambda o: f"ini {o.ini}"),
    ]
    named = given.get("config")
    path = named if named is not None else here / "config.json"
    if named is not None or (path.is_file() and task6_config.is_task6(path)):
        values = {k: v for k, v in task6_config.read(path).settings().items() if k != "model"}
        place = 2 if named is not None else 3
        sources.insert(place, Source(values, lambda o: f"{path}: {o.field}"))
    return resolve(here, sources)


def model_of(settings: Settings, name: str) -> ModelSpec:
    """Return the model *name* as campaigns of this folder find it."""
    folders = [*catalog.default_folders(), *settings.config_dirs]
    spec = catalog.find(catalog.load(folders), name)
    if settings.device == "cpu" and settings.cpu_workers > 1:
        return spec.with_workers("cpu", settings.cpu_workers)
    return spec


def _device_sets(settings: Settings, spec: ModelSpec) -> Sequence[Sequence[int]]:
    if settings.device == "cpu":
        return devices.cpu_sets(devices.cores())
    return devices.npu_sets(npus.visible(), spec.layouts["npu"].devices)


def _environment(settings: Settings, stack: Stack) -> StackEnvironment:
    named = settings.pta_env if stack == "pta" else settings.msa_env
    if settings.device == "npu":
        return ascend.environment(stack, named)
    return environments.ensure(
        stack,
        settings.env_dir or environments.default_folder(),
        named=Path(named) if named else None,
        python=Path(settings.python) if settings.python else None,
        say=_say,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
