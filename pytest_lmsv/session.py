"""What one pytest session knows: its settings, its models and its campaign, each made once."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import catalog, data, sources
from pytest_lmsv.campaign import stored_campaign
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.place import new_campaign_folder
from pytest_lmsv.campaign.stored_campaign import StoredCampaign
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.files import hold
from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.launch import ascend, installed, pins
from pytest_lmsv.mutation import apply
from pytest_lmsv.options import OPTIONS
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from pytest_lmsv.records import Mutation, Stack
from pytest_lmsv.settings import Settings, Source, resolve
from pytest_lmsv.task6_config import MultiNode

SETTINGS = pytest.StashKey[Settings]()
MODELS = pytest.StashKey[Mapping[str, ModelSpec]]()
BUGS = pytest.StashKey[tuple[KnownBug, ...]]()
ANALYZED = pytest.StashKey[StoredCampaign | None]()
REPLAYED = pytest.StashKey[Mutation | None]()
CAMPAIGN = pytest.StashKey[Campaign]()
WARNINGS = pytest.StashKey[tuple[str, ...]]()
"""What is odd in the configuration file that was read."""
FROM_FILE = pytest.StashKey[dict[str, Any]]()
"""The values of the configuration file that was read."""
MULTI_NODE = pytest.StashKey[MultiNode]()
"""The enabled MULTI_NODE of the configuration file that was read."""
SAY = pytest.StashKey[Callable[[str], None]]()
"""How the session tells a person something in the middle of a test, while output is captured."""


def settings_of(config: pytest.Config) -> Settings:
    """Return the session's settings; raises InputProblem for the first wrong value."""
    if SETTINGS not in config.stash:
        command_line = sources.command_line(config)
        ini = {o.field: sources.ini(config, o) for o in OPTIONS}
        found_in = [Source(command_line, lambda o: o.flag), Source(ini, lambda o: f"ini {o.ini}")]
        named = command_line["config"] or ini["config"]
        analyzed = analyzed_campaign(config)
        if analyzed is not None:
            found_in = sources.of_analysis(analyzed, command_line, ini)
        elif named is not None:
            found_in.insert(
                1, _file(config, config.rootpath / Path(named).expanduser(), "--lmsv-config")
            )
        else:
            found = config.rootpath / "config.json"
            if found.is_file() and _is_task6(found):
                found_in.append(_file(config, found, "config.json", with_models=False))
        resume = command_line["resume"] or ini["resume"]
        if resume is not None:
            found_in.append(sources.of_campaign(config.rootpath / resume))
        settings = resolve(config.rootpath, found_in)
        given = config.stash.get(FROM_FILE, {})
        for field in ("pta_env", "msa_env"):
            # A Task6 file's conda names mean nothing on cpu, where a folder would be named.
            if settings.device == "cpu" and "/" not in str(given.get(field, "/")):
                del given[field]
        config.stash[SETTINGS] = resolve(config.rootpath, found_in)
    return config.stash[SETTINGS]


def analyzed_campaign(config: pytest.Config) -> StoredCampaign | None:
    """Return the campaign that --lmsv-analyze reports on, None without it."""
    if ANALYZED not in config.stash:
        given = sources.command_line(config)["analyze"]
        folder = None if given is None else (config.rootpath / given).resolve()
        config.stash[ANALYZED] = None if folder is None else stored_campaign.read(folder)
    return config.stash[ANALYZED]


def _file(config: pytest.Config, file: Path, label: str, with_models: bool = True) -> Source:
    """Return the settings in Task6's config.json, or the same keys as YAML, at *file*.

    A file found by itself never says which models a bare ``pytest`` runs (DESIGN 6.1).
    """
    from pytest_lmsv import task6_config

    read = task6_config.read(file)
    if read.multi_node is not None and read.multi_node.enabled:
        config.stash[MULTI_NODE] = read.multi_node
    values = dict(read.settings())
    config.stash[WARNINGS] = read.warnings
    config.stash[FROM_FILE] = values
    if not with_models:
        values.pop("model", None)
    return Source(values, lambda o: read.places.get(o.field, f"{label} {file}: {o.field}"))


def _is_task6(file: Path) -> bool:
    from pytest_lmsv import task6_config

    return task6_config.is_task6(file)


def node_names(config: pytest.Config) -> tuple[str, ...]:
    """Return the names of the machines of a run over several; none for this one alone."""
    from pytest_lmsv import machines

    return tuple(node.name for node in machines.nodes_of(config))


def models_of(config: pytest.Config) -> Mapping[str, ModelSpec]:
    """Return the models that this session tests, in the order that they were named."""
    if MODELS not in config.stash:
        known = known_models(config)
        settings = settings_of(config)
        replayed = replayed_mutation(config)
        analyzed = analyzed_campaign(config)
        if analyzed is not None:
            config.stash[MODELS] = {
                name: known.get(name) or catalog.unknown(name, settings.device)
                for name in analyzed.models
            }
            return config.stash[MODELS]
        if replayed is not None:
            names: tuple[str, ...] = (replayed.model,)
        elif settings.model == ("all",):
            names = tuple(n for n, spec in known.items() if settings.device in spec.devices)
        else:
            names = settings.model
        chosen = [catalog.find(known, name) for name in names]
        for spec in chosen:
            if settings.device not in spec.devices:
                raise InputProblem(
                    f"--model: {spec.name} has no documents for {settings.device}, only for "
                    f"{', '.join(spec.devices)}; write {spec.folder / settings.device}"
                )
        workers = settings.cpu_workers * max(1, len(node_names(config)))
        if settings.device == "cpu" and workers > 1:
            chosen = [spec.with_workers("cpu", workers) for spec in chosen]
        config.stash[MODELS] = {spec.name: spec for spec in chosen}
    return config.stash[MODELS]


