"""Bad input of a session, all that can be found before any run: one line each, exit 4."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pytest_lmsv import machines, session
from pytest_lmsv.campaign.launchers import find_launcher
from pytest_lmsv.campaign.sides import sides
from pytest_lmsv.files import check_writable
from pytest_lmsv.launch import ascend, devices
from pytest_lmsv.mutation import apply, draw
from pytest_lmsv.mutation.outside import outside
from pytest_lmsv.option_values import path
from pytest_lmsv.options import OPTIONS
from pytest_lmsv.problems import InputProblem

BROKEN_DISTRIBUTIONS = {
    "each": "pytest-xdist's each runs every iteration on all workers, in one folder",
    "loadgroup": "pytest-xdist's loadgroup ignores groups, and hangs when a worker dies",
    "loadscope": "pytest-xdist's loadscope runs a test again and again when a worker dies",
}


def check(config: pytest.Config) -> None:
    """Find all bad input that can be found before any run; raises InputProblem for the first."""
    _check_root(config)
    analyzes = session.analyzed_campaign(config) is not None
    if not session.models_of(config):
        raise InputProblem(
            f"--lmsv-config {session.settings_of(config).config}: no MODEL_NAME in it, and no "
            "--model; give one"
        )
    for model in session.models_of(config).values():
        session.expected_bugs(config, model.name)
        if analyzes:
            continue
        settings, given = session.settings_of(config), session.replayed_mutation(config)
        if given is not None:
            apply.apply(model.documents(settings.device), given.edits)
            found = outside(model.space(settings.device), given)
            config.stash[session.WARNINGS] = (
                *config.stash.get(session.WARNINGS, ()),
                *(f"{settings.replay}: {sentence}; it runs as given" for sentence in found),
            )
        elif not hasattr(config, "workerinput"):
            draw.mutations(
                model,
                count=settings.mutations,
                device=settings.device,
                only_fitting_checkpoint=ascend.starts_from_checkpoint(
                    model.name, settings.device, settings.dataset_root, settings.load_path
                ),
            )
        for side in sides(session.settings_of(config).compare):
            find_launcher(session.settings_of(config), side, model)
    _check_verdict_xml(config)
    _check_xdist(config)


def _check_root(config: pytest.Config) -> None:
    """Refuse a session that pytest began in the folder of an option's value.

    Before plugins are loaded pytest takes ``--lmsv-output DIR`` for a test path where DIR exists,
    and looks for the project's ini there.
    """
    words, here = config.invocation_params.args, config.invocation_params.dir
    if config.inipath is not None and here.is_relative_to(config.inipath.parent):
        return
    flags = {flag for option in OPTIONS for flag in option.flags if option.parse is path}
    for flag, value in pairwise(words):
        place = here / str(value)
        if flag in flags and place.exists() and not place.is_relative_to(here):
            raise InputProblem(
                f"{flag} {value}: pytest took the path for a test's and looked for the project "
                f"there ({config.rootpath}); write {flag}={value}"
            )


def _check_verdict_xml(config: pytest.Config) -> None:
    """Find out now what a session would only say at its end: the file can't be written."""
    path = session.settings_of(config).verdict_xml
    if path is None or hasattr(config, "workerinput"):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_writable(path)
    except OSError as problem:
        raise InputProblem(
            f"--lmsv-verdict-xml {path}: can't be written ({problem.strerror}); name another file"
        ) from None


def _check_xdist(config: pytest.Config) -> None:
    asked = config.getoption("numprocesses", None)
    if not asked or hasattr(config, "workerinput"):
        return
    if config.option.dist in BROKEN_DISTRIBUTIONS:
        raise InputProblem(
            f"--dist {config.option.dist}: {BROKEN_DISTRIBUTIONS[config.option.dist]}; give "
            "--dist worksteal"
        )
    if config.option.dist == "load" and "--dist" not in " ".join(config.invocation_params.args):
        config.option.dist = "worksteal"
    if session.analyzed_campaign(config) is not None:
        return
    if session.settings_of(config).chain:
        raise InputProblem(f"--lmsv-chain: found -n {asked}; a chain needs one worker, without -n")
    devices.slots(asked, len(machines.device_sets(config)))
