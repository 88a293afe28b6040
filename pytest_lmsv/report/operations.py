"""The operations as tests: which there are, their marks, one sweep a session, and bug reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import data, session
from pytest_lmsv.campaign.place import new_campaign_folder
from pytest_lmsv.files import locked, write_whole
from pytest_lmsv.fixtures import KnownBug as KnownBugHappened
from pytest_lmsv.fixtures import Untested, VerdictError
from pytest_lmsv.judge import known_bugs, operations
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.judge.operations import Finding, Sweep
from pytest_lmsv.launch import sweep
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.launch.sweep import Operation
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from pytest_lmsv.report.operation_bug import bug_report

Findings = tuple[Finding, ...]
HINT = "operations are compared on the cpu stacks; give --lmsv-device cpu"


def parameters(config: pytest.Config) -> list[Any]:
    """Return one parameter for each operation, with the mark of its expected bugs.

    On npu one skipped test, whose reason says how to have them. Raises CollectError, which pytest
    shows as one line, for bad input.
    """
    try:
        if session.settings_of(config).device != "cpu":
            return [pytest.param(None, id="no-cpu", marks=pytest.mark.skip(reason=HINT))]
        names = sweep.listed(data.launchers())
        return [pytest.param(name, id=name, marks=_marks(config, name)) for name in names]
    except InputProblem as problem:
        raise pytest.Collector.CollectError(str(problem)) from None


def _marks(config: pytest.Config, name: str) -> list[pytest.MarkDecorator]:
    """Return one xfail mark for all expected bugs: pytest heeds only the first of several."""
    bugs = expected(config, name)
    if not bugs:
        return []
    return [
        pytest.mark.xfail(
            raises=KnownBugHappened,
            strict=any(bug.strict for bug in bugs),
            reason=", ".join(bug.id for bug in bugs),
        )
    ]


def expected(config: pytest.Config, name: str) -> tuple[KnownBug, ...]:
    """Return the known bugs that the test of operation *name* is expected to end with."""
    return known_bugs.expected(
        session.bugs_of(config),
        operation=name,
        stack="msa",
        device="cpu",
        versions=session.versions_of(config, "msa"),
        adapter_fixes=session.settings_of(config).adapter_fixes,
    )


@dataclass(frozen=True, repr=False)  # pytest shows arguments; this one is megabytes long
class Sweeps:
    """Both stacks' sweeps of this session, and what the tests make of them."""

    config: pytest.Config
    folder: Path
    pta: Sweep
    msa: Sweep
    listed: Mapping[str, Operation]

    def findings(self, name: str) -> tuple[Finding, ...]:
        """Return how MSA's operation differs; raises Untested where PTA has none."""
        found = operations.judge(name, self.pta, self.msa)
        if found and found[0].kind == operations.REFERENCE:
            raise Untested(EnvironmentProblem(f"{name}: {found[0].text}"))
        return found

    def conclude(self, name: str, found: Sequence[Finding]) -> None:
        """End the test of *name*: KnownBug where expected bugs cover all, else VerdictError."""
        __tracebackhide__ = True
        if not found:
            return
        covering = {finding: covered_by(expected(self.config, name), finding) for finding in found}
        bugs = {bug.id: bug for bug in covering.values() if bug is not None}
        text = f"{name}: {'; '.join(str(finding) for finding in found)}"
        if None in covering.values():
            report = self._write(name, None)
            repeat = f"pytest 'test_models/test_operations.py::test_operation[{name}]'"
            lines = [text, self.listed[name].source, f"bug report: {report}", f"repeat: {repeat}"]
            raise VerdictError("\n".join(lines))
        for bug in bugs.values():
            self._write(name, bug)
        raise KnownBugHappened(f"{', '.join(sorted(bugs))}: {text}")

    def _write(self, name: str, bug: KnownBug | None) -> Path:
        """Write the bug's report, with all its operations, once a session; return its path."""
        label = name if bug is None else bug.id
        path = self.folder / "detected_bugs" / f"bug_report_operations_{label}.md"
        if not path.exists():
            names = [name] if bug is None else [n for n in bug.operations if n in self.listed]
            found = {n: operations.judge(n, self.pta, self.msa) for n in names}
            title = f"{name} differs from PyTorch" if bug is None else bug.title
            cause = "" if bug is None else bug.report
            cases = [(self.listed[n], findings) for n, findings in found.items() if findings]
            write_whole(path, bug_report(title, cause, cases, self.pta, self.msa, data.launchers()))
        return path


def covered_by(bugs: Sequence[KnownBug], finding: Finding) -> KnownBug | None:
    """Return the bug whose signature is found in the finding's own text."""
    for bug in bugs:
        if bug.signature is not None and bug.signature.search(str(finding)):
            return bug
    return None


def run_sweeps(
    config: pytest.Config, shared: Path, pta: StackEnvironment, msa: StackEnvironment
) -> Sweeps:
    """Return the session's sweeps, run by the first worker that asks and read by the others.

    *shared* is a folder that all workers of this session see. Raises Untested where a stack does
    not run.
    """
    place = shared / "lmsv_sweeps.txt"
    launchers = data.launchers()
    fixes = session.settings_of(config).adapter_fixes
    with locked(shared / "lmsv_sweeps.lock"):
        if place.is_file():
            folder = Path(place.read_text(encoding="utf-8"))
        else:
            folder = new_campaign_folder(session.settings_of(config).output)
            try:
                sweep.run(pta, launchers, folder / "pta.jsonl", stack="pta")
                sweep.run(msa, launchers, folder / "msa.jsonl", stack="msa", fixes=fixes)
            except EnvironmentProblem as problem:
                raise Untested(problem) from None
            write_whole(place, str(folder))
    ours = operations.sweep("pta", sweep.read(folder / "pta.jsonl"))
    theirs = operations.sweep("msa", sweep.read(folder / "msa.jsonl"))
    return Sweeps(config, folder, ours, theirs, sweep.listed(launchers))
