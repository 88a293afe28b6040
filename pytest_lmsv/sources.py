"""Where a session's settings come from: command line, ini, a file, a stored campaign."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import data
from pytest_lmsv.campaign.stored_campaign import StoredCampaign
from pytest_lmsv.option_values import path
from pytest_lmsv.options import OPTIONS, Option
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.settings import Source


def command_line(config: pytest.Config) -> dict[str, Any]:
    """Return the options given; a relative path is one of the folder that pytest began in."""
    here = config.invocation_params.dir
    given = {o.field: config.getoption(o.ini, None) for o in OPTIONS if not o.ini_only}
    for option in OPTIONS:
        if option.parse is path and given.get(option.field):
            given[option.field] = str(here / Path(given[option.field]).expanduser())
    return given


def ini(config: pytest.Config, option: Option) -> Any:
    """Return an option's value in the ini file; raises InputProblem where it has a wrong type."""
    try:
        return config.getini(option.ini)
    except (TypeError, ValueError, pytest.UsageError) as problem:
        raise InputProblem(f"ini {option.ini}: {problem}; give {option.parse.__doc__}") from None


def of_campaign(folder: Path) -> Source:
    """Return what the campaign in *folder* ran with: what is not given again stays as it was."""
    stored = data.read_json(folder / "campaign.json") if folder.is_dir() else {}
    values = {**stored.get("settings", {})} if isinstance(stored, dict) else {}
    if values:
        values.update(model=stored.get("models"), iters=stored.get("iters"))
    return Source(values, lambda o: f"{folder / 'campaign.json'}: {o.field}")


def of_analysis(
    campaign: StoredCampaign, options: Mapping[str, Any], ini_values: Mapping[str, Any]
) -> list[Source]:
    """Return the settings of an analysis: what was run stays, what judges it may be given anew."""
    place = campaign.folder / "campaign.json"
    for field in ("replay", "resume"):
        if options.get(field) is not None:
            raise InputProblem(
                f"--lmsv-{field}: an analysis runs nothing; give it without --lmsv-analyze"
            )
    fixed = Source(campaign.fixed, lambda o: f"{place}: {o.field}")
    given = Source(options, lambda o: o.flag)
    for option in OPTIONS:
        value, before = options.get(option.field), campaign.fixed.get(option.field)
        with suppress(ValueError, KeyError):  # a wrong value has its own line, from resolve
            if value is not None and before is not None and option.parse(value) != before:
                raise InputProblem(
                    f"{option.flag} {value}: {campaign.folder} was run with {before!r}, which an "
                    "analysis can't change; leave it out"
                )
    judging = Source(campaign.judging, lambda o: f"{place}: {o.field}")
    return [fixed, given, judging, Source(ini_values, lambda o: f"ini {o.ini}")]
