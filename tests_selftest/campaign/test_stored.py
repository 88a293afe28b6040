"""What is stored of a record is all of it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.campaign.stored import from_plain, to_plain
from pytest_lmsv.records import (
    Attempt,
    Completion,
    Edit,
    IterationRecord,
    Metrics,
    Mutation,
    Note,
    Parameter,
    RunError,
    RunRecord,
    Verdict,
)

texts = st.text(max_size=8)
values = st.one_of(
    st.integers(), st.booleans(), texts, st.none(), st.lists(st.integers(), max_size=2)
)
numbers = st.floats(allow_nan=False)  # NaN is not equal to itself; see the test below
points = st.tuples(st.integers(0, 99), numbers)
curves = st.lists(points, max_size=3).map(tuple)
metrics = st.builds(
    Metrics,
    losses=curves,
    grad_norms=curves,
    step_time_ms=curves,
    memory_mb=st.none() | numbers,
    generation_s=st.none() | numbers,
    sources=st.dictionaries(texts, texts, max_size=2),
)
parameters = st.builds(
    Parameter, dtype=texts, shape=st.lists(st.integers(), max_size=3).map(tuple), digest=texts
)
completions = st.builds(
    Completion,
    rank=st.integers(),
    world_size=st.integers(),
    run_id=texts,
    steps=st.none() | st.integers(),
    memory_mb=st.none() | numbers,
    memory_kind=st.none() | texts,
    generation_s=st.none() | numbers,
    versions=st.dictionaries(texts, texts, max_size=1),
    documents=st.dictionaries(texts, texts, max_size=1),
    parameters=st.dictionaries(texts, parameters, max_size=1),
    echo=st.dictionaries(texts, values, max_size=2),
)
runs = st.builds(
    RunRecord,
    stack=st.sampled_from(["pta", "msa"]),
    nodes=st.integers(1, 4),
    outcome=st.sampled_from(["ok", "error", "timeout"]),
    complete=st.none() | st.booleans(),
    metrics=metrics,
    error=st.none() | st.builds(RunError, type=texts, message=texts, category=texts),
    notes=st.lists(st.builds(Note, code=texts, text=texts), max_size=2).map(tuple),
    exit_status=st.none() | st.integers(),
    logs=st.lists(texts, max_size=2).map(tuple),
    completions=st.lists(completions, max_size=1).map(tuple),
)
records = st.builds(
    IterationRecord,
    model=texts,
    iteration=st.integers(),
    mutation=st.none()
    | st.builds(
        Mutation,
        model=texts,
        iteration=st.integers(),
        attempt=st.integers(),
        seed=st.integers(),
        edits=st.lists(st.builds(Edit, path=texts, old=values, new=values), max_size=2).map(tuple),
        drawn_by=st.dictionaries(texts, texts, max_size=1),
    ),
    attempts=st.lists(
        st.builds(
            Attempt,
            number=st.integers(),
            verdict=st.sampled_from(["invalid", "no effect"]),
            reason=texts,
            folder=texts,
        ),
        max_size=2,
    ).map(tuple),
    baseline_run=st.none() | runs,
    compare_run=st.none() | runs,
    verdicts=st.lists(
        st.builds(
            Verdict,
            name=texts,
            result=st.sampled_from(["OK", "NG", "N/A"]),
            baseline=st.none() | numbers,
            compare=st.none() | numbers,
            difference=st.none() | numbers,
            unit=texts,
            reason=texts,
        ),
        max_size=2,
    ).map(tuple),
    status=texts,
    findings=st.lists(texts, max_size=2).map(tuple),
)


@given(records)
def test_a_record_is_read_back_as_it_was_written(record: IterationRecord) -> None:
    text = json.dumps(to_plain(record), allow_nan=False)
    assert from_plain(IterationRecord, json.loads(text)) == record


def test_nan_is_stored_as_a_word() -> None:
    plain = to_plain(Metrics(losses=((1, float("nan")), (2, float("-inf")))))
    assert plain["losses"] == [[1, "NaN"], [2, "-Infinity"]]
    (_, first), (_, second) = from_plain(Metrics, plain).losses
    assert first != first
    assert second == float("-inf")


def test_fields_of_a_newer_version_are_left_out() -> None:
    assert from_plain(Edit, {"path": "/a", "old": 1, "new": 2, "later": 3}) == Edit("/a", 1, 2)
