"""Records as JSON and back: what is stored of an iteration is all of it.

NaN and infinities are the strings of DESIGN 6.2, since JSON has no word for them.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pytest_lmsv.wording import finite

T = TypeVar("T")
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any) -> Any:
    """Return *value*, a record, as what JSON can hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def from_plain(kind: type[T], plain: Any) -> T:
    """Return the record of type *kind* that :func:`to_plain` wrote; unknown fields are left out.

    Raises TypeError or KeyError where *plain* was not written from such a record.
    """
    result: T = _restore(kind, plain)
    return result


@lru_cache(maxsize=64)
def _hints(kind: type) -> Mapping[str, Any]:
    """Return the types of the fields of *kind*; looked up once, as it costs more than the rest."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind)}


def _restore(kind: Any, plain: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if plain is None:
            return None
        return _restore(next(item for item in arguments if item is not type(None)), plain)
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        hints = _hints(kind)
        return kind(**{k: _restore(hints[k], v) for k, v in plain.items() if k in hints})
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_restore(arguments[0], item) for item in plain)
        return tuple(_restore(a, item) for a, item in zip(arguments, plain, strict=True))
    if origin is Sequence:
        return tuple(_restore(arguments[0], item) for item in plain)
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return {key: _restore(arguments[1], item) for key, item in plain.items()}
    if kind is float:
        return WORDS[plain] if isinstance(plain, str) else float(plain)
    if kind in (int, str, bool) and not isinstance(plain, kind):
        raise TypeError(f"{plain!r:.40} stands where {kind.__name__} belongs")
    return plain
