"""A bank of planted faults as data: what each does, and in which configurations it can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.mutation import pointer
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Documents

ALWAYS = "always"
FIELDS = {"name", "says", "dimension", "when", "workers", "equivalent"}

Condition = Mapping[str, Sequence[Any]]
"""JSON Pointers, each with the values of which it must have one."""


@dataclass(frozen=True)
class Fault:
    """One defect that can be planted into a stack."""

    name: str
    says: str
    """What it does, in one sentence."""
    dimension: str
    when: Mapping[str, tuple[Condition, ...]]
    """By model, the conditions of which one must hold; none: it shows in every configuration."""
    workers: int = 1
    """With how many workers it is run."""
    equivalent: str = ""
    """Why nothing can show it; such a fault is not counted."""

    def shows(self, model: str, documents: Documents) -> bool:
        """Return whether it can show in a configuration of *model*."""
        if model not in self.when:
            return False
        conditions = self.when[model]
        return not conditions or any(_holds(each, documents) for each in conditions)

    def by_keys(self, model: str, unmutated: Documents) -> bool:
        """Return whether it shows only where *model* is mutated, by the keys of its conditions."""
        return model in self.when and not self.shows(model, unmutated)


def load(folder: Path) -> tuple[Fault, ...]:
    """Return the faults of ``folder/*.yaml``, by file and place; InputProblem says what is wrong.

    The dimension of a fault is the name of its file where it names none.
    """
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise InputProblem(f"{folder}: holds no *.yaml of faults; name the folder of a bank")
    found: dict[str, Fault] = {}
    for file in files:
        for place, entry in enumerate(data.read_yaml(file) or []):
            fault = _fault(entry, file, place)
            if fault.name in found:
                raise InputProblem(f"{file}: {fault.name} is there twice; rename one")
            found[fault.name] = fault
    return tuple(found.values())


def chosen(faults: Sequence[Fault], names: Sequence[str]) -> tuple[Fault, ...]:
    """Return those of *faults* with *names*, all without names; InputProblem for an unknown one."""
    by_name = {fault.name: fault for fault in faults}
    for name in names:
        if name not in by_name:
            raise InputProblem(
                f"--faults: no fault {name!r}{pointer.did_you_mean(name, by_name)}; list them with "
                "lmsv score --list-faults"
            )
    return tuple(by_name[name] for name in names) if names else tuple(faults)


def listing(faults: Sequence[Fault]) -> str:
    """Return a line for each of *faults*: its name, what it does, and in which models."""
    return "\n".join(f"{each.name}: {each.says} ({', '.join(each.when)})" for each in faults)


def _fault(entry: Any, file: Path, place: int) -> Fault:
    if not isinstance(entry, dict) or not {"name", "says", "when"} <= entry.keys() <= FIELDS:
        raise InputProblem(
            f"{file}: entry {place + 1}: expected name, says and when (and of "
            f"{', '.join(sorted(FIELDS))} no other), found {entry!r}"[:400]
        )
    when = {}
    for model, conditions in entry["when"].items():
        if conditions != ALWAYS and not (
            isinstance(conditions, list)
            and all(isinstance(values, list) for each in conditions for values in each.values())
        ):
            raise InputProblem(
                f"{file}: {entry['name']}: when/{model}: expected {ALWAYS!r} or a list of "
                "{pointer: [values]}"
            )
        when[model] = () if conditions == ALWAYS else tuple(conditions)
    return Fault(
        name=str(entry["name"]),
        says=str(entry["says"]),
        dimension=str(entry.get("dimension", file.stem)),
        when=when,
        workers=int(entry.get("workers", 1)),
        equivalent=str(entry.get("equivalent", "")).strip(),
    )


def _holds(condition: Condition, documents: Documents) -> bool:
    return all(
        any(pointer.same(pointer.get(documents, path), value) for value in values)
        for path, values in condition.items()
    )
