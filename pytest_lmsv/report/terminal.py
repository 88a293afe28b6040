"""What the terminal says: the header, one line at the end of each test, and the summary."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_lmsv import doctor, session
from pytest_lmsv.campaign import archive, summary, weights
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.judge.counts import count
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import IterationRecord
from pytest_lmsv.report import stacks
from pytest_lmsv.report.html import VERDICT_COLUMNS, texts, verdict_cell
from pytest_lmsv.report.live import Live


def register(config: pytest.Config, campaign: Campaign) -> None:
    """Add our lines to the terminal of this session."""
    live = Live(campaign.folder)
    config.stash[session.SAY] = live.say
    config.pluginmanager.register(Lines(config, campaign, live), "lmsv-terminal")


class Lines:
    """The hooks of a session that tests models, on the controller."""

    def __init__(self, config: pytest.Config, campaign: Campaign, live: Live) -> None:
        self._config = config
        self._campaign = campaign
        self._live = live

    def pytest_report_header(self) -> list[str]:
        return header(self._config)

    @pytest.hookimpl(tryfirst=True)  # before xdist starts workers, which would all want to build
    def pytest_sessionstart(self) -> None:
        settings, models = self._campaign.settings, self._campaign.models
        try:
            doctor.demand(doctor.checks(doctor.of_settings(settings, models), other_machines=False))
            stacks.build_missing(self._config)
        except EnvironmentProblem as problem:
            raise pytest.UsageError(str(problem)) from None
        if self._config.get_verbosity() >= 0:
            self._live.start()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._config.get_verbosity() == 0:
            reporter.ensure_newline()

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        # Our own line says more than a letter.
        if self._config.get_verbosity() != 0 or not is_ours(report) or report.when != "call":
            return None
        name = category(report)
        return name, "", OUTCOMES[name]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ended = report.when == "call" or (report.when == "setup" and report.failed)
        if ended and is_ours(report) and self._config.get_verbosity() >= 0:
            self._live.say(test_line(report))

    @pytest.hookimpl(tryfirst=True)  # before the JUnit file is written
    def pytest_sessionfinish(self) -> None:
        self._live.stop()
        try:
            summary.write(self._campaign)
            self._tell_junit()
        except OSError as problem:
            self._live.say(f"lmsv: the summary can't be written: {problem}")

    def _tell_junit(self) -> None:
        """Add the coverage of each model to the properties of the JUnit file, where one is made."""
        records = list(archive.stored_iterations(self._campaign.folder))
        for plugin in self._config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property"):  # as record_testsuite_property does
                for model in self._campaign.models:
                    text = summary.tried(self._campaign, model, records).sentence()
                    plugin.add_global_property(f"lmsv.coverage.{model}", text)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("lmsv")
        for line in closing(self._campaign):
            terminalreporter.line(line)


def header(config: pytest.Config) -> list[str]:
    """Return the lines above a session that tests models."""
    settings = session.settings_of(config)
    models = ", ".join(session.models_of(config))
    baseline, compare = settings.sides
    lines = [
        f"lmsv: {models}; {len(session.run_numbers(config))} iterations of {settings.steps} steps, "
        f"{baseline} against {compare} on {settings.device}, seed {settings.seed}, gate "
        f"{' '.join(settings.gate)}"
    ]
    if settings.device == "cpu":
        lines.append(
            "lmsv: cpu: small networks; MindSpore runs through mindtorch, which stands in for "
            "msadapter"
        )
    lines += [f"lmsv: {warning}" for warning in config.stash.get(session.WARNINGS, ())]
    if not config.option.collectonly:
        lines.append(f"lmsv: campaign folder {session.campaign_of(config).folder}")
    return lines


def category(report: pytest.TestReport) -> str:
    """Return pytest's name for the outcome of a test's call."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome


def test_line(report: pytest.TestReport) -> str:
    """Return the line at the end of a test of ours: outcome, verdicts and time."""
    values = texts(report)
    outcome = "ERROR" if report.when == "setup" else OUTCOMES[category(report)]
    name = f"{values['lmsv.model']}-iter{values['lmsv.iteration']}"
    if values.get("lmsv.status") != "DONE":
        return f"lmsv {name} {outcome}: could not be tested: {values.get('lmsv.finding', '')}"
    idle = "accuracy" if values.get("lmsv.kind") == "inference" else "output"
    names = (name for name in VERDICT_COLUMNS if name != idle)
    verdicts = ", ".join(f"{name} {verdict_cell(values, name)}" for name in names)
    return f"lmsv {name} {outcome}: {verdicts}"


def is_ours(report: pytest.TestReport) -> bool:
    """Return whether *report* is of a test that filled an iteration."""
    return "lmsv.model" in texts(report)


def closing(campaign: Campaign) -> Iterator[str]:
    """Yield the lines below the tests: the counts of DESIGN 5.7, and where everything is."""
    records = list(archive.stored_iterations(campaign.folder))
    for model in campaign.models:
        counts = count(record for record in records if record.model == model)
        yield f"{model}: {counts.sentence(campaign.labels[1])}"
        yield f"{model}: {summary.tried(campaign, model, records).sentence()}"
        slow = sum(only_slow(record) for record in records if record.model == model)
        if slow and "performance" in campaign.settings.gate:
            yield f"{model}: {slow} FAILED: performance only"
    kept = [folder for folder in campaign.folder.glob("iters/*/*/weights") if folder.is_dir()]
    if kept:
        size = sum(weights.size_gb(folder) for folder in kept)
        yield f"weights kept of {len(kept)} iterations: {size:.2f} GB"
    yield f"all figures and logs: {campaign.folder}"


def only_slow(record: IterationRecord) -> bool:
    """Return whether time is all that is wrong with *record*."""
    return bool(record.findings) and all(f.startswith("performance") for f in record.findings)


OUTCOMES = {
    "passed": "PASSED",
    "failed": "FAILED",
    "skipped": "SKIPPED",
    "xfailed": "XFAIL",
    "xpassed": "XPASS",
}
