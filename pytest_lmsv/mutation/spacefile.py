"""space.yaml read and checked against the documents of every device it is for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.constraints import Constraint, Layout, constraint
from pytest_lmsv.mutation.entries import Entry
from pytest_lmsv.mutation.space import Key, Space
from pytest_lmsv.problems import InputProblem

_DEVICES = ("npu", "cpu")


def read(
    file: Path,
    model: str,
    documents: Mapping[str, Mapping[str, Any]],
    layouts: Mapping[str, Layout],
) -> dict[str, Space]:
    """The space of each device that has *documents*; InputProblem names file, key and remedy."""
    if not file.is_file():
        raise InputProblem(f"{file}: is missing; a model needs a mutation space (docs/mutation.md)")
    top = Entry.read(file)
    top.only("keys", "constraints")
    entries = [
        Entry.of(file, value.get("path", f"keys/{n}"), value)
        for n, value in enumerate(top.list_of("keys", dict))
    ]
    spaces = {}
    for device, base in documents.items():
        keys = tuple(
            sorted((_key(entry, device, base) for entry in entries), key=lambda key: key.path)
        )
        _one_owner_each(file, keys)
        rules = _constraints(top, device)
        space = Space(model, device, base, keys, rules, layouts[device])
        _check(file, space)
        spaces[device] = space
    return spaces


def _key(entry: Entry, device: str, base: Mapping[str, Any]) -> Key:
    """One key as it stands on *device*, its values checked against the documents."""
    entry.only("path", "values", "live", "fresh_weights", "sets", "note")
    path = entry.text("path")
    present = _present(entry, "path", path, device, base)
    live, reason = _live(entry, device)
    values = _values(entry, device)
    if live and not values:
        live, reason = False, f"space.yaml lists no values for {device}"
    for number, value in enumerate(values):
        complaint = _type_complaint(value, present)
        if complaint:
            entry.fail("values", f"{pointer.show(value)}: {complaint}")
        if any(pointer.same(value, other) for other in values[:number]):
            entry.fail("values", f"{pointer.show(value)} stands there twice; remove one")
    if live and all(pointer.same(value, present) for value in values):
        entry.fail(
            "values",
            f"no value but the present one on {device} ({pointer.show(present)}); add another",
        )
    sets = tuple(entry.list_of("sets", str))
    for other in sets:
        found = _present(entry, "sets", other, device, base)
        if not pointer.same(found, present):
            entry.fail(
                "sets",
                f"{other} holds {pointer.show(found)} on {device}, {path} {pointer.show(present)}; "
                "make the documents agree, or remove it from sets",
            )
    return Key(path, tuple(values), live, reason, entry.flag("fresh_weights"), sets)


def _present(entry: Entry, key: str, path: str, device: str, base: Mapping[str, Any]) -> Any:
    try:
        return pointer.get(base, path)
    except InputProblem as problem:
        entry.fail(key, f"{problem} in the {device} documents; correct the path")


def _live(entry: Entry, device: str) -> tuple[bool, str]:
    """Whether the key is drawn on *device*, and the reason where not."""
    value = entry.get("live", True)
    if isinstance(value, dict):
        part = Entry.of(entry.file, f"{entry.at}: live", value)
        part.only(*_DEVICES)
        value = value.get(device, True)
    if value is True:
        return True, ""
    if not isinstance(value, str) or not value:
        entry.fail("live", f"expected true or the reason why not, found {value!r}; write a reason")
    return False, value


def _values(entry: Entry, device: str) -> list[Any]:
    value = entry.get("values", [])
    if isinstance(value, dict):
        part = Entry.of(entry.file, f"{entry.at}: values", value)
        part.only(*_DEVICES)
        value = value.get(device, [])
    if not isinstance(value, list):
        entry.fail("values", f"expected a list, found {value!r}; write [a, b, c]")
    return value


def _type_complaint(value: Any, present: Any) -> str | None:
    """What is wrong with the JSON type of a grid value; anything goes where null is present."""
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a JSON number; remove it"
    if present is None:
        return None
    if pointer.kind(value) != pointer.kind(present):
        return (
            f"expected a {pointer.kind(present)} as the documents have "
            f"({pointer.show(present)}), found a {pointer.kind(value)}; write it as that"
        )
    if isinstance(present, list) and present:
        kinds = {pointer.kind(item) for item in present}
        odd = next((item for item in value if pointer.kind(item) not in kinds), None)
        if len(kinds) == 1 and odd is not None:
            return (
                f"item {pointer.show(odd)}: expected a {kinds.pop()}, found a {pointer.kind(odd)}"
            )
    return None


def _one_owner_each(file: Path, keys: tuple[Key, ...]) -> None:
    """Refuse a path that two keys change, or that lies inside another's."""
    owners: dict[str, str] = {}
    for key in keys:
        for path in key.paths:
            for other, owner in owners.items():
                if pointer.within(path, other) or pointer.within(other, path):
                    raise InputProblem(
                        f"{file}: {key.path}: {path} is also changed by {owner} ({other}); "
                        "let one key change it"
                    )
        owners.update(dict.fromkeys(key.paths, key.path))


def _constraints(top: Entry, device: str) -> tuple[Constraint, ...]:
    listed = top.get("constraints") or []
    if not isinstance(listed, list):
        top.fail("constraints", "expected a list of rules; write '- rule: <name>'")
    found = []
    for number, value in enumerate(listed):
        at = f"constraints/{number}"
        entry = Entry.of(top.file, at, {"rule": value} if isinstance(value, str) else value)
        name = entry.text("rule")
        if entry.get("only") not in (None, device):
            entry.choice("only", _DEVICES)
            continue
        parameters = {k: v for k, v in entry.value.items() if k not in ("rule", "only")}
        try:
            found.append(constraint(name, parameters))
        except InputProblem as problem:
            raise InputProblem(f"{top.file}: {at}: {problem}") from None
    return tuple(found)


def _check(file: Path, space: Space) -> None:
    """The unmutated documents keep every constraint, and something can be drawn."""
    choices = Choices(space.documents, space.drawn(), space.constraints, space.layout)
    try:
        broken = choices.broken({})
        options = choices.after({}, edits_left=2)
    except InputProblem as problem:
        raise InputProblem(
            f"{file}: {problem}, on {space.device}; check the rule's parameters"
        ) from None
    if broken:
        raise InputProblem(
            f"{file}: constraints: the unmutated {space.device} documents break {broken[0]}; "
            "correct the documents or the rule"
        )
    if not options:
        raise InputProblem(
            f"{file}: keys: the constraints leave nothing to draw on {space.device}; "
            "add keys or values, or loosen a constraint"
        )
