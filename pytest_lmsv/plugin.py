"""pytest hooks, each a few lines that hand over.

Options are always there; everything else happens only where models are asked for (``--model`` or
its ini twin), so that a project that does not use the plugin sees nothing of it. What a session
with models needs besides is registered by :func:`pytest_configure`; heavy parts are imported inside
the hooks for the same reason.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.options import OPTIONS
from pytest_lmsv.problems import NO_MODELS, InputProblem

pytest_plugins = ["pytest_lmsv.fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lmsv", "two software stacks compared (pytest-lmsv)")
    for option in OPTIONS:
        if not option.ini_only:
            kind: dict[str, Any] = {"metavar": option.metavar}
            if option.switch:
                kind = {"action": "store_const", "const": "on"}
            group.addoption(*option.flags, dest=option.ini, default=None, help=option.help, **kind)
        parser.addini(option.ini, option.help, type=option.ini_type, default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pytest_lmsv import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def asks_for_models(config: pytest.Config) -> bool:
    """Return whether this session is to test models; asked before anything heavy is imported."""
    asking = ("lmsv_model", "lmsv_replay", "lmsv_config", "lmsv_resume", "lmsv_analyze")
    return any(config.getoption(name, None) for name in asking) or bool(config.getini("lmsv_model"))


@pytest.hookimpl(tryfirst=True)  # before pytest-html reads where to write
def pytest_configure(config: pytest.Config) -> None:
    if not asks_for_models(config) or config.option.help or config.option.version:
        return
    from pytest_lmsv import usage
    from pytest_lmsv.report import collection

    try:
        usage.check(config)
        collection.add_packaged_test(config)
        if not config.option.collectonly:
            _begin(config)
    except InputProblem as problem:
        raise pytest.UsageError(str(problem)) from None


def _begin(config: pytest.Config) -> None:
    from pytest_lmsv import session

    campaign = session.campaign_of(config)
    if hasattr(config, "workerinput"):
        return
    from pytest_lmsv.report import html, terminal

    session.begin_campaign(config)
    html.register(config, campaign)
    terminal.register(config, campaign)
    # CI cancels with SIGTERM: end as at Ctrl-C, so that JUnit and HTML are written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    if not asks_for_models(config):
        return None
    from pytest_lmsv import machines

    return machines.workers(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if asks_for_models(node.config):
        from pytest_lmsv import session

        node.workerinput["lmsv_campaign"] = str(session.campaign_of(node.config).folder)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if module_path.name != "test_alignment.py" or not asks_for_models(parent.config):
        return None
    from pytest_lmsv.report import collection

    return collection.packaged_module(module_path, parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "_lmsv_baseline" not in metafunc.fixturenames:  # asks for no run of ours
        return
    from pytest_lmsv.report import collection

    found = collection.parameters(metafunc.config, asks_for_models(metafunc.config))
    metafunc.parametrize("iteration", found, indirect=True)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if asks_for_models(config):
        return
    # pytest shows the reason of a skip with -rs only, and this one says what to do.
    skipped = terminalreporter.stats.get("skipped", ())
    if any(NO_MODELS in str(getattr(report, "longrepr", "")) for report in skipped):
        terminalreporter.write_line(f"lmsv: {NO_MODELS}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and "_lmsv_baseline" in getattr(item, "fixturenames", ()):
        from pytest_lmsv.report import collection

        collection.begin_with_the_sentence(report, call)
        collection.explain_unexpected_pass(item, report)
    return report
