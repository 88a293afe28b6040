"""Which fixes are installed: all, none, or all but those that are named."""

from __future__ import annotations

import pytest

from .loading import module

adapter = module("adapter")
ALL = [fix.name for fix in adapter.FIXES]


@pytest.fixture(autouse=True)
def no_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMSV_ADAPTER_FIXES", raising=False)
    monkeypatch.delenv("LMSV_ADAPTER_WITHOUT", raising=False)


def names(fixes: bool = True) -> list[str]:
    return [fix.name for fix in adapter.selected(fixes)]


def test_all_fixes_are_installed_unless_something_is_said() -> None:
    assert names() == ALL
    assert len(set(ALL)) == len(ALL)


def test_all_can_be_left_out_by_argument_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(fixes=False) == []
    monkeypatch.setenv("LMSV_ADAPTER_FIXES", "off")
    assert names() == []


def test_single_fixes_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMSV_ADAPTER_WITHOUT", "exp,move_to")
    assert names() == [name for name in ALL if name not in ("exp", "move_to")]


def test_an_unknown_name_is_refused_with_those_that_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LMSV_ADAPTER_WITHOUT", "movet_to")
    with pytest.raises(ValueError, match=r"no fix named \['movet_to'\]; known: move_to"):
        names()
