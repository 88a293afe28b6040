"""The HTML report: our columns, and nothing of a log or a name that a browser would run."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

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
