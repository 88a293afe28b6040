"""What is written of a campaign beside the HTML page, and when: on the controller, by one writer.

Data files after every iteration, unless writing them took more than a twentieth of the time since
(2,000 iterations of a second); everything once more at the end, interruptions included.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from pytest_lmsv import session
from pytest_lmsv.campaign import archive, stored_campaign
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.summary import Summary
from pytest_lmsv.files import write_whole
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.report import bugs, github, junit, markdown

SHARE = 20
"""Writing takes no more than one part in so many of a session's time."""


class Reports:
    """Collects finished iterations, and writes."""

    def __init__(
        self, config: pytest.Config, campaign: Campaign, say: Callable[[str], None]
    ) -> None:
        self.campaign = campaign
        self.summary = Summary(campaign, lambda model: session.expected_bugs(config, model))
        self.bugs: list[tuple[str, str]] = []
        """Title and file name of each bug report, once they are written."""
        self._say = say
        self._next = 0.0
        self._complained: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        values = dict(getattr(report, "user_properties", ()))
        ended = report.when == "call" or (report.when == "setup" and report.failed)
        if not ended or "lmsv.model" not in values:
            return
        self._take(str(values["lmsv.model"]), int(values["lmsv.iteration"]))
        now = time.monotonic()
        if now >= self._next:
            self._attempt(self.summary.write)
            after = time.monotonic()
            self._next = after + SHARE * (after - now)

    @pytest.hookimpl(trylast=True)  # after pytest wrote its file
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        path = getattr(session.config.option, "xmlpath", None)
        if path:
            self._attempt(lambda: junit.drop_nameless(Path(path).expanduser().absolute()))

    def finish(self) -> None:
        """Write everything there is; a problem with one file costs only that file."""
        for model, number in archive.stored_numbers(self.campaign.folder):
            if not self.summary.has(model, number):
                self._take(model, number)
        self._attempt(self.summary.write)
        self._attempt(self._write_bugs)
        self._attempt(self._write_page)
        self._attempt(self._write_verdicts)

    @property
    def missing(self) -> tuple[tuple[str, int], ...]:
        """The iterations that the campaign was to run and that have no result."""
        return stored_campaign.read(self.campaign.folder).missing

    def _take(self, model: str, number: int) -> None:
        try:
            record = self.campaign.record(model, number)
        except InputProblem as problem:
            self._complain(str(problem))
            self.summary.add_damaged(model, number)
            return
        if record is not None:
            self.summary.add(record)

    def _write_bugs(self) -> None:
        versions = stored_campaign.read(self.campaign.folder).versions
        expected = {model: self.summary.expected(model) for model in self.campaign.models}
        self.bugs = bugs.write(self.campaign, self.summary.bugs(), expected, versions)

    def _write_page(self) -> None:
        summary = self.summary
        text = markdown.page(
            self.campaign,
            summary.records,
            summary.classes,
            self.missing,
            self.bugs,
            summary.expected,
            summary.damaged,
        )
        write_whole(self.campaign.folder / "analysis" / "summary.md", text)
        named = os.environ.get("GITHUB_STEP_SUMMARY")
        if named:
            github.add(Path(named), text)

    def _write_verdicts(self) -> None:
        path = self.campaign.settings.verdict_xml
        if path is not None:
            now = datetime.now().isoformat(timespec="seconds")
            write_whole(path, junit.verdict_xml(self.summary, self.missing, now))

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (OSError, InputProblem) as problem:
            self._complain(f"a report can't be written: {problem}")

    def _complain(self, text: str) -> None:
        if text not in self._complained:
            self._complained.add(text)
            self._say(f"lmsv: {text}")
