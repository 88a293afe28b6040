"""Which known bug explains which finding (DESIGN 5.5)."""

from __future__ import annotations

import math

from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.findings import Finding
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import Verdict


def covers(bug: KnownBug, finding: Finding) -> bool:
    """Return whether *bug* explains *finding*: its signature the error, or its limit the NG.

    An entry with keys explains no NG of a mutation that leaves one of them as it was.
    """
    if finding.error is not None:
        return bug.signature is not None and known_bugs.match([bug], finding.error) is not None
    if finding.verdict is None or bug.verdict != finding.verdict.name:
        return False
    if not set(bug.keys) <= set(finding.keys):
        return False
    return bug.limit is None or bounded(finding.verdict) < bug.limit


def bounded(verdict: Verdict) -> float:
    """Return what the `limit` of an entry bounds: of drift the ratio to its limit.

    Drift names the first place that differs, and judges by the largest ratio of all places: the
    named difference bounds nothing. The others: the relative difference.
    """
    if verdict.name == "drift":
        return math.inf if verdict.ratio is None else verdict.ratio
    return relative(verdict)


def relative(verdict: Verdict) -> float:
    """Return the difference of *verdict* relative to the baseline; infinite without a figure."""
    if verdict.difference is None:
        return math.inf
    if verdict.unit == "relative":
        return verdict.difference
    return verdict.difference / verdict.baseline if verdict.baseline else math.inf
