"""Problem classes: every problem is in its class, and every class names its iterations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge.classes import classes_of, problem_classes
from pytest_lmsv.judge.counts import has_issue
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.logs.categories import CATEGORIES
from pytest_lmsv.records import IterationRecord
from tests_selftest.judge.made import error, iteration, run, untested

CRASH = KnownBug("toy-crash", "the toy crashes", "msa", True, signature=re.compile("aclnnFoo"))
SLOW = KnownBug("toy-slow", "the toy is slow", "msa", True, verdict="performance", limit=1.0)

CASES = {
    "fine": (iteration(1), ()),
    "loss": (iteration(1, msa=run("msa", loss=1.2)), ("accuracy",)),
    "memory and time": (
        iteration(1, msa=run("msa", memory=120.0, ms=30.0)),
        ("memory", "performance"),
    ),
    "no loss": (iteration(1, msa=run("msa", loss=None)), ("loss",)),
    "lost edit": (
        iteration(1, pta=run("pta", echo={"/model/width": 4})),
        ("mutation",),
    ),
    "error": (
        iteration(1, msa=run("msa", error=error("no", "out_of_memory"))),
        ("error:out_of_memory",),
    ),
    "redrawn": (
        iteration(1, discarded=("invalid", "invalid", "no effect")),
        ("invalid", "no_effect"),
    ),
    "untested": (untested(1), ("environment",)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_problem_is_in_its_class(name: str) -> None:
    record, wanted = CASES[name]
    assert classes_of(record) == wanted


def test_a_known_error_is_in_both_its_classes() -> None:
    record = iteration(1, msa=run("msa", error=error("aclnnFoo failed", known_bug="toy-crash")))
    assert classes_of(record, [CRASH]) == ("error:other_python", "known:toy-crash")


def test_an_accepted_slowness_is_a_known_bug_seen() -> None:
    record = iteration(1, msa=run("msa", ms=19.0))
    assert classes_of(record, [SLOW]) == ("performance", "known:toy-slow")
    beyond = iteration(1, msa=run("msa", ms=21.0))
    assert classes_of(beyond, [SLOW]) == ("performance",)


def test_an_expected_error_that_did_not_come_is_told_and_an_accepted_figure_is_not() -> None:
    assert classes_of(iteration(1), [CRASH, SLOW]) == ("missed:toy-crash",)
    failed = iteration(1, msa=run("msa", loss=2.0))
    assert classes_of(failed, [CRASH]) == ("accuracy",)  # the test fails for its own reason


def test_classes_name_their_iterations_in_order_and_count_attempts() -> None:
    records = [
        iteration(2, discarded=("invalid", "invalid")),
        iteration(9, msa=run("msa", loss=1.2)),
        iteration(10, msa=run("msa", loss=1.2), model="other"),
    ]
    accuracy, invalid = problem_classes(records)
    assert (accuracy.id, accuracy.title, accuracy.title_zh) == ("accuracy", "Accuracy", "精度问题")
    assert accuracy.iterations == (("toy", 9), ("other", 10))
    assert (invalid.iterations, invalid.count) == ((("toy", 2),), 2)


def test_titles_name_the_cause_and_the_bug() -> None:
    records = [
        iteration(1, msa=run("msa", error=error("aclnnFoo", "aclnn_param"))),
        iteration(2),
    ]
    titles = [c.title for c in problem_classes(records, lambda model: [CRASH])]
    assert titles == [
        "MSA error: operator refused its parameters",
        "Known bug seen: toy-crash (the toy crashes)",
        "Known bug that did not happen: toy-crash (the toy crashes)",
    ]


@pytest.mark.parametrize("category", sorted(CATEGORIES))
def test_every_category_has_a_title_in_both_languages(category: str) -> None:
    record = iteration(1, msa=run("msa", error=error("no", category)))
    (found,) = problem_classes([record])
    assert found.title != f"MSA error: {category}" or "_" not in category
    assert re.search("[\u4e00-\u9fff]", found.title_zh)


@given(st.lists(st.sampled_from([record for record, _ in CASES.values()])))
def test_an_iteration_with_an_issue_is_in_a_class(records: list[IterationRecord]) -> None:
    found = problem_classes(records)
    assert len({c.id for c in found}) == len(found)
    named = {place for c in found if c.id not in ("invalid", "no_effect") for place in c.iterations}
    assert (("toy", 1) in named) == any(
        has_issue(r) or r.failing or r.status != "DONE" for r in records
    )
