"""What the value of an option must be: one parser for each kind.

A parser takes text or a typed ini value and raises ValueError or KeyError for a wrong one; its
docstring says in messages what would have been right.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

VERDICTS = ("accuracy", "memory", "performance", "output", "drift")
MINIMA = ("loss", "grad_norm", "first", "last", "output", "logprob")
"""The least noise that the verdict drift counts with, by the names of judge.curves.Limits."""


def count(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(str(value))
        if number < least:
            raise ValueError
        return number

    parse.__doc__ = f"a whole number of at least {least}"
    return parse


def seconds(value: Any) -> float:
    """a number of seconds above 0"""
    number = float(str(value))
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def tolerance(value: Any) -> float:
    """a relative difference of at least 0, as 0.05 for 5 %"""
    number = float(str(value))
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def factor(value: Any) -> float:
    """a number above 0"""
    number = float(str(value))
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def minima(value: Any) -> tuple[str, ...]:
    """minima such as loss=2.5e-7, of loss, grad_norm, first, last, output, logprob"""
    named = words(value)
    for each in named:
        name, _, number = each.partition("=")
        if name not in MINIMA:
            raise ValueError
        tolerance(number)
    return named


def decibels(value: Any) -> float:
    """a number of decibels of at least 0"""
    number = float(str(value))
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def switch(value: Any) -> bool:
    """on or off"""
    return {"on": True, "true": True, "1": True, "yes": True}.get(str(value).lower(), False) or (
        not {"off": True, "false": True, "0": True, "no": True}[str(value).lower()]
    )


def words(value: Any) -> tuple[str, ...]:
    """names, separated by commas or spaces"""
    texts = [value] if isinstance(value, str) else [str(item) for item in value]
    return tuple(word for text in texts for word in text.replace(",", " ").split())


def gate(value: Any) -> tuple[str, ...]:
    """`all`, or any of accuracy, memory, performance, output, drift, separated by commas"""
    named = words(value)
    if named == ("all",):
        return VERDICTS
    if not named or not set(named) <= set(VERDICTS):
        raise ValueError
    return tuple(name for name in VERDICTS if name in named)


def one_of(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if str(value) not in words:
            raise ValueError
        return str(value)

    parse.__doc__ = f"one of {', '.join(words)}"
    return parse


def path(value: Any) -> Path:
    """a path"""
    if not str(value):
        raise ValueError
    return Path(value).expanduser()


def paths(value: Any) -> tuple[Path, ...]:
    """paths"""
    return tuple(path(item) for item in ([value] if isinstance(value, (str, Path)) else value))


def text(value: Any) -> str:
    """a text"""
    return str(value)
