"""Which tests a session has: one for each model and iteration, with the marks of its known bugs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import data, session
from pytest_lmsv.fixtures import Iteration, KnownBug, Untested, VerdictError
from pytest_lmsv.problems import NO_MODELS

TEST = "test_models/test_alignment.py"
UNFINISHED = "no result is stored: the campaign ended before"


def parameters(config: pytest.Config, asked: bool) -> list[Any]:
    """Return the parameters of a test that takes the runs of an iteration.

    Where models are not *asked* for, one skipped test, whose reason says how to ask for some.
    """
    if not asked:
        skipped = pytest.mark.skip(reason=NO_MODELS)
        return [pytest.param(None, id="no-model", marks=skipped)]
    return [
        pytest.param(
            Iteration(model, number),
            id=f"{model}-iter{number}",
            marks=_marks(config, model, number),
        )
        for model, number in session.run_numbers(config)
    ]


def _marks(config: pytest.Config, model: str, number: int) -> list[pytest.MarkDecorator]:
    """Return one xfail mark for all expected bugs: pytest heeds only the first of several."""
    analyzed = session.analyzed_campaign(config)
    if analyzed is not None and not analyzed.has(model, number):
        return [pytest.mark.skip(reason=UNFINISHED)]
    bugs = session.expected_bugs(config, model)
    if not bugs:
        return []
    reason = ", ".join(bug.id for bug in bugs)
    strict = any(bug.strict for bug in bugs)
    return [pytest.mark.xfail(raises=KnownBug, strict=strict, reason=reason)]


def begin_with_the_sentence(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Let the message of a failed test be its sentence, without the name of our exception.

    Dashboards show only the first words of it.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    ours = call.excinfo and isinstance(call.excinfo.value, (VerdictError, Untested))
    if crash is not None and call.excinfo is not None and ours:
        crash.message = str(call.excinfo.value)


def explain_unexpected_pass(item: pytest.Item, report: pytest.TestReport) -> None:
    """Say in *report* what a strict known bug that did not happen asks for."""
    mark = item.get_closest_marker("xfail")
    if not str(report.longrepr).startswith("[XPASS(strict)]"):
        return
    if mark is None or mark.kwargs.get("raises") is not KnownBug:
        return
    reason = mark.kwargs["reason"]
    report.longrepr = (
        f"{report.longrepr}\nknown bug {reason} did not happen: remove the entry from "
        "known_bugs.yaml, or limit it by versions"
    )


def add_packaged_test(config: pytest.Config) -> None:
    """Run the packaged test where the project has none of its own and no path is named."""
    own = config.rootpath / "test_models"
    analyzes = session.settings_of(config).analyze is not None
    if analyzes and config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR:
        # Wherever it is called: only the stored iterations, none of the folder's other tests.
        config.args[:] = [str(own)] if own.exists() else []
    if own.exists():
        return
    packaged = str(data.test_models() / "test_alignment.py")
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    # A worker gets its paths from the controller, where they were decided.
    if packaged not in config.args and not named:
        config.args.append(packaged)


def packaged_module(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Return the packaged test's module under the id of a project's own copy."""
    if module_path != data.test_models() / "test_alignment.py":
        return None
    if module_path.is_relative_to(parent.config.rootpath):
        return None
    module: pytest.Module = pytest.Module.from_parent(parent, path=module_path, nodeid=TEST)
    return module
