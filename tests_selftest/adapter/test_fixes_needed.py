"""On the real stacks: with the fixes all operations of the networks agree, without one they do not.

One test for each fix takes it out; a fix whose test passes without it is to be removed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lmsv import data
from pytest_lmsv.judge.operations import Finding, Sweep, judge
from pytest_lmsv.launch import sweep
from pytest_lmsv.launch.environments import StackEnvironment

from .loading import a_sweep, module

pytestmark = pytest.mark.stacks
FIXES = module("adapter").FIXES
LISTED = sweep.listed(data.launchers())


@pytest.fixture(scope="module")
def pta(tmp_path_factory: pytest.TempPathFactory, pta_env: StackEnvironment) -> Sweep:
    return a_sweep(pta_env, tmp_path_factory.mktemp("pta") / "out.jsonl")


@pytest.fixture(scope="module")
def msa(tmp_path_factory: pytest.TempPathFactory, msa_env: StackEnvironment) -> Sweep:
    return a_sweep(msa_env, tmp_path_factory.mktemp("msa") / "out.jsonl")


def test_pytorch_has_a_result_of_every_operation(pta: Sweep) -> None:
    errors = {
        name: result for name, result in pta.results.items()
        if any(key.endswith("_error") for key in result)
    }  # fmt: skip
    assert errors == {}
    assert list(pta.results) == list(LISTED)


def test_with_all_fixes_the_operations_of_the_networks_agree(pta: Sweep, msa: Sweep) -> None:
    assert list(msa.fixes) == [fix.name for fix in FIXES]
    differ = {
        name: [str(finding) for finding in judge(name, pta, msa)]
        for name, operation in LISTED.items()
        if operation.for_networks
    }
    assert {name: findings for name, findings in differ.items() if findings} == {}


SHOWN = [fix for fix in FIXES if fix.shown_by]


@pytest.mark.parametrize("fix", SHOWN, ids=[fix.name for fix in SHOWN])
def test_without_it_an_operation_differs(
    fix: object, tmp_path: Path, pta: Sweep, msa_env: StackEnvironment
) -> None:
    name, shown_by = fix.name, fix.shown_by  # type: ignore[attr-defined]
    only = ("--only", ",".join(shown_by))
    found = a_sweep(msa_env, tmp_path / "out.jsonl", *only, env={"LMSV_ADAPTER_WITHOUT": name})
    assert name not in found.fixes
    assert len(found.fixes) == len(FIXES) - 1
    for operation in shown_by:
        assert judge(operation, pta, found), f"{operation} agrees without the fix {name}"


def test_without_move_to_the_gradient_of_a_difference_is_zero(
    tmp_path: Path, pta: Sweep, msa_env: StackEnvironment
) -> None:
    without = {"LMSV_ADAPTER_WITHOUT": "move_to"}
    found = a_sweep(msa_env, tmp_path / "out.jsonl", "--only", "sub", env=without)
    gradient = found.results["sub"]["gradient"]
    assert not any(gradient["x"]["data"]) and not any(gradient["y"]["data"])  # noqa: PT018
    assert {finding.kind for finding in judge("sub", pta, found)} == {"gradient"}


RESHAPED = """
from cpu import adapter
adapter.install()
import torch
torch.ones(2, 4, 60, 12).permute(0, 2, 1, 3).reshape(2, 60, 48).numpy()
"""


def test_without_reshape_a_process_dies_when_it_ends(msa_env: StackEnvironment) -> None:
    def ended(**variables: str) -> int:
        env = {"PYTHONPATH": str(data.launchers()), **variables}
        return msa_env.run(["-c", RESHAPED], env=env, timeout=120).returncode

    assert ended() == 0
    # A damaged heap is found by malloc (SIGABRT), or not even by it (SIGSEGV).
    deaths = {ended(LMSV_ADAPTER_WITHOUT="reshape") for _ in range(3)}
    assert deaths & {-signal.SIGABRT, -signal.SIGSEGV}


def run_tests(folder: Path, *more: str) -> tuple[int, str]:
    """The user's test in a session of its own; exit status and output."""
    argv = [sys.executable, "-m", "pytest", "-p", "pytest_lmsv.plugin", "-p", "no:cacheprovider"]
    test = str(data.test_models() / "test_operations.py")
    argv += [test, "-q", "-rxXf", "--lmsv-output", str(folder / "output"), *more]
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def ini(pta_env: StackEnvironment, msa_env: StackEnvironment) -> list[str]:
    return ["-o", f"lmsv_pta_env={pta_env.path}", "-o", f"lmsv_msa_env={msa_env.path}"]


def test_the_raw_adapter_shows_its_defects_as_expected_with_reports(
    tmp_path: Path, ini: list[str]
) -> None:
    status, text = run_tests(tmp_path, *ini, "--lmsv-adapter-fixes", "off")
    assert status == 0, text
    assert re.search(r"XFAIL .*\[sub\] - mindtorch-cpu-move-to", text)
    assert re.search(r"\d+ passed, 1\d\d xfailed", text)
    (report,) = tmp_path.glob("output/*/detected_bugs/*mindtorch-cpu-move-to.md")
    assert "gradient: of x: zero everywhere" in report.read_text(encoding="utf-8")


def test_a_known_bug_that_did_not_happen_fails(tmp_path: Path, ini: list[str]) -> None:
    entry = (
        "- id: add-is-broken\n  title: not so\n  operations: [add]\n  stack: msa\n"
        "  device: cpu\n  signature: value\n  expected: true\n  strict: true\n"
    )
    (tmp_path / "known_bugs.yaml").write_text(entry, encoding="utf-8")
    ini += ["-o", f"lmsv_config_dirs={tmp_path}", "-k", "test_operation[add]"]
    status, text = run_tests(tmp_path, *ini)
    assert status == 1, text
    assert "[XPASS(strict)] add-is-broken" in text
    assert "1 failed" in text


def test_the_script_of_a_report_shows_the_defect_on_mindtorch_and_not_on_pytorch(
    tmp_path: Path, pta: Sweep, pta_env: StackEnvironment, msa_env: StackEnvironment
) -> None:
    from pytest_lmsv.report.operation_bug import script

    findings = [Finding("gradient", "of x: zero everywhere")]
    text = script(LISTED["sub"], findings, pta, data.launchers())
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    printed = [
        environment.run([tmp_path / "script.py"], cwd=tmp_path, timeout=120).stdout
        for environment in (pta_env, msa_env)
    ]
    zeros = "gradient of x float32 [4, 8] [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]"
    assert zeros not in printed[0]
    assert zeros in printed[1]
    assert printed[0].splitlines()[0] == printed[1].splitlines()[0]  # the values agree
