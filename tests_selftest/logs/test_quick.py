"""Records read by the look of one before: the same figures as by the usual way."""

from __future__ import annotations

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
    head=st.sampled_from(["", " ", " [2026-04-25 18:31:00] ", " [2026-05-01 08:31:00] ",
                          "[rank3]: ", "x ", " [2026-04-25 18:31:00] [rank3]: "]),
    step=st.integers(1, 10**7),
    steps=st.just(10**7),
    time=numbers,
    rate=st.floats(0, 1),
    loss=st.one_of(st.just(""), numbers.map(" loss: {:.6E} |".format),
                   numbers.map(" lm loss: {:.6E} |".format)),
    norm=st.one_of(st.just(""), numbers.map(" grad norm: {:.3f} |".format),
                   st.just(" grad norm: 1.000/2.000 |")),
    skipped=st.integers(0, 1),
    nan=st.integers(0, 1),
)  # fmt: skip


def learnt(text: str) -> Quick:
    quick = Quick()
    quick.learn(text, step_records(text)[0], None, prefixed=False)
    return quick


def at_once(quick: Quick, *texts: str) -> tuple[list[str], int]:
    """What is read of *texts*, one a line, and how many of them that took."""
    block = "".join(f"{text}\n" for text in texts).encode()
    batch, end = quick.read(block, 0)
    found = [] if batch is None else [str(record) for record in batch.records()]
    return found, block.count(b"\n", 0, end)


@given(first=records, others=st.lists(records, min_size=1, max_size=5))
def test_the_quick_way_says_what_the_usual_way_says_or_nothing(
    first: str, others: list[str]
) -> None:
    found, taken = at_once(learnt(first), *others)
    # Texts are compared: NaN is not equal to itself.
    assert found == [str(step_records(text)[0]) for text in others[:taken]]


PLAIN = {"head": " ", "steps": 9, "rate": 1, "loss": " loss: 1.0 |", "norm": " grad norm: 1.0 |",
         "skipped": 0, "nan": 0}  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 10**6)), min_size=1, max_size=300))
def test_the_quick_way_is_taken_for_all_lines_that_differ_in_numbers_only(
    steps: list[tuple[int, float]],
) -> None:
    texts = [RECORD.format(step=step, time=time, **PLAIN) for step, time in steps]
    found, taken = at_once(learnt(texts[0]), *texts, "x")
    assert taken == len(texts)
    assert found == [str(step_records(text)[0]) for text in texts]


def test_the_quick_way_leaves_what_differs_in_anything_else() -> None:
    text = RECORD.format(step=1, time=1, **PLAIN)
    assert Quick().read(f"{text}\n".encode(), 0) == (None, 0)
    quick = learnt(text)
    assert at_once(quick, text)[1] == 1
    for other in (
        text.replace(": 1.0 |", ": 1.0/2.0 |"),
        text.replace(": 1.0 |", ": 1.00 |"),
        text.replace(": 1.0 |", ": -1.0 |"),
        text.replace("loss: 1", "lm loss: 1"),
        text.replace("/       9", "/       8"),
        text.replace("nan iterations:   0", "nan iterations:   1"),
        "[rank1]: " + text,
        text[:-2],
        text + " x",
    ):
        assert other != text
        assert at_once(quick, other)[1] == 0
        assert at_once(quick, text, other, text)[1] == 1
    assert quick.read(text.encode(), 0)[0] is None  # its line end may still come
