"""JSON Pointers (RFC 6901) into the documents of a configuration, and JSON-exact comparison."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pytest_lmsv.problems import InputProblem

_LONGEST = 80


class Missing(InputProblem):
    """A pointer that leads nowhere in the documents."""


@lru_cache(maxsize=4096)
def parts(pointer: str) -> tuple[str, ...]:
    """The unescaped parts of *pointer*; InputProblem where it is not a JSON Pointer."""
    if not pointer.startswith("/"):
        raise InputProblem(
            f"{pointer!r} is not a JSON Pointer; it begins with the document, as /model/predictor"
        )
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def get(documents: Any, pointer: str) -> Any:
    """The value at *pointer*; Missing (an InputProblem) names the part that does not exist."""
    value = documents
    for depth, part in enumerate(parts(pointer)):
        if isinstance(value, list):
            if not _is_index(part, len(value)):
                raise _missing(pointer, depth, part, [str(i) for i in range(len(value))])
            value = value[int(part)]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise _missing(pointer, depth, part, value if isinstance(value, dict) else [])
    return value


def put(documents: Any, pointer: str, new: Any) -> None:
    """Put *new* in the place of the existing value at *pointer*, in *documents* itself."""
    get(documents, pointer)
    *before, last = parts(pointer)
    holder = documents
    for part in before:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    if isinstance(holder, list):
        holder[int(last)] = new
    else:
        holder[last] = new


def within(pointer: str, other: str) -> bool:
    """Whether *pointer* is *other* or lies inside it."""
    return pointer == other or pointer.startswith(other + "/")


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same JSON: ``1``, ``1.0`` and ``true`` are three values."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def kind(value: Any) -> str:
    """The name of a value's JSON type, integers and floats apart."""
    if isinstance(value, bool):
        return "true or false"
    names = {int: "whole number", float: "number with a point", str: "text", list: "list"}
    return names.get(type(value), "null" if value is None else "object")


def show(value: Any) -> str:
    """*value* as a person reads it: JSON on one line, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def canonical(value: Any) -> str:
    """The one JSON text of *value*: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` with the nearest of the *known* words, or nothing."""
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _is_index(part: str, length: int) -> bool:
    plain = part.isascii() and part.isdigit() and (part == "0" or part[0] != "0")
    return plain and int(part) < length


def _missing(pointer: str, depth: int, part: str, known: Iterable[str]) -> Missing:
    holder = "/".join(pointer.split("/")[: depth + 1]) or "the documents"
    return Missing(f"{pointer} does not exist: no {part!r} in {holder}{did_you_mean(part, known)}")
