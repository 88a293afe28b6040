"""What a score runs: which faults in which configurations, and the clean pairs beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.mutation.apply import apply
from pytest_lmsv.mutation.draw import draw
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Edit
from pytest_lmsv.score.bank import Fault

LOOKED_AT = 600
"""So many iterations are drawn in search of a configuration in which a fault can show."""


@dataclass(frozen=True)
class Configuration:
    """One mutated configuration of a model, and the iteration that it is."""

    model: str
    workers: int
    iteration: int
    edits: tuple[Edit, ...]
    documents: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, int, int]:
        return self.model, self.workers, self.iteration


@dataclass(frozen=True)
class Cell:
    """One fault in one model: the configurations that it is planted in."""

    fault: Fault
    model: str
    configurations: tuple[Configuration, ...]
    by_keys: bool
    """It shows only where the model is mutated in a certain way."""

    @property
    def first(self) -> int:
        """The iteration of a campaign in which it can be seen for the first time."""
        return self.configurations[0].iteration


@dataclass(frozen=True)
class Plan:
    """All cells of a score, and the configurations of its clean pairs."""

    cells: tuple[Cell, ...]
    clean: tuple[Configuration, ...]

    def configurations(self, workers: int) -> list[Configuration]:
        """Return every configuration that *workers* workers run, once."""
        every = [each for cell in self.cells for each in cell.configurations] + list(self.clean)
        return list({each.key: each for each in every if each.workers == workers}.values())


def make(
    models: Sequence[ModelSpec],
    faults: Sequence[Fault],
    *,
    seed: int,
    configurations: int,
    clean: int,
    count: int = 2,
) -> Plan:
    """Return the plan: each fault in the first *configurations* iterations that can show it.

    *clean* pairs are shared out evenly over *models*, from iteration 1 on. InputProblem where a
    fault can't show in any of the first 600 iterations.
    """
    drawn: dict[tuple[str, int], list[Configuration]] = {}
    cells = []
    for fault in faults:
        for spec in models:
            if spec.name not in fault.when:
                continue
            held = drawn.setdefault((spec.name, fault.workers), [])
            shown = []
            for each in _iterations(spec, fault.workers, seed, count, held):
                if fault.shows(spec.name, each.documents):
                    shown.append(each)
                if len(shown) == configurations:
                    break
            if not shown:
                raise InputProblem(
                    f"{fault.name}: none of the first {LOOKED_AT} iterations of {spec.name} (seed "
                    f"{seed}) can show it; correct its conditions, or take another --seed"
                )
            by_keys = fault.by_keys(spec.name, spec.documents("cpu"))
            cells.append(Cell(fault, spec.name, tuple(shown), by_keys))
    plain = []
    for place, spec in enumerate(models):
        share = clean // len(models) + (place < clean % len(models))
        held = drawn.setdefault((spec.name, 1), [])
        source = _iterations(spec, 1, seed, count, held)
        plain += [next(source) for _ in range(share)]
    return Plan(tuple(cells), tuple(plain))


def _iterations(
    spec: ModelSpec, workers: int, seed: int, count: int, held: list[Configuration]
) -> Iterator[Configuration]:
    """Yield the configurations of a campaign's iterations, remembered in *held*."""
    yield from held
    placed = spec if workers == 1 else spec.with_workers("cpu", workers)
    for iteration in range(len(held) + 1, LOOKED_AT + 1):
        drawn = draw(placed, "cpu", seed=seed, iteration=iteration, attempt=1, count=count)
        documents = apply(placed.documents("cpu"), drawn.edits)
        held.append(Configuration(spec.name, workers, iteration, drawn.edits, documents))
        yield held[-1]
