"""Words that fit a number."""

from __future__ import annotations

import pytest

from pytest_lmsv.wording import counted


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (11, "11 steps")]
)
def test_one_is_singular(number: int, told: str) -> None:
    assert counted(number, "step") == told
