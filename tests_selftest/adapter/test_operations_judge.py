"""What two sweeps' results of one operation are judged to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge import operations
from pytest_lmsv.judge.operations import GRADIENT, VALUE, compare, judge, sweep

from .loading import array

ONE = {"value": [array(1.0, 2.0)], "gradient": {"x": array(0.5, -0.5)}}


def judged(pta: dict[str, Any], msa: dict[str, Any]) -> list[str]:
    ours = sweep("pta", [{"operation": "op", **pta}])
    theirs = sweep("msa", [{"operation": "op", **msa}])
    return [str(finding) for finding in judge("op", ours, theirs)]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"value": [array(1.0, 2.0 + 1e-6)]}, []),
        ({"value": [array(1.0, 2.1)]}, ["value: differs by 0.05 of its scale, 1 of 2 numbers"]),
        ({"value": [array(0.0, 0.0)]}, ["value: zero everywhere, PTA's largest is 2"]),
        ({"value": [array(1.0, "NaN")]}, ["value: differs in 1 of 2 numbers, first at 1: 'NaN'"]),
        ({"value": [array(1.0, "Infinity")]}, ["value: differs in 1 of 2 numbers"]),
        ({"value": [array(1.0, 2.0, shape=[1, 2])]}, ["value: shape [1, 2], PTA has [2]"]),
        ({"value": [array(1.0, 2.0, dtype="float64")]}, ["value: type float64"]),
        ({"value": [array(1.0, 2.0)] * 2}, ["value: 2 results, PTA has 1"]),
        ({"value": None, "value_error": "E: no"}, ["missing: E: no"]),
        ({"gradient": {"x": array(0.0, 0.0)}}, ["gradient: of x: zero everywhere"]),
        ({"gradient": {"x": array(0.5, -0.4)}}, ["gradient: of x: differs by 0.2"]),
        ({"gradient": {"x": None}}, ["gradient: of x: none"]),
        ({"gradient": None, "gradient_error": "E: no"}, ["gradient: E: no"]),
        (
            {"value": [array(9.0, 9.0)], "gradient": {"x": array(9.0, 9.0)}},
            ["value: differs", "gradient: of x: differs"],
        ),
    ],
)
def test_every_difference_of_msa_is_a_finding(change: dict[str, Any], found: list[str]) -> None:
    msa = {key: value for key, value in {**ONE, **change}.items() if value is not None}
    texts = judged(ONE, msa)
    assert len(texts) == len(found)
    for text, begin in zip(texts, found, strict=True):
        assert text.startswith(begin)


@pytest.mark.parametrize(
    ("pta", "msa", "agree"),
    [
        (["NaN", "Infinity", 1.0], ["NaN", "Infinity", 1.0], True),
        (["NaN"], [0.0], False),
        (["Infinity"], ["-Infinity"], False),
        ([], [], True),
        ([0.0, 0.0], [0.0, 0.0], True),
        ([0.0, 0.0], [0.0, 1e-12], False),
    ],
)
def test_what_is_not_finite_must_be_the_same(pta: list[Any], msa: list[Any], agree: bool) -> None:
    assert (compare(array(*pta), array(*msa), VALUE) is None) == agree


@pytest.mark.parametrize(
    ("dtype", "difference", "agree"),
    [
        ("float16", 5e-4, True),
        ("float16", 5e-3, False),
        ("float32", 5e-7, True),
        ("float32", 5e-6, False),
        ("float64", 1e-13, True),
        ("float64", 1e-9, False),
        ("number", 5e-7, True),
        ("number", 5e-6, False),
    ],
)
def test_the_limit_is_that_of_the_type(dtype: str, difference: float, agree: bool) -> None:
    ours, theirs = array(1.0, dtype=dtype), array(1.0 + difference, dtype=dtype)
    assert (compare(ours, theirs, VALUE) is None) == agree


def test_integers_and_booleans_must_be_equal() -> None:
    assert compare(array(2**53, dtype="int64"), array(2**53 + 1, dtype="int64"), 1.0)
    assert compare(array(True, dtype="bool"), array(False, dtype="bool"), 1.0)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5),
    st.floats(0.0, 0.5),
    st.sampled_from([VALUE, GRADIENT]),
)
def test_a_difference_within_the_limit_of_the_scale_agrees(
    values: list[float], share: float, limit: float
) -> None:
    shift = share * limit * max(abs(value) for value in values)
    moved = [value + shift for value in values]
    if any(moved) or not any(values):
        assert compare(array(*values), array(*moved), limit) is None


@given(st.lists(st.floats(0.5, 1e6), min_size=1, max_size=5), st.integers(0, 4))
def test_one_number_that_is_off_is_found(values: list[float], place: int) -> None:
    moved = list(values)
    moved[place % len(values)] += 3 * VALUE * max(values)
    assert compare(array(*values), array(*moved), VALUE) is not None


@pytest.mark.parametrize(
    ("pta", "msa", "findings"),
    [
        (6e-8, 9e-7, 0),
        (6e-8, 2e-6, 1),
        (1e-6, 3.9e-6, 0),  # PyTorch itself is as weak there
        (1e-6, 4.1e-6, 1),
        (6e-8, 1e300, 1),
    ],
)
def test_accuracy_is_held_to_the_limit_or_to_what_pytorch_reaches(
    pta: float, msa: float, findings: int
) -> None:
    measured = [{**ONE, "accuracy": {"error": error, "at": 1.5}} for error in (pta, msa)]
    texts = judged(*measured)
    assert len(texts) == findings
    assert all(text.startswith("accuracy: error") for text in texts)


def test_an_accuracy_that_could_not_be_measured_is_a_finding() -> None:
    msa = {**ONE, "accuracy_error": "E: no"}
    assert judged({**ONE, "accuracy": {"error": 0.0, "at": 0.0}}, msa) == ["accuracy: E: no"]


def test_a_gradient_where_pytorch_has_none_must_be_zero() -> None:
    pta = {**ONE, "gradient": {"x": None}}
    assert judged(pta, {**ONE, "gradient": {"x": array(0.0, 0.0)}}) == []
    assert judged(pta, ONE) == ["gradient: of x: not zero, PTA has none"]


@pytest.mark.parametrize("lines", [[], [{"operation": "op", "value_error": "E: no"}]])
def test_no_result_on_pta_says_nothing_about_msa(lines: list[dict[str, Any]]) -> None:
    found = judge("op", sweep("pta", lines), sweep("msa", [{"operation": "op", **ONE}]))
    assert [finding.kind for finding in found] == [operations.REFERENCE]


def test_an_operation_that_ends_the_interpreter_is_a_crash() -> None:
    ours = sweep("pta", [{"operation": "op", **ONE}])
    theirs = sweep("msa", [{"begin": "op"}, {"crash": "op", "how": "exit status -11"}])
    assert [str(f) for f in judge("op", ours, theirs)] == ["crash: exit status -11"]
