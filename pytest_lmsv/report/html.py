"""The HTML report: pytest-html with our columns, an overview above them and details below each.

Works on the controller from what travels there (a test's properties) and from the stored folder of
its iteration, so that it is the same with xdist, after a resumption and over a stored campaign.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import data, session
from pytest_lmsv.campaign import archive
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.summary import Summary
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import IterationRecord
from pytest_lmsv.report import cells as row
from pytest_lmsv.report import details, overview, plots
from pytest_lmsv.report.judgement import Judgement

CSS, SCRIPT = Path(__file__).with_name("report.css"), Path(__file__).with_name("report.js")
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'


def register(config: pytest.Config, campaign: Campaign) -> None:
    """Give pytest-html its path and our columns; without pytest-html nothing is done."""
    if not hasattr(config.option, "htmlpath"):
        return
    if not config.option.htmlpath:
        config.option.htmlpath = str(campaign.folder / "analysis" / "report.html")
    config.option.css = [*(config.option.css or []), str(CSS)]
    # As pytest-html itself finds it.
    page = Path.cwd() / Path(os.path.expandvars(config.option.htmlpath)).expanduser()
    config.pluginmanager.register(Page(config, campaign, page), "lmsv-html")


class Page:
    """The hooks of pytest-html, on the controller."""

    def __init__(self, config: pytest.Config, campaign: Campaign, page: Path) -> None:
        self._page = page
        self._pictures = campaign.folder / "analysis" / "assets"
        self._rewritten = bool(config.getini("generate_report_on_test"))
        self._session = overview.Session(campaign)
        self._summary = Summary(campaign, lambda model: session.expected_bugs(config, model))
        infers = any(spec.kind == "inference" for spec in campaign.models.values())
        self._columns = [n for n in row.VERDICT_COLUMNS if n != "output" or infers]
        self._used: set[str] = set(row.ALWAYS)
        self._foreign = False
        self._prefix: list[str] = []
        self._details = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: Any) -> None:
        campaign = self._session.campaign
        self._session.stored = data.read_json(campaign.folder / "campaign.json")
        report.title = f"{', '.join(campaign.models)}: {' against '.join(campaign.labels)}"
        # pytest-html shows what the environment variables of a CI say as markup.
        report.set_data("environment", escaped(report.data["environment"]))
        self._prefix = report.additional_summary["prefix"]
        self._write_overview()

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        cells[:] = [cell for cell in cells if '"duration"' not in cell]
        cells[2:2] = row.header_cells(self._columns)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        self._details = ""
        shown = [cell for cell in cells if "col-duration" not in cell]
        values = row.texts(report)
        shown[1:2] = row.row_cells(report.nodeid, values, self._columns)
        if has_row(report):
            self._take(report, values, shown)
        cells[:] = shown

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: pytest.TestReport, data: list[str]) -> None:
        if self._details:
            data[:] = [self._details]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, session: pytest.Session) -> None:
        self._session.wanted = session.testscollected
        self._write_overview()

    @pytest.hookimpl(tryfirst=True)  # before the page is written
    def pytest_sessionfinish(self) -> None:
        # The report of a test whose record is damaged does not say which iteration it is of.
        campaign = self._session.campaign
        for model, number in archive.stored_numbers(campaign.folder):
            if not self._summary.has(model, number):
                try:
                    campaign.record(model, number)
                except InputProblem:
                    self._summary.add_damaged(model, number)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._session.wanted = len(session.items)

    def _take(self, report: pytest.TestReport, values: dict[str, str], shown: list[str]) -> None:
        """Add what the report is of to the overview, and make its details."""
        outcome = outcome_of(report)
        outcomes = self._session.outcomes
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        record = self._stored(values)
        if record is None:
            self._foreign = self._foreign or "lmsv.model" not in values
            return
        folder = Path(values["lmsv.folder"])
        self._used |= {name for name in self._columns if values.get(f"lmsv.{name}") in ("OK", "NG")}
        campaign = self._session.campaign
        limit = campaign.settings.loss_tolerance
        place = Place(folder, f"iter{record.iteration}")
        links = " ".join(row.links(place, campaign.sides, self._page))
        shown[:] = [
            cell.replace("</td>", f"{links}</td>") if "col-links" in cell else cell
            for cell in shown
        ]
        judgement = Judgement(campaign, record, ())
        text = details.text(record, campaign.labels, limit, judgement.repeat(), folder)
        self._details = details.html(self._picture(record, limit), text, remains(report, record))
        self._summary.add(record)
        if self._rewritten:
            self._write_overview()

    def _stored(self, values: Mapping[str, str]) -> IterationRecord | None:
        """Return the finished iteration that a report with the properties *values* is of."""
        if "lmsv.iteration" not in values:
            return None
        try:
            return self._session.campaign.record(
                values["lmsv.model"], int(values["lmsv.iteration"])
            )
        except InputProblem:  # its damage is what the test itself says
            return None

    def _picture(self, record: IterationRecord, limit: float) -> str | None:
        """Write the picture of *record* and return its address in the page."""
        if record.baseline_run is None:
            return None
        path = self._pictures / f"{row.anchor(record.model, record.iteration)}.svg"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not synced to the disk, which takes longer than all else: it can be drawn again.
            path.write_text(plots.draw(record, self._session.campaign.labels, limit), "utf-8")
        except OSError:  # a full disk costs the picture, not the report
            return None
        return row.relative_url(path, self._page)

    def _write_overview(self) -> None:
        """Put what is above the table into pytest-html's own list, which it renders from."""
        script = SCRIPT.read_text("utf-8")
        self._prefix[:] = [
            VIEWPORT,
            f"<style>{column_style(self._columns, self._used, self._foreign)}</style>",
            overview.html(self._session, self._summary),
            f"<script>{script}</script>",
        ]


def column_style(columns: Sequence[str], used: Container[str], foreign: bool) -> str:
    """Return the rules that hide the columns no row needs, and that label cells on a phone."""
    hidden = [f"lmsv_{name}" for name in columns if name not in used]
    hidden += [] if foreign else ["testId"]
    rules = [
        f".col-{name},th[data-column-type={name}]{{display:none!important}}" for name in hidden
    ]
    labels = [f'.col-lmsv_{name}::before{{content:"{name} "}}' for name in columns]
    return f"{''.join(rules)}@media(max-width:1250px){{{''.join(labels)}}}"


def has_row(report: pytest.TestReport) -> bool:
    """Return whether pytest-html makes a row of *report*: of its phases it keeps the telling."""
    return report.when in ("call", "collect") or report.outcome != "passed"


def outcome_of(report: pytest.TestReport) -> str:
    """Return how pytest counts *report*."""
    if report.when != "call" and report.failed:
        return "error"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome


def remains(report: pytest.TestReport, record: IterationRecord) -> str:
    """Return what pytest itself says and our details do not: markup, escaped."""
    # With xdist the text of a passed test is not empty: it names its worker.
    said = report.longreprtext if report.longrepr is not None else ""
    # A finding and why nothing could be tested are in the details.
    untested = bool(record.reason) and said.strip().endswith(record.reason.strip())
    if "\nrepeat: pytest" in said or untested:
        said = ""
    sections: Sequence[tuple[str, str]] = report.sections
    parts = [f"\n\n{said}"] if said else []
    parts += [f"\n\n{header}\n{content}" for header, content in sections if content.strip()]
    return escape("".join(parts))


def escaped(value: Any) -> Any:
    """Return *value*, a text or a nest of them, with its markup escaped."""
    if isinstance(value, dict):
        return {escape(str(key)): escaped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [escaped(item) for item in value]
    return escape(str(value))
