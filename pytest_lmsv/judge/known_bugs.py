"""Known bugs (DESIGN 5.5): the entries of known_bugs.yaml, checked, matched and expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import RunError, RunRecord

_REQUIRED = ("id", "title", "stack", "expected")
_OPTIONAL = (
    "models", "operations", "device", "signature", "verdict", "limit", "keys", "strict",
    "versions", "when", "report", "since",
)  # fmt: skip
_VERDICTS = ("accuracy", "memory", "performance", "output", "drift")
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
_SPECIFIER = re.compile(r"\s*([A-Za-z0-9][\w.-]*?)\s*((?:(?:[<>=!]=|[<>])\s*[\w.]+\s*,?\s*)+)\Z")
_KEY = re.compile(r"/(?:model|data|args)(?:/(?:[^~/]|~[01])+)+")
_CLAUSE = re.compile(r"([<>=!]=|[<>])\s*([\w.]+)")


@dataclass(frozen=True, slots=True)
class KnownBug:
    """One entry. A *signature* names an error, a *verdict* with its *limit* a figure."""

    id: str
    title: str
    stack: str
    expected: bool
    models: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    device: str | None = None
    """None: both."""
    signature: re.Pattern[str] | None = None
    verdict: str | None = None
    limit: float | None = None
    """The verdict is covered below it: a relative difference, of drift the ratio to its limit."""
    keys: tuple[str, ...] = ()
    """JSON Pointers; an NG is covered only where the mutation changes all of them."""
    strict: bool = False
    versions: tuple[str, ...] = ()
    """Specifiers such as ``mindspore<2.8``; all must hold."""
    when: Mapping[str, Any] = field(default_factory=dict)
    report: str = ""
    since: str = ""


@lru_cache(maxsize=16)
def load(paths: tuple[Path, ...]) -> tuple[KnownBug, ...]:
    """All entries of *paths*; an id of a later file takes the place of an earlier one's.

    Raises InputProblem with file, entry, key and remedy.
    """
    found: dict[str, KnownBug] = {}
    for path in paths:
        here: set[str] = set()
        for bug in _read(path):
            if bug.id in here:
                raise InputProblem(f"{path}: id {bug.id!r} is used twice; give each entry its own")
            here.add(bug.id)
            found[bug.id] = bug
    return tuple(found.values())


def named(run: RunRecord, bugs: Iterable[KnownBug], *, device: str, model: str) -> RunRecord:
    """Return *run* with the id of the known bug that its error is, if it is one."""
    if run.error is None:
        return run
    bug = match(bugs, run.error, stack=run.stack, device=device, model=model)
    return replace(run, error=replace(run.error, known_bug=bug.id if bug else None))


def match(
    bugs: Iterable[KnownBug],
    error: RunError,
    *,
    stack: str | None = None,
    device: str | None = None,
    model: str | None = None,
    operation: str | None = None,
) -> KnownBug | None:
    """The first entry whose signature is in the error's own text: its line, type and message, the
    later links of its chain and the error block that came with it.

    None for *stack*, *device*, *model* or *operation*: entries for any.
    """
    text = "\n".join((error.line, f"{error.type}: {error.message}", *error.chain))
    for bug in bugs:
        if bug.signature is None or not _concerns(bug, stack, device, model, operation):
            continue
        if bug.signature.search(text):
            return bug
    return None


def expected(
    bugs: Iterable[KnownBug],
    *,
    model: str | None = None,
    operation: str | None = None,
    stack: str,
    device: str,
    versions: Mapping[str, str] | None = None,
    adapter_fixes: bool | None = None,
) -> tuple[KnownBug, ...]:
    """The entries marked expected that apply to a test of *model* (or *operation*) on *stack*.

    A version that is not in *versions* or can't be read means that the entry applies.
    """
    return tuple(
        bug
        for bug in bugs
        if bug.expected
        and (bool(bug.models) if model is not None else bool(bug.operations))
        and _concerns(bug, stack, device, model, operation)
        and all(_holds(specifier, versions or {}) for specifier in bug.versions)
        and _when(bug.when, adapter_fixes)
    )


def _concerns(
    bug: KnownBug,
    stack: str | None,
    device: str | None,
    model: str | None,
    operation: str | None,
) -> bool:
    return (
        (stack is None or bug.stack == stack)
        and (device is None or bug.device is None or bug.device == device)
        and (model is None or not bug.models or model in bug.models)
        and (operation is None or not bug.operations or operation in bug.operations)
    )


def _when(when: Mapping[str, Any], adapter_fixes: bool | None) -> bool:
    if "adapter_fixes" not in when or adapter_fixes is None:
        return True
    return _SWITCH[str(when["adapter_fixes"]).lower()] == adapter_fixes


def _holds(specifier: str, versions: Mapping[str, str]) -> bool:
    parsed = _SPECIFIER.match(specifier)
    assert parsed, specifier  # checked at load
    wanted = parsed[1].lower().replace("_", "-")
    installed = {name.lower().replace("_", "-"): value for name, value in versions.items()}
    here = _release(installed.get(wanted, ""))
    if here is None:
        return True
    for operator, version in _CLAUSE.findall(parsed[2]):
        there = _release(version)
        if there is None:
            continue
        width = max(len(here), len(there))
        left = here + (0,) * (width - len(here))
        right = there + (0,) * (width - len(there))
        if not {
            "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
            "==": left == right, "!=": left != right,
        }[operator]:  # fmt: skip
            return False
    return True


def _release(version: str) -> tuple[int, ...] | None:
    """The numbers that a version begins with: 2.7.1 of ``2.7.1.post2+cpu``."""
    digits = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in digits[1].split(".")) if digits else None


def _read(path: Path) -> list[KnownBug]:
    loaded = data.read_yaml(path)
    entries = loaded or []
    if not isinstance(entries, list):
        raise InputProblem(f"{path}: expected a list of entries, found {type(entries).__name__}")
    return [_entry(path, number, entry) for number, entry in enumerate(entries)]


def _entry(path: Path, number: int, entry: Any) -> KnownBug:
    if not isinstance(entry, dict):
        raise InputProblem(f"{path}: entry {number + 1} is no mapping; write `- id: ...`")
    where = f"{path}: {entry.get('id') or f'entry {number + 1}'}"
    for key in _REQUIRED:
        if key not in entry:
            raise InputProblem(f"{where}: key `{key}` is missing; add it")
    known = (*_REQUIRED, *_OPTIONAL)
    for key in entry:
        if key not in known:
            raise InputProblem(f"{where}: unknown key `{key}`; known: {', '.join(known)}")
    models = _names(where, entry, "models")
    operations = _names(where, entry, "operations")
    if bool(models) == bool(operations):
        raise InputProblem(f"{where}: needs `models` or `operations`, one of them, as a list")
    if ("signature" in entry) == ("verdict" in entry):
        raise InputProblem(f"{where}: needs `signature` or `verdict`, one of them")
    _one_of(where, entry, "stack", ("pta", "msa"))
    _one_of(where, entry, "device", ("cpu", "npu"))
    _one_of(where, entry, "verdict", _VERDICTS)
    for key in ("expected", "strict"):
        if not isinstance(entry.get(key, False), bool):
            raise InputProblem(f"{where}: `{key}` must be true or false, found {entry[key]!r}")
    signature = None
    if "signature" in entry:
        try:
            signature = re.compile(entry["signature"])
        except (re.error, TypeError) as error:
            raise InputProblem(f"{where}: `signature` is no regular expression: {error}") from None
        if signature.search(""):
            raise InputProblem(f"{where}: `signature` matches any error; write what only this says")
    limit = entry.get("limit")
    if "verdict" in entry and not _is_bound(limit):
        raise InputProblem(f"{where}: `verdict` needs `limit`, a relative bound such as 0.5")
    if entry.get("verdict") == "drift" and limit is not None and limit <= 1:
        raise InputProblem(
            f"{where}: `limit` of drift is {limit!r}, which covers nothing; it is in units of the "
            "drift limit: write a number above 1"
        )
    keys = _keys(where, entry)
    versions = entry.get("versions", [])
    versions = [versions] if isinstance(versions, str) else versions
    for specifier in versions:
        if not isinstance(specifier, str) or not _SPECIFIER.match(specifier):
            raise InputProblem(
                f"{where}: `versions` has {specifier!r}; write specifiers such as `mindspore<2.8`"
            )
    when = entry.get("when", {})
    fixes = str(when.get("adapter_fixes", "on")).lower() if isinstance(when, dict) else ""
    if fixes not in _SWITCH or set(when) - {"adapter_fixes"}:
        raise InputProblem(f"{where}: `when` knows only `adapter_fixes: on` or `off`")
    return KnownBug(
        id=str(entry["id"]),
        title=str(entry["title"]),
        stack=entry["stack"],
        expected=entry["expected"],
        models=models,
        operations=operations,
        device=entry.get("device"),
        signature=signature,
        verdict=entry.get("verdict"),
        limit=None if limit is None else float(limit),
        keys=keys,
        strict=entry.get("strict", False),
        versions=tuple(versions),
        when=when,
        report=str(entry.get("report", "")),
        since=str(entry.get("since", "")),
    )


def _is_bound(value: Any) -> bool:
    """Whether *value* is a finite number above 0."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 < value < float("inf")


def _one_of(where: str, entry: Mapping[str, Any], key: str, known: Sequence[str]) -> None:
    if key in entry and entry[key] not in known:
        raise InputProblem(f"{where}: `{key}` is {entry[key]!r}; write one of {', '.join(known)}")


def _keys(where: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    keys = _names(where, entry, "keys")
    if "keys" not in entry:
        return ()
    if "verdict" not in entry or "models" not in entry:
        raise InputProblem(f"{where}: `keys` belong to a `verdict` of `models`; remove them")
    if not keys:
        raise InputProblem(f"{where}: `keys` is empty; name keys, or remove it to cover any")
    for key in keys:
        if not _KEY.fullmatch(key):
            raise InputProblem(
                f"{where}: `keys` has {key!r}; write JSON Pointers that begin with /model, /data "
                "or /args, such as /model/width"
            )
    if entry.get("strict", False):  # other mutations are no proof that the bug is gone
        raise InputProblem(f"{where}: `strict` can't be asked of `keys`; remove one of them")
    return keys


def _names(where: str, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = entry.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputProblem(f"{where}: `{key}` must be a list of names, found {names!r}")
    return tuple(names)
