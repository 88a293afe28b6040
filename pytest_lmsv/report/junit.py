"""--lmsv-verdict-xml: a JUnit file with one testcase for each verdict.

For dashboards that show no properties (GitLab) or keep a history only by test name. The testcases
of an iteration are ``iterN.run``, the runs themselves, and ``iterN.<verdict>``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.summary import Summary
from pytest_lmsv.files import write_whole
from pytest_lmsv.judge.covering import covers
from pytest_lmsv.judge.findings import Finding, applies, in_gate, long_text
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import IterationRecord, Verdict

FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold, escaped or not."""


@dataclass(frozen=True, slots=True)
class Case:
    """One testcase; *kind* None: it passed."""

    classname: str
    name: str
    seconds: float = 0.0
    kind: Literal["failure", "error", "skipped"] | None = None
    type: str = ""
    message: str = ""


def verdict_xml(summary: Summary, missing: Sequence[tuple[str, int]], timestamp: str) -> str:
    """Return the file as text; *missing* are iterations without a result."""
    cases = [case for told in summary.told() for case in _cases(summary, *told)]
    cases += [
        Case(f"lmsv.{model}", f"iter{number}.run", 0.0, "skipped", "lmsv", "no result is stored")
        for model, number in missing
    ]
    for model, number in summary.damaged:
        told = "the stored result is damaged"
        cases.append(Case(f"lmsv.{model}", f"iter{number}.run", 0.0, "error", "Damaged", told))
    return as_xml(cases, timestamp)


def as_xml(cases: Sequence[Case], timestamp: str) -> str:
    """Return *cases* as a document; what XML forbids in them is spelled ``#x1B``."""
    counts = {
        f"{name}": str(sum(case.kind == kind for case in cases))
        for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    total = f"{sum(case.seconds for case in cases):.3f}"
    root = ET.Element("testsuites", name="lmsv verdicts")
    attributes = {"name": "lmsv", "tests": str(len(cases)), **counts}
    suite = ET.SubElement(root, "testsuite", {**attributes, "time": total, "timestamp": timestamp})
    for case in cases:
        place = {"classname": allowed(case.classname), "name": allowed(case.name)}
        element = ET.SubElement(suite, "testcase", {**place, "time": f"{case.seconds:.3f}"})
        if case.kind is not None:
            message = allowed(case.message)
            told = ET.SubElement(element, case.kind, type=case.type, message=message)
            told.text = message
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def drop_nameless(path: Path) -> None:
    """Take the testcase without a name out of pytest's JUnit file *path*.

    An interrupted test leaves one, which no reader can place.
    """
    try:
        tree = ET.parse(path)
    except (OSError, ET.ParseError):
        return
    found = [
        (suite, case)
        for suite in tree.getroot().iter("testsuite")
        for case in suite.findall("testcase")
        if not case.get("name")
    ]
    for suite, case in found:
        suite.remove(case)
    if found:
        text = ET.tostring(tree.getroot(), encoding="unicode")
        write_whole(path, f'<?xml version="1.0" encoding="utf-8"?>{text}')


def allowed(text: str) -> str:
    """Return *text* with what XML forbids as pytest spells it: ``#x1B``."""
    return FORBIDDEN.sub(lambda match: f"#x{ord(match[0]):02X}", text)


def _cases(
    summary: Summary, record: IterationRecord, findings: Sequence[Finding]
) -> Iterator[Case]:
    campaign, bugs = summary.campaign, summary.expected(record.model)
    classname, name = f"lmsv.{record.model}", f"iter{record.iteration}"
    runs = [run for run in (record.baseline_run, record.compare_run) if run is not None]
    seconds = sum(run.seconds for run in runs)
    if record.status != "DONE":
        yield Case(classname, f"{name}.run", seconds, "error", "EnvironmentProblem", record.reason)
        return
    yield _run(Case(classname, f"{name}.run", seconds), record, findings, bugs)
    by_name = {f.verdict.name: f for f in findings if f.verdict is not None}
    for verdict in record.verdicts:
        idle = "output" if record.kind == "training" else "accuracy"
        if applies(verdict) and verdict.name != idle:
            case = Case(classname, f"{name}.{verdict.name}")
            yield _verdict(case, verdict, by_name.get(verdict.name), campaign, bugs)


def _run(
    case: Case, record: IterationRecord, findings: Iterable[Finding], bugs: Sequence[KnownBug]
) -> Case:
    """The testcase of the runs: what is wrong beside the verdicts, or a bug that did not come."""
    failing = [finding for finding in findings if finding.verdict is None]
    covering = [_covering(finding, bugs) for finding in failing]
    text = "; ".join(finding.text for finding in failing)
    if failing and all(covering):
        names = sorted({bug.id for bug in covering if bug is not None})
        return _ended(case, "skipped", "pytest.xfail", f"{', '.join(names)}: {text}")
    if failing:
        return _ended(case, "failure", "VerdictError", text)
    strict = [bug.id for bug in bugs if bug.strict]
    if strict and not record.failing:
        text = f"[XPASS(strict)] known bug {', '.join(strict)} did not happen"
        return _ended(case, "failure", "XPASS", text)
    return case


def _verdict(
    case: Case,
    verdict: Verdict,
    finding: Finding | None,
    campaign: Campaign,
    bugs: Sequence[KnownBug],
) -> Case:
    text = long_text(verdict, campaign.labels)
    if verdict.result == "OK":
        return case
    if finding is None:
        return _ended(case, "skipped", "N/A", f"N/A: {verdict.reason}")
    if not in_gate([finding], campaign.settings.gate):
        return _ended(case, "skipped", "not in the gate", f"not in the gate: {text}")
    bug = _covering(finding, bugs)
    if bug is not None:
        return _ended(case, "skipped", "pytest.xfail", f"{bug.id}: {text}")
    return _ended(case, "failure", "VerdictError", text)


def _covering(finding: Finding, bugs: Iterable[KnownBug]) -> KnownBug | None:
    return next((bug for bug in bugs if covers(bug, finding)), None)


def _ended(
    case: Case, kind: Literal["failure", "error", "skipped"], type_: str, message: str
) -> Case:
    return Case(case.classname, case.name, case.seconds, kind, type_, message)
