"""The files that sum a campaign up for programs: JSON and CSV (DESIGN 6.4).

They are written after every iteration, from what was read of each one once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from statistics import fmean, stdev
from typing import Any

from pytest_lmsv.campaign import archive, rows
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.tried import tried
from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.judge.bugs import Bug, bugs
from pytest_lmsv.judge.classes import Place, ProblemClass, findings_of, grouped, named_classes
from pytest_lmsv.judge.counts import Counts, count
from pytest_lmsv.judge.findings import Finding, in_gate
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.judge.verdicts import run_time_ms
from pytest_lmsv.option_values import VERDICTS
from pytest_lmsv.records import IterationRecord, Kind, RunRecord

MEANINGS = {
    "total_iterations": "iterations with a stored result",
    "successful_iterations": "iterations that ran to their end on both sides",
    "pta_success_count": "valid iterations: the baseline side ran and the mutation had effect",
    "msa_success_count": "of these, iterations whose compare side ran to its end",
    "issue_count": "iterations with an NG, an error of the compare side or a known bug",
    "total_mutations": "valid and invalid ones; no-effect ones are counted apart",
    "pta_success_rate": "valid / (valid + invalid)",
    "msa_success_rate": "msa_success_count / valid",
    "issue_rate": "issue_count / valid",
    "loss_match": "accuracy_ok; null where there is no figure, never true",
}
"""Task6's names, whose meanings differ from file to file there."""


@dataclass
class Summary:
    """What is told of a campaign so far; an iteration is added as often as it is stored."""

    campaign: Campaign
    expected: Callable[[str], Sequence[KnownBug]]
    """The known bugs that a model's tests are expected to end with."""
    _records: dict[Place, IterationRecord] = field(default_factory=dict)
    _rows: dict[Place, dict[str, Any]] = field(default_factory=dict)
    _findings: dict[Place, Sequence[Finding]] = field(default_factory=dict)
    _classes: dict[Place, Sequence[str]] = field(default_factory=dict)
    _damaged: set[Place] = field(default_factory=set)

    def add(self, record: IterationRecord) -> None:
        """Take *record*, judged by this session."""
        place = (record.model, record.iteration)
        self._rows[place] = rows.row(record)
        self._classes[place] = named_classes(
            record, self.expected(record.model), self.campaign.labels
        )
        self._findings[place] = findings_of(record, self.campaign.labels)
        self._records[place] = slim(record)

    def add_damaged(self, model: str, number: int) -> None:
        """Take that what is stored of the iteration can't be read; it is in no figure."""
        self._damaged.add((model, number))

    def has(self, model: str, number: int) -> bool:
        """Return whether the iteration was added."""
        return (model, number) in self._records

    @property
    def damaged(self) -> tuple[Place, ...]:
        """The iterations whose stored result can't be read, by model and number."""
        return tuple(self._ordered(self._damaged - self._records.keys()))

    def damaged_of(self, model: str) -> list[int]:
        """Return the numbers of the damaged iterations of *model*."""
        return [number for name, number in self.damaged if name == model]

    def told(self) -> list[tuple[IterationRecord, Sequence[Finding]]]:
        """Return every iteration with all that is wrong with it."""
        return [(self._records[place], self._findings[place]) for place in self._places()]

    def bugs(self) -> tuple[Bug, ...]:
        """Return what fails tests, one for each cause."""
        gate = self.campaign.settings.gate
        return bugs([(record, in_gate(found, gate)) for record, found in self.told()])

    @property
    def records(self) -> list[IterationRecord]:
        """What :func:`slim` leaves of the iterations, by model and number."""
        return [self._records[place] for place in self._places()]

    @property
    def classes(self) -> tuple[ProblemClass, ...]:
        """The problem classes."""
        found = [(place, self._classes[place]) for place in self._places()]
        return grouped(found, self.expected, self.campaign.labels)

    def write(self) -> None:
        """Write summary.json, issue_groups.json, iteration_metrics.csv and final_report.json."""
        places, folder = self._places(), self.campaign.folder
        found = [(self._records[place], self._rows[place]) for place in places]
        records = [record for record, _ in found]
        totals = task6_totals(records)
        common = {
            "task_type": 6,
            "model_name": ", ".join(self.campaign.models),
            "models": list(self.campaign.models),
            "device": self.campaign.settings.device,
            "compare_mode": self.campaign.settings.compare,
            "labels": dict(zip(("baseline", "compare"), self.campaign.labels, strict=True)),
            "units": rows.UNITS,
            "meanings": MEANINGS,
        }
        by_model = {}
        for model in self.campaign.models:
            covered = tried(self.campaign, model, records)
            by_model[model] = {
                **statistics([record for record in records if record.model == model]),
                "damaged": self.damaged_of(model),
                "coverage": None if covered is None else covered.as_plain(),
            }
        summary = {
            **common,
            **{name: totals[name] for name in COUNTED},
            "summary": {**totals, **averages(records)},
            "statistics": by_model,
            "iterations": [rows.iteration(record, line) for record, line in found],
        }
        write_json(folder / "data" / "summary.json", summary)
        write_json(folder / "data" / "issue_groups.json", issue_groups(self.classes))
        csv = rows.as_csv(line for _, line in found)
        write_whole(folder / "data" / "iteration_metrics.csv", csv)
        report = {
            **common,
            "model": common["model_name"],
            "statistics": totals,
            "results": [rows.result(record, line) for record, line in found],
            "timestamp": datetime.now().isoformat(timespec="seconds"),
        }
        write_json(folder / "final_report.json", report)

    def _places(self) -> list[Place]:
        return self._ordered(self._records)

    def _ordered(self, places: Iterable[Place]) -> list[Place]:
        order = {model: number for number, model in enumerate(self.campaign.models)}
        return sorted(places, key=lambda p: (order.get(p[0], len(order)), *p))


