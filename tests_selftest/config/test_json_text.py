"""The tolerant reader against the standard one, over generated JSON."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.task6_config.text import parse_json

HERE = Path("config.json")
PLAIN = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
VALUES = st.recursive(
    PLAIN.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_standard_json_means_the_same(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    found = parse_json(HERE, text)
    assert found.value == value
    assert not found.comments


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4))
def test_comments_and_trailing_commas_change_nothing(value: dict[str, object]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(item)}, // a note }}" for key, item in value.items()]
    found = parse_json(HERE, "/* head\n*/ {\n" + "\n".join(lines) + "\n}\n// end")
    assert found.value == value
    assert found.comments
    assert [found.lines[(key,)] for key in value] == [3 + number for number in range(len(value))]


def test_comment_marks_inside_a_text_stay() -> None:
    found = parse_json(HERE, '{"url": "http://a/*b*/", "c": "\\"//x",}')
    assert found.value == {"url": "http://a/*b*/", "c": '"//x'}
    assert not found.comments


def test_a_key_given_twice_is_noted() -> None:
    found = parse_json(HERE, '{"a": 1,\n"a": 2}')
    assert found.value == {"a": 2}
    assert found.repeated == ("line 2: a",)
