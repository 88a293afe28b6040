"""The data files: every figure that Python has is one that JSON has, and the order is kept."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_lmsv.campaign.summary import slim
from pytest_lmsv.campaign.tried import tried
from tests_selftest.judge.made import iteration, run
from tests_selftest.report.made import campaign, summary

figures = st.one_of(st.none(), st.floats(), st.sampled_from([5e-324, 1e308, 0.0]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(figures, figures, figures, figures), max_size=4))
def test_any_figures_make_valid_files(
    tmp_path: Path, found: list[tuple[float | None, ...]]
) -> None:
    records = [
        iteration(
            number,
            pta=run("pta", loss=loss, memory=memory, ms=1.0),
            msa=run("msa", loss=other, memory=more, ms=2.0),
        )
        for number, (loss, other, memory, more) in enumerate(found, start=1)
    ]
    of = campaign(tmp_path / "c")
    told = summary(of, records)
    told.write()
    told.bugs()
    for name in ("data/summary.json", "data/issue_groups.json", "final_report.json"):
        json.loads((of.folder / name).read_text("utf-8"), parse_constant=_refuse)
    rows = list(csv.DictReader((of.folder / "data" / "iteration_metrics.csv").open()))
    assert [row["iteration"] for row in rows] == [str(record.iteration) for record in records]


def _refuse(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def test_iterations_are_sorted_by_model_and_number_and_replaced_when_told_again(
    tmp_path: Path,
) -> None:
    of = campaign(tmp_path / "c", models=("b", "a"))
    told = summary(of, [iteration(n, model=m) for m, n in (("a", 10), ("b", 9), ("a", 2))])
    told.add(iteration(2, model="a", msa=run("msa", loss=2.0)))
    assert [(r.model, r.iteration) for r in told.records] == [("b", 9), ("a", 2), ("a", 10)]
    assert [c.iterations for c in told.classes if c.id == "accuracy"] == [(("a", 2),)]


def test_what_is_kept_in_memory_has_the_figures_and_no_curve() -> None:
    record = slim(iteration(1, msa=run("msa", ms=12.0, echo={"/model/width": 4})))
    assert record.compare_run is not None
    assert (record.compare_run.echo, record.compare_run.completions) == ({}, ())
    assert len(record.compare_run.metrics.losses) == 1
    assert record.compare_run.metrics.step_time_ms == ((1, 12.0),)
    assert math.isclose(record.compare_run.metrics.losses[0][1], 1 / 3)


def test_a_model_whose_space_is_gone_has_no_coverage(tmp_path: Path) -> None:
    of = campaign(tmp_path / "c")
    assert tried(of, "toy", [iteration(1)]) is None
