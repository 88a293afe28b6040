"""Bug reports on operations: complete, and their scripts need nothing of ours."""

from __future__ import annotations

import ast
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.judge.operations import Finding, Sweep, sweep
from pytest_lmsv.launch.sweep import listed
from pytest_lmsv.report.operation_bug import bug_report, script

from .loading import array, module

PIECES = set(module("pieces").PIECES)
LISTED = listed(data.launchers())
MEASURED = {
    "code": "torch.exp(x)", "error": 1e-5, "at": 2.0, "value": 7.3, "exact": 7.38, "inputs": [2.0],
}  # fmt: skip


def a_sweep(stack: str, number: float) -> Sweep:
    head = {"schema": 1, "fixes": [], "versions": {"python": "3.11.7", "mindspore": "2.7.1"}}
    result = {"value": [array(number)], "gradient": {"x": array(number)}}
    exp = {"value": [array(number)], "accuracy": MEASURED}
    lines: list[dict[str, Any]] = [
        head,
        {"operation": "sub", **result},
        {"operation": "exp", **exp},
    ]
    return sweep(stack, lines)


def test_a_report_names_versions_findings_expected_and_actual() -> None:
    cases = [(LISTED["sub"], (Finding("gradient", "of x: zero everywhere"),))]
    text = bug_report("A title", "A cause", cases, a_sweep("pta", 5.5), a_sweep("msa", 0.0),
                      data.launchers())  # fmt: skip
    for part in (
        "# A title", "A cause.", "mindspore 2.7.1", "`sub`: `x - y`",
        "gradient: of x: zero everywhere", "## Expected (PyTorch)", "[5.5]",
    ):  # fmt: skip
        assert part in text


def test_the_script_of_every_operation_is_a_program_without_ours() -> None:
    findings = [Finding("value", "differs"), Finding("gradient", "differs")]
    for name, operation in LISTED.items():
        text = script(operation, findings, a_sweep("msa", 1.0), data.launchers())
        nodes = list(ast.walk(ast.parse(text, name)))
        imported = {
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        }
        roots = {module.split(".")[0] for module in imported}
        assert roots <= {"numpy", "torch", "mindspore", "mindtorch"}, name
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        called = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert called & PIECES <= defined, name


def test_a_finding_of_accuracy_alone_shows_the_worst_input() -> None:
    found = [Finding("accuracy", "error")]
    text = script(LISTED["exp"], found, a_sweep("msa", 1.0), data.launchers())
    assert "torch.exp(x)" in text
    assert "exact = 7.38" in text
    compile(text, "script", "exec")
