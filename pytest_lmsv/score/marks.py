"""What a score found: for each rule, which faults it catches, and which clean pairs it accuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_lmsv.judge.curves import FLOAT32, Limits
from pytest_lmsv.score.intervals import clopper_pearson
from pytest_lmsv.score.plan import Cell, Configuration, Plan
from pytest_lmsv.score.rules import Pair, Rule, drifted


@dataclass(frozen=True)
class Judged:
    """One pair: the rules that find it different, and the worst ratio to a limit of ``drift``."""

    iteration: int
    edits: Mapping[str, Any]
    """What its mutation sets, by path."""
    found_by: tuple[str, ...]
    ratio: float | None
    error: str = ""
    """MSA did not run to its end: a campaign reports that by itself, whatever the rule."""
    reason: str = ""


@dataclass(frozen=True)
class Mark:
    """One fault in one model, or (without a fault) the clean pairs of one model."""

    model: str
    fault: str
    dimension: str
    by_keys: bool
    first: int
    """The iteration of a campaign in which it can be seen for the first time."""
    pairs: tuple[Judged, ...]
    equivalent: bool = False

    def caught_by(self, rule: str) -> bool:
        return any(rule in pair.found_by for pair in self.pairs)


@dataclass(frozen=True)
class Score:
    """All marks of one score."""

    rules: tuple[Rule, ...]
    cells: tuple[Mark, ...]
    clean: tuple[Mark, ...]
    invalid: int
    """Configurations that PTA did not run, which say nothing."""
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def counted(self, model: str | None = None) -> list[Mark]:
        """Return the marks that count, of one model or all: equivalent faults do not."""
        return [mark for mark in self.cells if not mark.equivalent and model in (None, mark.model)]

    def applies(self, rule: str, model: str) -> bool:
        """Return whether *rule* says anything of *model*: it does of the kinds it is for."""
        kinds = next(each.kinds for each in self.rules if each.name == rule)
        return self.settings["kinds"][model] in kinds

    def scored(self, rule: str, model: str | None = None) -> list[Mark]:
        """Return the marks that count for *rule*: those of models it says something of."""
        return [mark for mark in self.counted(model) if self.applies(rule, mark.model)]

    def missed(self, rule: str) -> list[Mark]:
        """Return the marks that *rule* could catch, and does not."""
        return [mark for mark in self.scored(rule) if not mark.caught_by(rule)]

    def clean_pairs(self, model: str | None = None, rule: str | None = None) -> list[Judged]:
        """Return the clean pairs, of one model or all, and only those *rule* says something of."""
        return [
            pair
            for mark in self.clean
            if model in (None, mark.model) and (rule is None or self.applies(rule, mark.model))
            for pair in mark.pairs
        ]

    def share(self, rule: str, model: str | None = None) -> tuple[int, int, float, float]:
        """Return how many of how many *rule* catches, and the interval at 95 %.

        Of the marks it says something of; of none of them it says nothing: 0 of 0, from 0 to 1.
        """
        marks = self.scored(rule, model)
        caught = sum(mark.caught_by(rule) for mark in marks)
        return (caught, len(marks), *clopper_pearson(caught, len(marks)))

    def alarms(self, rule: str, model: str | None = None) -> tuple[int, int, float, float]:
        """Return how many of how many clean pairs *rule* accuses, and the interval at 95 %."""
        pairs = self.clean_pairs(model, rule)
        accused = sum(rule in pair.found_by for pair in pairs)
        return (accused, len(pairs), *clopper_pearson(accused, len(pairs)))


def judge(
    plan: Plan,
    pair_of: Callable[[Configuration, str], Pair | None],
    rules: Sequence[Rule],
    limits: Limits = FLOAT32,
) -> tuple[tuple[Mark, ...], tuple[Mark, ...], int]:
    """Return the marks of the cells, those of the clean pairs, and how many pairs were invalid."""
    invalid = 0

    def judged(configuration: Configuration, fault: str) -> Judged | None:
        nonlocal invalid
        pair = pair_of(configuration, fault)
        if pair is None:
            invalid += 1
            return None
        where, edits = configuration.iteration, {e.path: e.new for e in configuration.edits}
        usable = [rule for rule in rules if pair.kind in rule.kinds]
        if "error" in pair.msa:
            names = tuple(rule.name for rule in usable)
            return Judged(where, edits, names, None, str(pair.msa["error"]))
        found = tuple(rule.name for rule in usable if rule.finds(pair))
        drift = drifted(pair, limits)
        return Judged(where, edits, found, drift.ratio, reason=drift.reason)

    def all_of(configurations: Sequence[Configuration], fault: str) -> tuple[Judged, ...]:
        found = (judged(each, fault) for each in configurations)
        return tuple(each for each in found if each is not None)

    cells = tuple(_mark(cell, all_of(cell.configurations, cell.fault.name)) for cell in plan.cells)
    models = dict.fromkeys(each.model for each in plan.clean)
    clean = tuple(
        Mark(model, "", "", False, 1, all_of([e for e in plan.clean if e.model == model], ""))
        for model in models
    )
    return cells, clean, invalid


def _mark(cell: Cell, pairs: tuple[Judged, ...]) -> Mark:
    fault = cell.fault
    return Mark(
        cell.model,
        fault.name,
        fault.dimension,
        cell.by_keys,
        cell.first,
        pairs,
        bool(fault.equivalent),
    )
