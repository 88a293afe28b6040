"""Records read by the look of the one before: the same figures as by the usual way."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.logs.metrics import step_records
from pytest_lmsv.logs.quick import Quick

RECORD = (
    "{head}iteration {step:8d}/{steps:8d} | consumed samples: {step:12d} | elapsed time per"
    " iteration (ms): {time:.1f} | learning rate: {rate:.6E} | global batch size:     8 |{loss}"
    " loss scale: 1.0 |{norm} number of skipped iterations: {skipped:3d} | number of nan"
    " iterations: {nan:3d} |"
)
numbers = st.one_of(st.floats(0, 1e6), st.just(float("nan")), st.just(float("inf")))
records = st.builds(
    RECORD.format,
    head=st.sampled_from(["", " ", " [2026-04-25 18:31:00] ", "[rank3]: ", "x "]),
    step=st.integers(1, 10**7),
    steps=st.integers(1, 10**7),
    time=numbers,
    rate=st.floats(0, 1),
    loss=st.one_of(st.just(""), numbers.map(" loss: {:.6E} |".format),
                   numbers.map(" lm loss: {:.6E} |".format)),
    norm=st.one_of(st.just(""), numbers.map(" grad norm: {:.3f} |".format)),
    skipped=st.integers(0, 3),
    nan=st.integers(0, 3),
)  # fmt: skip


@given(first=records, second=records)
def test_the_quick_way_says_what_the_usual_way_says_or_nothing(first: str, second: str) -> None:
    quick = Quick()
    quick.learn(first, step_records(first)[0])
    found = quick(second.encode())
    if found is not None:
        assert str(found) == str(step_records(second)[0])  # NaN is not equal to itself


def test_the_quick_way_is_taken(tmp_path: Path) -> None:
    text = RECORD.format(head=" ", step=1, steps=2, time=1, rate=1, loss=" loss: 1.0 |",
                         norm=" grad norm: 1.0 |", skipped=0, nan=0)  # fmt: skip
    quick = Quick()
    assert quick(text.encode()) is None
    quick.learn(text, step_records(text)[0])
    assert quick(text.encode()) == step_records(text)[0]
    assert quick(text.replace(": 1.0 |", ": 1.0/2.0 |").encode()) is None
    assert quick(text[:-2].encode()) is None
