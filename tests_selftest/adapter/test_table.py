"""The table of operations, the fixes and the known bugs fit one another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_lmsv import data
from pytest_lmsv.judge import known_bugs
from pytest_lmsv.launch import sweep

from .loading import module

LISTED = sweep.listed(data.launchers())
FIXES = module("adapter").FIXES
BUGS = [bug for bug in known_bugs.load((data.mm_configs() / "known_bugs.yaml",)) if bug.operations]


def test_the_networks_rely_on_more_than_sixty_operations() -> None:
    assert sum(operation.for_networks for operation in LISTED.values()) > 60


def test_every_operation_is_a_function_of_its_inputs() -> None:
    for name, operation in LISTED.items():
        scope: dict[str, object] = {}
        exec(compile(operation.source, name, "exec"), scope)
        assert callable(scope["operation"])
        assert re.fullmatch(r"[a-z0-9_]+", name)
        for expression, _ in operation.inputs.values():
            compile(expression, name, "eval")


def a_table(folder: Path, text: str) -> Path:
    path = folder / "operations.ini"
    path.write_text(text, encoding="utf-8")
    return path


def test_statements_before_the_last_one_become_lines(tmp_path: Path) -> None:
    table = a_table(tmp_path, "[edge: x]\nset = y = x * 1.0; y[0] = 2.0; y\n")
    source = module("operations").operations(table)["set"].source()
    assert source == "def operation(x):\n    y = x * 1.0\n    y[0] = 2.0\n    return y\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a]\nx = 1\n[b]\nx = 2\n", "operation 'x' is there twice"),
        ("[a]\nx = y  |  y = gamma(3)\n", "unknown recipe 'gamma'"),
        ("[a]\nx = y  |  y = 3\n", "not a recipe: '3'"),
    ],
)
def test_a_table_that_cannot_be_read_says_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        module("operations").operations(a_table(tmp_path, text))


@pytest.mark.parametrize("fix", FIXES, ids=[fix.name for fix in FIXES])
def test_every_fix_says_what_is_wrong_and_which_operations_show_it(fix: object) -> None:
    for text in ("symptom", "cause", "cure", "versions"):
        assert getattr(fix, text)
    shown_by = fix.shown_by  # type: ignore[attr-defined]
    assert shown_by or fix.name == "reshape"  # type: ignore[attr-defined]
    for name in shown_by:
        assert LISTED[name].for_networks
        raw = [bug for bug in BUGS if name in bug.operations and bug.when]
        assert raw, f"{name}: no known bug with `when: {{adapter_fixes: off}}`"


@pytest.mark.parametrize("bug", BUGS, ids=[bug.id for bug in BUGS])
def test_every_known_bug_names_operations_that_exist(bug: known_bugs.KnownBug) -> None:
    assert set(bug.operations) <= set(LISTED)
    assert (bug.stack, bug.device, bug.verdict) == ("msa", "cpu", None)
    if not bug.when:  # what is not mended, networks must not rely on
        assert not [name for name in bug.operations if LISTED[name].for_networks]
