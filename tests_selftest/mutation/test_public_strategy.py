"""``mutations()`` in a user's own test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_lmsv import catalog
from pytest_lmsv.mutation import mutations
from pytest_lmsv.mutation.draw import draw
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Mutation
from tests_selftest.mutation.small_models import write

USERS_TEST = """
from hypothesis import given, settings
from pytest_lmsv import mutations

SEEN = set()

@settings(max_examples=50, database=None)
@given(mutations("tiny", count=3))
def test_mine(mutation):
    assert mutation.model == "tiny"
    assert (mutation.iteration, mutation.attempt, mutation.seed) == (0, 0, 0)
    SEEN.add(str(mutation.edits))

def test_many_were_seen():
    assert len(SEEN) > 20

@settings(max_examples=300, database=None)
@given(mutations("wee", count=3))
def test_shrinks(mutation):
    assert all(edit.path != "/args/lr" for edit in mutation.edits)
"""


def test_a_users_test_draws_from_the_models_of_its_project(tmp_path: Path) -> None:
    write(tmp_path / "mm_configs")
    (tmp_path / "test_mine.py").write_text(USERS_TEST)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 failed, 2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "Edit(path='/args/lr', old=1e-05, new=2e-05)" in ended.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


def test_the_strategy_gives_what_it_is_asked_for(folder: Path) -> None:
    lengths = set()

    @settings(max_examples=50, database=None, suppress_health_check=list(HealthCheck))
    @given(
        st.data(),
        st.sampled_from(
            [
                mutations("tiny", folders=[folder], count=4, device="npu"),
                mutations(catalog.load([folder])["tiny"], count=4, only_fitting_checkpoint=True),
            ]
        ),
    )
    def check(data: st.DataObject, strategy: st.SearchStrategy[Mutation]) -> None:
        mutation = data.draw(strategy)
        lengths.add(len({edit.path for edit in mutation.edits} - {"/data/text/max_length"}))

    check()
    assert lengths == {4}


def test_a_chain_starts_from_the_documents_that_are_given(folder: Path) -> None:
    tiny = catalog.load([folder])["tiny"]
    base = tiny.documents("cpu")
    base["args"]["clip-grad"] = 2.0

    @settings(max_examples=100, database=None)
    @given(mutations(tiny, base=base, count=2))
    def check(mutation: Mutation) -> None:
        for edit in mutation.edits:
            assert edit.path != "/args/clip-grad" or (edit.old == 2.0 and edit.new != 2.0)

    check()


def test_an_unknown_model_or_count_is_refused_where_the_test_is_written(folder: Path) -> None:
    with pytest.raises(InputProblem, match="did you mean 'tiny'"):
        mutations("tin", folders=[folder])
    with pytest.raises(InputProblem, match="expected 1 to 13 edits"):
        mutations("tiny", folders=[folder], count=99)


def test_a_draw_inside_a_test_under_given_is_refused_in_one_line(folder: Path) -> None:
    tiny = catalog.load([folder])["tiny"]

    @settings(max_examples=2, database=None)
    @given(st.just(1))
    def check(_: int) -> None:
        draw(tiny, "cpu", seed=1, iteration=1, attempt=1)

    with pytest.raises(InputProblem, match=r"draw\(\) can't be called inside a test under @given"):
        check()


def test_the_mutation_package_costs_nothing_before_it_is_used() -> None:
    code = (
        "import sys, pytest_lmsv.mutation, pytest_lmsv.catalog, pytest_lmsv.data; "
        "print([m for m in ('hypothesis', 'yaml', 'pytest') if m in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.strip() == "[]"
