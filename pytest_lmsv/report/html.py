"""Columns of the pytest-html report: model, iteration, mutation, the verdicts, the finding.

pytest-html escapes neither cells nor test ids; everything that gets into a cell is escaped here.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.report.properties import DIFFERENCE

VERDICT_COLUMNS = ("accuracy", "memory", "performance", "output", "drift")
CSS = Path(__file__).with_name("report.css")


def register(config: pytest.Config, campaign: Campaign) -> None:
    """Give pytest-html its path and our columns; without pytest-html nothing is done."""
    if not hasattr(config.option, "htmlpath"):
        return
    if not config.option.htmlpath:
        config.option.htmlpath = str(campaign.folder / "analysis" / "report.html")
    config.option.css = [*(config.option.css or []), str(CSS)]
    config.pluginmanager.register(Columns(), "lmsv-html")


class Columns:
    """The hooks of pytest-html that add our columns."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: Any) -> None:
        report.title = "pytest-lmsv"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        cells[2:2] = header_cells()

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        cells[2:2] = row_cells(report)


def texts(report: pytest.TestReport) -> dict[str, str]:
    """Return the properties of *report* by name; a report of a failed collection has none."""
    return {name: str(value) for name, value in getattr(report, "user_properties", ())}


def header_cells() -> list[str]:
    """Return the header of our columns."""
    names = (
        "Model",
        "Iteration",
        "Mutation",
        *(n.capitalize() for n in VERDICT_COLUMNS),
        "Finding",
    )
    return [
        f'<th class="sortable" data-column-type="lmsv-{name.lower()}">{name}</th>' for name in names
    ]


def row_cells(report: pytest.TestReport) -> list[str]:
    """Return our cells for *report*; empty ones for a test that is not ours."""
    values = texts(report)
    number = values.get("lmsv.iteration", "")
    cells = [
        ("model", escape(values.get("lmsv.model", ""))),
        # The cell's text is the sort key; a padded hidden one keeps 10 after 9.
        ("iteration", f"<span hidden>{number.zfill(6)}</span>{escape(number)}" if number else ""),
        ("mutation", "<br>".join(map(escape, values.get("lmsv.mutation", "").split("; ")))),
    ]
    for name in VERDICT_COLUMNS:
        text = verdict_cell(values, name)
        kind = text[:2].lower().strip() if text else "none"
        cells.append((f"{name} lmsv-{kind}", escape(text)))
    cells.append(("finding", escape(values.get("lmsv.finding", ""))))
    return [f'<td class="col-lmsv-{name}">{text}</td>' for name, text in cells]


def verdict_cell(values: Mapping[str, str], name: str) -> str:
    """Return a verdict in Task6's words, as ``OK (diff=1.73%)``, ``NG (diff=+1198.40ms)``."""
    result = values.get(f"lmsv.{name}", "")
    if name == "drift":
        ratio = values.get("lmsv.drift.ratio", "")
        return f"{result} ({ratio} x limit)" if ratio else result
    difference = values.get(f"lmsv.{name}.{DIFFERENCE[name]}", "")
    if not difference:
        return result
    if name == "output" and values.get("lmsv.output.unit") == "tokens":
        return f"{result} (diff={float(difference):.0f} tokens)"
    if name in ("accuracy", "output"):
        return f"{result} (diff={100 * float(difference):.2f}%)"
    return f"{result} (diff={float(difference):+.2f}{'MB' if name == 'memory' else 'ms'})"
