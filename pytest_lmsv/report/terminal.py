"""What the terminal says: the header, one line at the end of each test, and the summary."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_lmsv import doctor, machines, session
from pytest_lmsv.campaign import weights
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.tried import tried
from pytest_lmsv.judge.counts import count
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.report import stacks
from pytest_lmsv.report.cells import VERDICT_COLUMNS, texts, verdict_cell
from pytest_lmsv.report.live import Live
from pytest_lmsv.report.markdown import fails_only
from pytest_lmsv.report.marks import ranges
from pytest_lmsv.report.reports import Reports
from pytest_lmsv.wording import counted


def register(config: pytest.Config, campaign: Campaign) -> None:
    """Add our lines to the terminal of this session."""
    live = Live(campaign.folder)
    config.stash[session.SAY] = live.say
    reports = Reports(config, campaign, live.say)
    config.pluginmanager.register(reports, "lmsv-reports")
    config.pluginmanager.register(Lines(config, reports, live), "lmsv-terminal")


class Lines:
    """The hooks of a session that tests models, on the controller."""

    def __init__(self, config: pytest.Config, reports: Reports, live: Live) -> None:
        self._config = config
        self._reports = reports
        self._campaign = reports.campaign
        self._live = live
        self._ended = ""
        """The line of a test that has ended and has not been shown yet."""

    def pytest_report_header(self) -> list[str]:
        return header(self._config)

    @pytest.hookimpl(tryfirst=True)  # before xdist starts workers, which would all want to build
    def pytest_sessionstart(self) -> None:
        settings, models = self._campaign.settings, self._campaign.models
        if settings.analyze is not None:
            return
        try:
            if not (settings.controller and settings.device == "npu"):
                site = doctor.of_settings(settings, models)
                doctor.demand(doctor.checks(site, other_machines=False))
            if session.node_names(self._config):
                machines.check(self._config)
            stacks.build_missing(self._config)
        except EnvironmentProblem as problem:
            raise pytest.UsageError(str(problem)) from None
        if self._config.get_verbosity() >= 0:
            self._live.start()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self) -> None:
        # The live line and ours begin a line of their own, below the name that -v prints.
        if self._config.get_verbosity() >= 0:
            self._new_line()

    def _new_line(self) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
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
            self._ended = test_line(report)
            if self._config.get_verbosity() == 0 or hasattr(report, "node"):
                self._tell()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        self._tell()  # with -v after pytest's own word, to which it would stick

    def _tell(self) -> None:
        if self._ended:
            if self._config.get_verbosity() > 0:
                self._new_line()
            self._live.say(self._ended)
            self._ended = ""

    @pytest.hookimpl(tryfirst=True)  # before the JUnit file is written
    def pytest_sessionfinish(self) -> None:
        self._live.stop()
        self._reports.finish()
        self._tell_junit()

    def _tell_junit(self) -> None:
        """Add the coverage of each model to the properties of the JUnit file, where one is made."""
        campaign, records = self._reports.campaign, self._reports.summary.records
        for plugin in self._config.pluginmanager.get_plugins():
            if hasattr(plugin, "add_global_property"):  # as record_testsuite_property does
                for model in campaign.models:
                    covered = tried(campaign, model, records)
                    if covered is not None:
                        name = f"lmsv.coverage.{model}"
                        plugin.add_global_property(name, covered.sentence())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("lmsv")
        for line in closing(self._reports):
            terminalreporter.line(line)


def header(config: pytest.Config) -> list[str]:
    """Return the lines above a session that tests models."""
    settings = session.settings_of(config)
    models = ", ".join(session.models_of(config))
    baseline, compare = settings.sides
    analyzed = session.analyzed_campaign(config)
    if analyzed is not None:
        lines = [
            f"lmsv: analysis of {analyzed.folder}: {models}, {baseline} against {compare} on "
            f"{settings.device}, gate {' '.join(settings.gate)}; nothing is run"
        ]
        if analyzed.missing:
            names = ", ".join(f"{model}-iter{number}" for model, number in analyzed.missing[:10])
            more = len(analyzed.missing) - 10
            lines.append(
                f"lmsv: the campaign ended early, no result of: {names}"
                + (f" and {more} more" if more > 0 else "")
            )
        return lines
    lines = [
        f"lmsv: {models}; {counted(len(session.run_numbers(config)), 'iteration')} of "
        f"{counted(settings.steps, 'step')}, "
        f"{baseline} against {compare} on {settings.device}, seed {settings.seed}, gate "
        f"{' '.join(settings.gate)}"
    ]
    if settings.device == "cpu":
        lines.append(
            "lmsv: cpu: small networks; MindSpore runs through mindtorch, which stands in for "
            "msadapter"
        )
    nodes = session.node_names(config)
    if nodes:
        steers = "; this machine steers" if settings.controller else ""
        lines.append(f"lmsv: {len(nodes)} machines: {', '.join(nodes)}{steers}")
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
    names = (n for n in VERDICT_COLUMNS if n != idle and values.get(f"lmsv.{n}"))
    verdicts = ", ".join(f"{name} {verdict_cell(values, name)}" for name in names)
    return f"lmsv {name} {outcome}: {verdicts}"


def is_ours(report: pytest.TestReport) -> bool:
    """Return whether *report* is of a test that filled an iteration."""
    return "lmsv.model" in texts(report)


def closing(reports: Reports) -> Iterator[str]:
    """Yield the lines below the tests: the counts of DESIGN 5.7, and where everything is."""
    campaign, records = reports.campaign, reports.summary.records
    for model in campaign.models:
        counts = count(record for record in records if record.model == model)
        yield f"{model}: {counts.sentence(campaign.labels[1])}"
        covered = tried(campaign, model, records)
        if covered is not None:
            yield f"{model}: {covered.sentence()}"
        damaged = reports.summary.damaged_of(model)
        if damaged:
            yield f"{model}: damaged and in no figure: iteration {ranges(damaged)}"
        expected = reports.summary.expected(model)
        slow = [r for r in records if r.model == model and fails_only(r, "performance", expected)]
        if slow:
            yield (
                f"{model}: {len(slow)} FAILED: performance only; the entry of known_bugs.yaml that "
                f"accepts it: {campaign.folder / 'analysis' / 'summary.md'}"
            )
    if reports.bugs:
        yield f"{counted(len(reports.bugs), 'bug')}: {campaign.folder / 'detected_bugs'}"
    kept = [folder for folder in campaign.folder.glob("iters/*/*/weights") if folder.is_dir()]
    if kept:
        size = sum(weights.size_gb(folder) for folder in kept)
        yield f"weights kept of {counted(len(kept), 'iteration')}: {size:.2f} GB"
    yield f"all figures and logs: {campaign.folder}"


OUTCOMES = {
    "passed": "PASSED",
    "failed": "FAILED",
    "skipped": "SKIPPED",
    "xfailed": "XFAIL",
    "xpassed": "XPASS",
}
