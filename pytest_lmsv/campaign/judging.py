"""A record judged by a session's settings: its verdicts, its findings, and which of them fail."""

from __future__ import annotations

from dataclasses import replace

from pytest_lmsv.judge import drift
from pytest_lmsv.judge.classes import findings_of
from pytest_lmsv.judge.curves import limits
from pytest_lmsv.judge.findings import in_gate
from pytest_lmsv.judge.verdicts import Tolerances, verdicts
from pytest_lmsv.records import IterationRecord
from pytest_lmsv.settings import Settings


def tolerances(settings: Settings) -> Tolerances:
    """Return the limits of the verdicts other than drift."""
    return Tolerances(
        settings.loss_tolerance,
        settings.memory_tolerance,
        settings.time_tolerance,
        settings.output_tolerance,
        settings.output_psnr,
    )


def judged(record: IterationRecord, settings: Settings, labels: tuple[str, str]) -> IterationRecord:
    """Return *record*, whose baseline side was run, with verdicts and findings by *settings*."""
    assert record.baseline_run is not None
    found = verdicts(
        record.baseline_run,
        record.compare_run,
        record.kind,
        tolerances(settings),
        labels,
        record.samples,
    )
    drifted = drift.of_runs(
        record.baseline_run,
        record.compare_run,
        record.kind,
        record.samples,
        limits(settings.device, settings.drift_factor, settings.drift_minima),
        labels=labels,
        steady=record.steady,
        may_lack=settings.device == "npu",
    )
    record = replace(record, verdicts=(*found, drift.verdict(drifted)), drift=drifted)
    seen = findings_of(record, labels)
    return replace(
        record,
        findings=tuple(finding.text for finding in seen),
        failing=tuple(finding.text for finding in in_gate(seen, settings.gate)),
    )
