"""Named rules that tie the keys of a configuration, and the generic ones among them.

A rule is a function ``(get, layout, **parameters) -> str | None``: None where it holds, else one
sentence that says what is broken. ``get(pointer)`` looks a value up and raises where there is none;
``get(pointer, default)`` gives the default instead. A rule reads the configuration only through
``get``: which keys a rule depends on is found by what it asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_lmsv.mutation.pointer import did_you_mean, same, show
from pytest_lmsv.problems import InputProblem

REQUIRED: Any = object()
"""The default of a lookup that has none: the pointer must exist."""


class Get(Protocol):
    """Looks up the value at a JSON Pointer."""

    def __call__(self, pointer: str, default: Any = REQUIRED, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """The parallel layout of a model on one device: how many devices, and how they are split."""

    devices: int = 1
    tp: int = 1
    pp: int = 1
    cp: int = 1
    mbs: int = 1
    accumulation: int = 1

    @property
    def dp(self) -> int:
        """The data-parallel size."""
        return self.devices // (self.tp * self.pp * self.cp)


Rule = Callable[..., "str | None"]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Make *function* known to space.yaml by its name."""
    RULES[function.__name__] = function
    return function


@dataclass(frozen=True, eq=False)
class Constraint:
    """One entry of ``constraints:`` in a space.yaml: a rule with its parameters."""

    name: str
    parameters: Mapping[str, Any]
    function: Rule

    def __call__(self, get: Get, layout: Layout) -> str | None:
        """None where the rule holds, else one sentence; InputProblem where it can't be computed."""
        try:
            return self.function(get, layout, **self.parameters)
        except InputProblem as problem:
            raise InputProblem(f"rule {self.name}: {problem}") from None
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as problem:
            # A value of a type that the rule does not expect: the file is wrong, not the run.
            raise InputProblem(
                f"rule {self.name}: can't be computed ({type(problem).__name__}: {problem})"
            ) from None


def constraint(name: str, parameters: Mapping[str, Any]) -> Constraint:
    """The rule *name* with *parameters*; InputProblem for an unknown rule or parameter."""
    # They add their rules to RULES.
    from pytest_lmsv.mutation import diffusion, megatron, vision_language  # noqa: F401

    if name not in RULES:
        raise InputProblem(
            f"rule: no rule named {name!r}{did_you_mean(name, RULES)}; known: "
            + ", ".join(sorted(RULES))
        )
    function = RULES[name]
    taken = list(inspect.signature(function).parameters.values())[2:]
    names = [parameter.name for parameter in taken]
    for given in parameters:
        if given not in names:
            raise InputProblem(
                f"rule {name}: no parameter named {given!r}{did_you_mean(given, names)}; "
                f"it takes: {', '.join(names) or 'none'}"
            )
    for parameter in taken:
        if parameter.default is parameter.empty and parameter.name not in parameters:
            raise InputProblem(f"rule {name}: parameter {parameter.name!r} is missing; add it")
    return Constraint(name, dict(parameters), function)


# What each generic rule says is its whole meaning; models tie their keys with them in space.yaml.


@rule
def equal(get: Get, layout: Layout, paths: Sequence[str]) -> str | None:
    """All *paths* hold the same value; numbers may differ in type (1 and 1.0)."""
    first = get(paths[0])
    for path in paths[1:]:
        other = get(path)
        if not (same(other, first) or (_number(other) and _number(first) and other == first)):
            return f"{paths[0]} is {show(first)} but {path} is {show(other)}; they must be equal"
    return None


@rule
def divisible(get: Get, layout: Layout, path: str, by: str) -> str | None:
    """The number at *path* is a multiple of the one at *by*."""
    value, divisor = get(path), get(by)
    if not divisor or value % divisor:
        return f"{path} ({value}) must be a multiple of {by} ({divisor})"
    return None


@rule
def multiple_of(get: Get, layout: Layout, path: str, number: int) -> str | None:
    """The number at *path*, or each of a list of them, is a multiple of *number*."""
    value = get(path)
    for item in value if isinstance(value, list) else [value]:
        if item % number:
            return f"{path} ({show(value)}) must be a multiple of {number}"
    return None


@rule
def at_most(
    get: Get, layout: Layout, path: str, limit: float | None = None, other: str | None = None
) -> str | None:
    """The number at *path* is at most *limit*, or at most the number at *other*."""
    value = get(path)
    for bound, name in _bounds(get, limit, other):
        if value > bound:
            return f"{path} is {value}; it must be at most {bound}{name}"
    return None


@rule
def at_least(
    get: Get, layout: Layout, path: str, limit: float | None = None, other: str | None = None
) -> str | None:
    """The number at *path* is at least *limit*, or at least the number at *other*."""
    value = get(path)
    for bound, name in _bounds(get, limit, other):
        if value < bound:
            return f"{path} is {value}; it must be at least {bound}{name}"
    return None


@rule
def one_of(get: Get, layout: Layout, path: str, values: Sequence[Any]) -> str | None:
    """The value at *path* is one of *values*."""
    value = get(path)
    if any(same(value, allowed) for allowed in values):
        return None
    return f"{path} is {show(value)}; it must be one of {', '.join(map(show, values))}"


@rule
def sum_equals(get: Get, layout: Layout, path: str, total: str) -> str | None:
    """The list at *path* adds up to the number at *total*; null is no list and holds."""
    items, wanted = get(path), get(total)
    if items is not None and sum(items) != wanted:
        return f"{path} {show(items)} adds up to {sum(items)}; it must give {total} ({wanted})"
    return None


@rule
def length_equals(
    get: Get, layout: Layout, path: str, number: int | None = None, other: str | None = None
) -> str | None:
    """The list at *path* has *number* items, or as many as the list at *other*; null holds."""
    items = get(path)
    if number is None and other is None:
        raise InputProblem("parameter 'number' or 'other' is missing; add one")
    wanted = len(get(other)) if other else number
    if items is not None and len(items) != wanted:
        as_in = f", as {other} has" if other else ""
        return f"{path} has {len(items)} items; it must have {wanted}{as_in}"
    return None


@rule
def product_equals(get: Get, layout: Layout, path: str, factors: Sequence[str]) -> str | None:
    """The number at *path* is the product of the numbers at *factors*."""
    product = 1
    for factor in factors:
        product *= get(factor)
    value = get(path)
    if value != product:
        return f"{path} is {value}; it must be {' * '.join(factors)} ({product})"
    return None


def _bounds(get: Get, limit: float | None, other: str | None) -> list[tuple[float, str]]:
    """The limits that were given, each with the path it comes from."""
    bounds = [] if limit is None else [(limit, "")]
    if other is not None:
        bounds.append((get(other), f" ({other})"))
    if not bounds:
        raise InputProblem("parameter 'limit' or 'other' is missing; add one")
    return bounds


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
