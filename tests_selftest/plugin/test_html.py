"""The HTML report: our columns, and nothing of a log or a name that a browser would run."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests_selftest.plugin.conftest import Toy

SCRIPT = "<script>alert('x')</script>"


def table(page: Path) -> Any:
    """Return the data that the page's own script builds its table from."""
    found = re.search(r'data-jsonblob="([^"]*)"', page.read_text("utf-8"))
    assert found is not None
    return json.loads(html.unescape(found[1]))


def test_each_row_tells_model_mutation_verdicts_and_finding(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.5}])
    toy.run(iters=1).assert_outcomes(failed=1)
    blob = table(toy.campaign / "analysis" / "report.html")
    ((name, (row,)),) = blob["tests"].items()
    assert "toy-iter1" in name
    cells = "".join(row["resultsTableRow"])
    for text in ("toy", "NG (diff=50.00%)", "OK (diff=+0.00MB)", "accuracy NG", "-&gt;"):
        assert text in cells


def test_what_a_log_says_is_never_markup(toy: Toy) -> None:
    toy.behave(msa=[{"error_at": 1, "error": SCRIPT}])
    toy.run(iters=1).assert_outcomes(failed=1)
    page = toy.campaign / "analysis" / "report.html"
    assert SCRIPT not in page.read_text("utf-8")
    blob = table(page)
    ((row,),) = blob["tests"].values()
    assert SCRIPT not in "".join(row["resultsTableRow"])
    assert SCRIPT not in row["log"]


def test_a_page_elsewhere_links_into_the_campaign(toy: Toy) -> None:
    toy.run("--html=other/place/page.html", iters=1).assert_outcomes(passed=1)
    page = toy.pytester.path / "other" / "place" / "page.html"
    assert not (toy.campaign / "analysis" / "report.html").exists()
    ((row,),) = table(page)["tests"].values()
    links = re.findall(r"(?:href|src)=(?!#)([^ >]+)", "".join(row["resultsTableRow"]) + row["log"])
    assert {unquote(link).rpartition(".")[2] for link in links} >= {"log", "json", "md", "svg"}
    for link in links:
        target = (page.parent / unquote(link)).resolve()
        assert target.exists(), link
        assert target.is_relative_to(toy.campaign.resolve())


def test_two_workers_make_the_same_page(toy: Toy) -> None:
    toy.behave(msa=[{"when": {"width": 4}, "loss_factor": 1.2}])
    toy.run(iters=4)
    page = toy.campaign / "analysis" / "report.html"
    alone = logs(page)
    words = [f"--lmsv-analyze={toy.campaign}", "-p", "no:cacheprovider", "-n2"]
    toy.pytester.runpytest_subprocess(*words)
    assert logs(page) == alone
    assert len(alone) == 4


def logs(page: Path) -> dict[str, str]:
    """Cells and details of each row."""
    return {
        name: "".join(row["resultsTableRow"]) + row["log"]
        for name, (row,) in table(page)["tests"].items()
    }


def test_a_page_rewritten_after_every_test_is_whole(toy: Toy) -> None:
    """With pytest-html's generate_report_on_test a killed campaign has its page."""
    once, pid_file = toy.pytester.path / "once", toy.pytester.path / "pid"
    toy.behave(
        msa=[{"once": str(once), "loss_factor": 2}, {"pid_file": str(pid_file), "hang_at": 1}]
    )
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--model=toy", "--iters=2"]
    argv += ["--lmsv-steps=2", "-o", "generate_report_on_test=true"]
    process = subprocess.Popen(argv, cwd=toy.pytester.path)
    try:
        end = time.monotonic() + 60
        while not pid_file.exists() and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait(30)
    page = toy.campaign / "analysis" / "report.html"
    text = page.read_text("utf-8")
    assert "1 test of 2 ended, the others did not" in text
    assert "1 failed" in text
    assert "<button type=button data-class>Accuracy</button>" in text
    ((row,),) = table(page)["tests"].values()
    assert "repeat: pytest" in row["log"]