COUNTED = (
    "total_iterations",
    "successful_iterations",
    "pta_success_count",
    "msa_success_count",
    "issue_count",
)


def slim(record: IterationRecord) -> IterationRecord:
    """Return *record* with what summaries read of it: no curve, no parameter, no echo.

    At 2,000 iterations the rest would be gigabytes.
    """
    kind, baseline, compare = record.kind, record.baseline_run, record.compare_run
    return replace(
        record,
        baseline_run=_slim(baseline, kind),
        compare_run=_slim(compare, kind),
        steady=None,
    )


def _slim(run: RunRecord | None, kind: Kind) -> RunRecord | None:
    if run is None:
        return None
    time = run_time_ms(run.metrics, kind) if run.metrics.step_time_ms else None
    metrics = replace(
        run.metrics,
        losses=run.metrics.losses[-1:],
        grad_norms=(),
        # One step that has the time of all.
        step_time_ms=() if time is None else ((1, time),),
    )
    return replace(run, metrics=metrics, completions=(), notes=(), echo={}, curves=None, noise=())


def task6_totals(records: Iterable[IterationRecord]) -> dict[str, Any]:
    """Return Task6's counts and rates by DESIGN 5.7; rates are fractions, None of nothing."""
    counts = count(records)
    return {
        "total_iterations": counts.iterations,
        "successful_iterations": counts.msa_ok,
        "pta_success_count": counts.valid,
        "msa_success_count": counts.msa_ok,
        "issue_count": counts.issues,
        "total_mutations": counts.valid + counts.invalid,
        "invalid_mutations": counts.invalid,
        "no_effect_mutations": counts.no_effect,
        "environment_count": counts.environment,
        "pta_success_rate": counts.valid_rate,
        "msa_success_rate": counts.msa_rate,
        "issue_rate": issue_rate(counts),
    }


def issue_rate(counts: Counts) -> float | None:
    """Return issues / valid, None without a valid iteration."""
    return counts.issues / counts.valid if counts.valid else None


def statistics(records: Sequence[IterationRecord]) -> dict[str, Any]:
    """Return the counts of DESIGN 5.7 with their rates, and what the differences are like."""
    counts = count(records)
    return {
        **asdict(counts),
        "valid_rate": counts.valid_rate,
        "msa_rate": counts.msa_rate,
        "issue_rate": issue_rate(counts),
        **averages(records),
        "differences": {name: spread(values) for name, values in differences(records).items()},
    }


def averages(records: Sequence[IterationRecord]) -> dict[str, float | None]:
    """Return the mean differences, None where there is no figure."""
    found = differences(records)
    return {f"avg_{name}": fmean(found[name]) if found[name] else None for name in found}


def differences(records: Sequence[IterationRecord]) -> dict[str, list[float]]:
    """Return all differences by name: each verdict's own, and the relative ones beside them."""
    found: dict[str, list[float]] = {}
    for verdict_name in VERDICTS:
        verdicts = [v for r in records for v in r.verdicts if v.name == verdict_name]
        if verdict_name == "drift":  # its differences are of many things, its ratios compare
            found["drift_ratio"] = _finite(verdict.ratio for verdict in verdicts)
            continue
        name = rows.DIFFERENCES[verdict_name]
        found[name] = _finite(verdict.difference for verdict in verdicts)
        if verdict_name in ("memory", "performance"):
            found[f"{name}_rel"] = _finite(archive.share(verdict) for verdict in verdicts)
    return found


def _finite(values: Iterable[float | None]) -> list[float]:
    """Return the figures of *values* that a mean can be made of.

    A tiny baseline can make a difference infinite, or so large that its square is.
    """
    return [value for value in values if value is not None and abs(value) < 1e150]


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Return number, mean, least, greatest and standard deviation (of a sample) of *values*."""
    if not values:
        return {"n": 0, "mean": None, "min": None, "max": None, "stdev": None}
    return {
        "n": len(values),
        "mean": fmean(values),
        "min": min(values),
        "max": max(values),
        "stdev": stdev(values) if len(values) > 1 else None,
    }


def issue_groups(classes: Iterable[ProblemClass]) -> dict[str, Any]:
    """Return the problem classes by title, as Task6 groups its issues by text."""
    return {
        problem.title: {
            "id": problem.id,
            "title_zh": problem.title_zh,
            "count": problem.count,
            "iterations": [f"{model}-iter{number}" for model, number in problem.iterations],
            "severity": "warning",
        }
        for problem in classes
    }
