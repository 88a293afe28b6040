"""The list of faults that were caught once, each with the edits of one configuration to see it in.

Edits, not the numbers of iterations: what is drawn may change, what was caught may not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.mutation import pointer
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Edit
from pytest_lmsv.score.bank import Fault
from pytest_lmsv.score.marks import Judged, Score
from pytest_lmsv.score.plan import Cell, Configuration, Plan
from pytest_lmsv.score.rules import DRIFT

HEAD = """\
# Faults that the verdict drift has caught, each in one mutated configuration of one model. Written
# by `lmsv score --write-caught`; `lmsv score --only-ci` and CI fail where one is missed.
"""


def write(path: Path, score: Score) -> None:
    """Write for every fault one pair that ``drift`` caught; models take turns, so that all occur.

    One model each is enough for CI.
    """
    chosen: dict[str, tuple[str, Judged]] = {}
    used = dict.fromkeys((mark.model for mark in score.cells), 0)
    for mark in score.counted():
        pair = next((each for each in mark.pairs if DRIFT in each.found_by), None)
        held = chosen.get(mark.fault)
        if pair is None or (held is not None and used[mark.model] >= used[held[0]] - 1):
            continue
        if held is not None:
            used[held[0]] -= 1
        used[mark.model] += 1
        chosen[mark.fault] = (mark.model, pair)
    lines = []
    for fault, (model, pair) in chosen.items():
        lines.append(f"- fault: {fault}\n  model: {model}\n  edits:")
        lines += [f"    {where}: {json.dumps(value)}" for where, value in pair.edits.items()]
    path.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def plan(
    path: Path,
    models: Mapping[str, ModelSpec],
    faults: Sequence[Fault],
    only: Sequence[str] = (),
) -> Plan:
    """Return the plan that *path* stores, of the faults *only* where some are named.

    InputProblem where it does not fit bank and models.
    """
    by_name = {fault.name: fault for fault in faults}
    cells = []
    for number, entry in enumerate(data.read_yaml(path) or [], start=1):
        fault, spec = by_name.get(entry.get("fault")), models.get(entry.get("model"))
        if fault is None or spec is None or spec.name not in fault.when:
            raise InputProblem(
                f"{path}: entry {number}: no such fault in the bank for that model: {entry!r}; "
                "write the list again with lmsv score --write-caught"
            )
        documents = spec.documents("cpu")
        edits = tuple(
            _edit(documents, where, value) for where, value in (entry.get("edits") or {}).items()
        )
        configuration = Configuration(spec.name, fault.workers, number, edits, documents)
        cells.append(Cell(fault, spec.name, (configuration,), False))
    return Plan(tuple(cell for cell in cells if not only or cell.fault.name in only), ())


def _edit(documents: dict[str, Any], path: str, value: Any) -> Edit:
    old = pointer.get(documents, path)
    pointer.put(documents, path, value)
    return Edit(path, old, value)
