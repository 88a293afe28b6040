"""Coverage of a mutation space, counted beside a plain recount."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv import catalog, mutations
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.coverage import Coverage, coverage
from pytest_lmsv.records import Edit, Mutation
from tests_selftest.mutation.small_models import write


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    folder = tmp_path_factory.mktemp("models")
    write(folder)
    return catalog.load([folder])["tiny"]


def mutation(*changes: tuple[str, object]) -> Mutation:
    return Mutation("tiny", 1, 1, 43, tuple(Edit(path, None, new) for path, new in changes), {})


def test_keys_values_and_pairs_are_counted_once(tiny: ModelSpec) -> None:
    tried = [
        mutation(("/args/lr", 2e-5), ("/args/clip-grad", 0.5)),
        mutation(("/args/lr", 2e-5), ("/args/clip-grad", 2.0)),
        mutation(("/args/lr", 2e-5), ("/args/clip-grad", 0.5)),
    ]
    found = coverage(tiny.space("cpu"), tried)
    assert (found.keys_covered, found.values_covered, found.pairs_covered) == (2, 3, 2)
    assert found.curve == (2, 3, 3)
    assert found.sentence() == (
        f"covered 3 of {found.values} values (2 of 13 keys), 2 of {found.pairs} pairs"
    )


def test_what_is_not_in_the_space_does_not_count(tiny: ModelSpec) -> None:
    other = [
        mutation(("/args/lr", 0.5)),
        mutation(("/model/frames", 3)),
        mutation(("/data/text/max_length", 4)),  # it follows another key
        mutation(("/args/lr", 1e-5)),  # the unmutated value
    ]
    assert coverage(tiny.space("cpu"), other).curve == (0, 0, 0, 0)


def test_keys_that_need_fresh_weights_count_only_where_they_can_be_drawn(tiny: ModelSpec) -> None:
    fitting = coverage(tiny.space("cpu"), [], only_fitting_checkpoint=True)
    assert fitting.keys == coverage(tiny.space("cpu"), []).keys - 3


@given(data=st.data())
def test_counts_are_those_of_a_recount(tiny: ModelSpec, data: st.DataObject) -> None:
    tried = data.draw(st.lists(mutations(tiny, count=3), max_size=5))
    space = tiny.space("cpu")
    found = coverage(space, tried)
    grid = [
        (key.path, json.dumps(value))
        for key in space.drawn()
        for value in key.values
        if not pointer.same(value, pointer.get(space.documents, key.path))
    ]
    assert found.values == len(grid)
    assert found.pairs == sum(a[0] != b[0] for a, b in combinations(grid, 2))
    shown = [
        {name for edit in one.edits if (name := (edit.path, json.dumps(edit.new))) in grid}
        for one in tried
    ]
    assert found.values_covered == len(set().union(*shown)) == (found.curve or (0,))[-1]
    assert found.pairs_covered == len({p for one in shown for p in combinations(sorted(one), 2)})
    assert list(found.curve) == sorted(found.curve)


def test_it_is_stored_by_name() -> None:
    assert Coverage(1, 2, 3, 4, 5, 6, (2, 3)).as_plain() == {
        "keys_covered": 1,
        "keys": 2,
        "values_covered": 3,
        "values": 4,
        "pairs_covered": 5,
        "pairs": 6,
        "curve": [2, 3],
    }