def known_models(config: pytest.Config) -> Mapping[str, ModelSpec]:
    """Return all models that can be named here."""
    return catalog.load(_config_folders(config))


def _config_folders(config: pytest.Config) -> list[Path]:
    """Return the folders of models, the last the strongest: packaged, project, plugins, ini."""
    given = config.hook.pytest_lmsv_config_dirs(config=config)
    further = [Path(path) for paths in given for path in paths]
    own = config.rootpath / "mm_configs"
    folders = [data.mm_configs(), *([own] if own.is_dir() else []), *further]
    folders += settings_of(config).config_dirs
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def bugs_of(config: pytest.Config) -> tuple[KnownBug, ...]:
    """Return the entries of every known_bugs.yaml beside the models."""
    if BUGS not in config.stash:
        paths = [folder / "known_bugs.yaml" for folder in _config_folders(config)]
        config.stash[BUGS] = known_bugs.load(tuple(path for path in paths if path.is_file()))
    return config.stash[BUGS]


def expected_bugs(config: pytest.Config, model: str) -> tuple[KnownBug, ...]:
    """Return the known bugs that a test of *model* is expected to end with (DESIGN 5.5)."""
    settings = settings_of(config)
    stack = settings.sides[1]
    if stack != "msa":
        return ()
    return known_bugs.expected(
        bugs_of(config),
        model=model,
        stack=stack,
        device=settings.device,
        versions=_versions(config, stack),
        adapter_fixes=settings.adapter_fixes,
    )


def _versions(config: pytest.Config, stack: Stack) -> Mapping[str, str]:
    """Return the versions that decide whether an entry applies: those that were run."""
    analyzed = analyzed_campaign(config)
    if analyzed is None:
        return versions_of(config, stack)
    return {str(name): str(text) for name, text in dict(analyzed.versions.get(stack) or {}).items()}


def versions_of(config: pytest.Config, stack: Stack) -> Mapping[str, str]:
    """Return the versions of *stack*'s packages without starting anything."""
    settings = settings_of(config)
    named = settings.pta_env if stack == "pta" else settings.msa_env
    if settings.device == "cpu":
        return installed.versions(Path(named)) if named else pins.pinned(stack)
    try:
        return ascend.environment(stack, named).versions
    except EnvironmentProblem:  # unreadable: an entry limited by versions then applies
        return {}


def replayed_mutation(config: pytest.Config) -> Mutation | None:
    """Return the mutation of --lmsv-replay, None without it."""
    if REPLAYED not in config.stash:
        path = settings_of(config).replay
        config.stash[REPLAYED] = (
            None if path is None else apply.from_json(data.read_json(path), str(path))
        )
    return config.stash[REPLAYED]


def campaign_of(config: pytest.Config) -> Campaign:
    """Return the session's campaign; on an xdist worker the one that the controller began."""
    if CAMPAIGN not in config.stash:
        settings, models = settings_of(config), models_of(config)
        names = node_names(config)
        given: str | None = getattr(config, "workerinput", {}).get("lmsv_campaign")
        if settings.analyze is not None:
            bugs = bugs_of(config)
            config.stash[CAMPAIGN] = Campaign(settings, models, settings.analyze, bugs)
        elif given is not None:
            config.stash[CAMPAIGN] = Campaign(settings, models, Path(given), nodes=names)
        elif settings.resume is not None:
            if not (settings.resume / "campaign.json").is_file():
                raise InputProblem(
                    f"--lmsv-resume: {settings.resume} holds no campaign.json; name the folder of "
                    "a campaign"
                )
            config.stash[CAMPAIGN] = Campaign(settings, models, settings.resume, nodes=names)
        else:
            folder = new_campaign_folder(settings.output)
            config.stash[CAMPAIGN] = Campaign(settings, models, folder, nodes=names)
    return config.stash[CAMPAIGN]


def begin_campaign(config: pytest.Config) -> Campaign:
    """Make the campaign's folder and write campaign.json, before any run."""
    campaign = campaign_of(config)
    if campaign.settings.analyze is not None:
        return campaign
    try:
        lock = hold(campaign.folder / "live" / "session.lock")
    except OSError as problem:
        raise InputProblem(
            f"{campaign.folder}: can't be written ({problem.strerror}); name a folder that can"
        ) from None
    if lock is None:
        raise InputProblem(
            f"--lmsv-resume {campaign.folder}: another session is running this campaign; wait for "
            "its end, or end it"
        )
    config.add_cleanup(lock.close)
    stacks = {str(s): dict(versions_of(config, s)) for s in settings_of(config).sides}
    campaign.begin(
        {"python": platform.python_version(), "host": platform.node(), **stacks},
        run_numbers(config),
        shlex.join(["pytest", *map(str, config.invocation_params.args)]),
    )
    return campaign


def run_numbers(config: pytest.Config) -> list[tuple[str, int]]:
    """Return model and number of every iteration of the session."""
    analyzed, replayed = analyzed_campaign(config), replayed_mutation(config)
    if analyzed is not None:
        return list(analyzed.iterations)
    if replayed is not None:
        return [(replayed.model, max(1, replayed.iteration))]
    iters = settings_of(config).iters
    return [(model, n) for model in models_of(config) for n in range(1, iters + 1)]


def worker_name(config: pytest.Config) -> str:
    """Return xdist's name of this worker, ``main`` without xdist."""
    name: str = getattr(config, "workerinput", {}).get("workerid", "main")
    return name


def say(config: pytest.Config) -> Callable[[str], None]:
    """Return how this process tells a person something in the middle of a test."""
    return config.stash.get(SAY, _to_stderr)


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
