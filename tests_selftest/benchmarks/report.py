"""What the HTML report costs: its size and seconds, and how long a browser takes to show it.

``python -m tests_selftest.benchmarks.report [ITERATIONS]`` stores a campaign of 2,000 iterations
(every kind of end by turns), has its reports written with and without pytest-html, opens the page
in Chromium and prints what it measured. Needs Chromium and playwright.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from pytest_lmsv.records import IterationRecord
from tests_selftest.page import campaigns
from tests_selftest.page.browser import browser

PAINTED = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def records(count: int) -> list[IterationRecord]:
    """Every kind of end by turns."""
    kinds = campaigns.mixed()
    made = []
    for number in range(1, count + 1):
        record = kinds[number % len(kinds)]
        mutation = record.mutation and replace(record.mutation, iteration=number)
        made.append(replace(record, iteration=number, mutation=mutation))
    return made


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lmsv-report-") as name:
        root = Path(name)
        campaign = root / "output" / "20261130_214044"
        campaigns.store(root, campaign, records(count))
        for words in (("-p", "no:html"), ()):
            began = time.perf_counter()
            done = campaigns.report(root, campaign, *words)
            seconds = time.perf_counter() - began
            print(f"pytest {' '.join(words) or 'with the report'}: {seconds:.1f} s", flush=True)
            assert done.returncode == 1, done.stdout + done.stderr
        page = campaign / "analysis" / "report.html"
        print(f"{count} iterations: {page.stat().st_size / 1e6:.2f} MB")
        pictures = [path.stat().st_size for path in page.parent.glob("assets/*.svg")]
        print(f"{len(pictures)} pictures: {sum(pictures) / 1e6:.2f} MB beside it")
        look(page, count)


def look(page: Path, count: int) -> None:
    """Open *page*, scroll to its end and open the last row; print the seconds of each."""
    with browser() as started:
        tab = started.new_page(viewport={"width": 1400, "height": 900})
        tab.set_default_timeout(120_000)

        def timed(what: str, began: float) -> None:
            tab.evaluate(PAINTED)
            print(f"Chromium: {what}: {time.perf_counter() - began:.2f} s", flush=True)

        began = time.perf_counter()
        tab.goto(page.as_uri())
        tab.locator("#results-table > tbody").nth(count - 1).wait_for(state="attached")
        timed("opened", began)
        began = time.perf_counter()
        tab.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        timed("scrolled to its end", began)
        began = time.perf_counter()
        tab.locator(f"#toy-iter{count} .col-result").click()
        timed("opened the last row", began)
        began = time.perf_counter()
        tab.locator("[data-class]").first.click()
        timed("filtered by a class", began)
        began = time.perf_counter()
        tab.locator("th[data-column-type=lmsv_memory]").click()
        timed("sorted (pytest-html draws all rows anew)", began)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
