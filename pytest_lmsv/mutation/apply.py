"""Edits put on documents, joined for a chain, and stored as JSON."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Documents, Edit, Mutation

SCHEMA = 1


def get(documents: Documents, path: str) -> Any:
    """The value at the JSON Pointer *path*; InputProblem where it does not exist."""
    return pointer.get(documents, path)


def apply(documents: Documents, edits: Sequence[Edit]) -> dict[str, Any]:
    """A copy of *documents* with the *edits* made; InputProblem where an ``old`` does not fit."""
    changed: dict[str, Any] = copy.deepcopy(dict(documents))
    for edit in edits:
        found = pointer.get(changed, edit.path)
        if not pointer.same(found, edit.old):
            raise InputProblem(
                f"{edit.path}: expected {pointer.show(edit.old)}, found {pointer.show(found)}; "
                "the mutation was drawn from other documents: draw it again or use those"
            )
        pointer.put(changed, edit.path, copy.deepcopy(edit.new))
    return changed


def merge(before: Sequence[Edit], after: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits that lead from the documents under *before* to those over *after*, sorted by path.

    A path that is back at its first value has no edit. InputProblem where none is left: a mutation
    always changes something.
    """
    joined = {edit.path: edit for edit in before}
    for edit in after:
        first = joined.get(edit.path)
        if first is None:
            joined[edit.path] = edit
        elif not pointer.same(first.new, edit.old):
            raise InputProblem(
                f"{edit.path}: expected {pointer.show(edit.old)}, found {pointer.show(first.new)}; "
                "these edits do not follow one another"
            )
        else:
            joined[edit.path] = Edit(edit.path, first.old, edit.new)
    kept = [edit for edit in joined.values() if not pointer.same(edit.old, edit.new)]
    if not kept:
        raise InputProblem(
            "the edits lead back to the base configuration; a chain needs one that changes it"
        )
    return tuple(sorted(kept, key=lambda edit: edit.path))


def to_json(mutation: Mutation) -> dict[str, Any]:
    """*mutation* as it is stored in ``mutation.json`` (schema 1)."""
    return {
        "schema": SCHEMA,
        "model": mutation.model,
        "iteration": mutation.iteration,
        "attempt": mutation.attempt,
        "base_seed": mutation.seed,
        "drawn_by": dict(mutation.drawn_by),
        "edits": [{"path": e.path, "from": e.old, "to": e.new} for e in mutation.edits],
    }


def from_json(stored: Any, where: str) -> Mutation:
    """The mutation that *stored* holds; InputProblem names *where*, the field and the remedy."""
    if not isinstance(stored, Mapping):
        raise InputProblem(
            f"{where}: expected a mutation (a JSON object), found a {pointer.kind(stored)}; "
            "give a mutation.json of a campaign"
        )
    schema = _field(stored, "schema", int, where)
    if schema != SCHEMA:
        raise InputProblem(
            f"{where}: schema: expected {SCHEMA}, found {schema}; "
            "use the pytest-lmsv that wrote this file"
        )
    edits = _field(stored, "edits", list, where)
    if not edits:
        raise InputProblem(f"{where}: edits: the list is empty; a mutation has at least one edit")
    drawn_by = _field(stored, "drawn_by", dict, where) if "drawn_by" in stored else {}
    mutation = Mutation(
        model=_field(stored, "model", str, where),
        iteration=_field(stored, "iteration", int, where),
        attempt=_field(stored, "attempt", int, where),
        seed=_field(stored, "base_seed", int, where),
        edits=tuple(_edit(edit, f"{where}: edits/{n}") for n, edit in enumerate(edits)),
        drawn_by={str(key): str(value) for key, value in drawn_by.items()},
    )
    paths = [edit.path for edit in mutation.edits]
    for path in paths:
        if paths.count(path) > 1:
            raise InputProblem(f"{where}: {path} is edited twice; keep one of these edits")
    return mutation


def arguments(args: Mapping[str, Any]) -> list[str]:
    """The tokens of the command line that the ``args`` document stands for, in its order.

    true is the flag alone; false and null are absent; a list is the name and its items.
    """
    tokens: list[str] = []
    for name, value in args.items():
        if value is None or value is False:
            continue
        tokens.append(f"--{name}")
        if value is not True:
            items = value if isinstance(value, list) else [value]
            tokens.extend(_token(name, item) for item in items)
    return tokens


def _token(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputProblem(
            f"/args/{name}: expected a number or text, found {pointer.show(value)}; "
            "an option takes true, false, null, a number, text, or a list of numbers and texts"
        )
    token = value if isinstance(value, str) else repr(value)
    if "\n" in token or "\r" in token:
        raise InputProblem(f"/args/{name}: the text holds a line break; options are single lines")
    return token


def _field(stored: Mapping[str, Any], name: str, wanted: type, where: str) -> Any:
    example = {int: 1, str: "", list: [], dict: {}}[wanted]
    if name not in stored:
        raise InputProblem(f"{where}: {name} is missing; add it ({pointer.kind(example)})")
    value = stored[name]
    if type(value) is not wanted:
        raise InputProblem(
            f"{where}: {name}: expected a {pointer.kind(example)}, "
            f"found {pointer.show(value)}; correct it"
        )
    return value


def _edit(stored: Any, where: str) -> Edit:
    if not isinstance(stored, Mapping):
        raise InputProblem(
            f"{where}: expected an edit, found {pointer.show(stored)}; "
            'write {"path": "/model/...", "from": ..., "to": ...}'
        )
    for name in ("from", "to"):
        if name not in stored:
            raise InputProblem(f"{where}: {name} is missing; an edit has path, from and to")
    path = _field(stored, "path", str, where)
    try:
        pointer.parts(path)
    except InputProblem as problem:
        raise InputProblem(f"{where}: path: {problem}") from None
    if pointer.same(stored["from"], stored["to"]):
        raise InputProblem(
            f"{where}: {path}: from and to are both {pointer.show(stored['to'])}; "
            "an edit changes its value"
        )
    return Edit(path, stored["from"], stored["to"])
