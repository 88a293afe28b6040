"""The page of a mixed campaign, written once and looked at by all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_lmsv import data
from tests_selftest.page import campaigns
from tests_selftest.page.browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCRIPT = campaigns.SCRIPT
OWN_TEST = f"""\
import pytest

@pytest.mark.parametrize("text", [1], ids=[{SCRIPT!r}])
def test_own(text):
    print({SCRIPT!r})
"""


@dataclass
class Look:
    """A page in the browser, and what it asked for and complained about."""

    tab: Page
    asked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def texts(self, selector: str) -> list[str]:
        """The texts of what is shown of *selector*."""
        return self.tab.locator(f"{selector}:visible").all_inner_texts()

    def shown(self) -> list[str]:
        """The numbers of the iterations whose rows are shown, in their order."""
        return [text for text in self.texts("td.col-lmsv_iteration") if text]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        found: int = self.tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        return found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser, started once."""
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a stored campaign and its page, under a name that markup and URLs dislike."""
    root = tmp_path_factory.mktemp("page") / "报告 50% <b>&'"
    root.mkdir()
    campaigns.store(root, root / "output" / "c", campaigns.mixed())
    (root / "test_models").mkdir()
    shutil.copy(data.test_models() / "test_alignment.py", root / "test_models")
    (root / "test_own.py").write_text(OWN_TEST, encoding="utf-8")
    done = campaigns.report(
        root, root / "output" / "c", "test_models", "test_own.py", "--metadata", "BUILD", SCRIPT
    )
    assert "5 failed, 7 passed, 1 error" in done.stdout, done.stdout + done.stderr
    return root


@pytest.fixture(scope="session")
def page_file(project: Path) -> Path:
    """The page itself."""
    return project / "output" / "c" / "analysis" / "report.html"


@pytest.fixture(params=[1400, 400], ids=["wide", "phone"])
def width(request: pytest.FixtureRequest) -> int:
    """The window's width in pixels."""
    found: int = request.param
    return found


@pytest.fixture
def look(chromium: Browser, page_file: Path, width: int) -> Iterator[Look]:
    """The page, opened anew."""
    phone = width < 700
    context = chromium.new_context(viewport={"width": width, "height": 900}, is_mobile=phone)
    found = Look(context.new_page())
    found.tab.on("request", lambda request: found.asked.append(request.url))
    found.tab.on("pageerror", lambda problem: found.problems.append(str(problem)))
    found.tab.on("dialog", lambda dialog: found.problems.append(dialog.message))
    found.tab.goto(page_file.as_uri())
    yield found
    context.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: ``LMSV_SCREENSHOTS``, which CI keeps, else a temporary folder."""
    named = os.environ.get("LMSV_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
