"""A real browser for the report: Debian's Chromium, driven by playwright, which downloads none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser; a skip that names the remedy without one.

    With ``LMSV_REQUIRE_BROWSER=1`` in the environment, as in CI, its absence is a failure.
    """
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        _missing(f"no browser: none of {', '.join(NAMES)} is on PATH; apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("no driver of a browser: pip install playwright (it is in the extra `test`)")
    # Chromium's own sandbox refuses to start as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=arguments)
        try:
            yield started
        finally:
            started.close()


def _missing(reason: str) -> None:
    if os.environ.get("LMSV_REQUIRE_BROWSER") == "1":
        pytest.fail(f"LMSV_REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)
