"""Reads ``operations.ini``: what the stacks are compared on, operation by operation.

Needs neither NumPy nor a stack, so that pytest can name the operations at collection.
"""

from __future__ import annotations

import configparser
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("operations.ini")
SEPARATOR = "  |  "
FLOATS = {"normal", "positive"}
RECIPES = {
    "normal": "np.random.RandomState({seed}).standard_normal({shape}).astype('float32')",
    "fixed": "np.random.RandomState({seed}).standard_normal({shape}).astype('float32')",
    "positive": "(np.random.RandomState({seed}).random_sample({shape}) + 0.5).astype('float32')",
    "integers": "np.random.RandomState({seed}).randint(0, {high}, {shape}).astype('int64')",
    "mask": "np.random.RandomState({seed}).random_sample({shape}) > 0.5",
}


@dataclass(frozen=True)
class Input:
    """One argument of an operation: a NumPy expression, and whether its gradient is compared."""

    expression: str
    gradient: bool


@dataclass(frozen=True)
class Operation:
    """Python statements over ``torch``, ``F`` and the named inputs; the last one is the result."""

    name: str
    section: str
    code: str
    inputs: Mapping[str, Input]

    @property
    def for_networks(self) -> bool:
        """Whether the small networks rely on it; the others are known traps."""
        return self.section.startswith("network")

    def source(self) -> str:
        """The operation as the source of a function ``operation``."""
        *statements, result = (part.strip() for part in self.code.split("; "))
        lines = [f"def operation({', '.join(self.inputs)}):"]
        lines += [f"    {statement}" for statement in [*statements, f"return {result}"]]
        return "\n".join(lines) + "\n"


def _input(operation: str, name: str, recipe: str) -> Input:
    matched = re.fullmatch(r"(\w+)\((.*)\)", recipe)
    if matched is None:
        raise ValueError(f"{TABLE}: {operation}: {name}: not a recipe: {recipe!r}")
    kind, arguments = matched.groups()
    if kind == "array":
        values, _, dtype = arguments.rpartition(", ")
        values = values.replace('float("nan")', "np.nan").replace('float("inf")', "np.inf")
        return Input(f"np.array({values}, {dtype})", gradient=False)
    if kind not in RECIPES:
        raise ValueError(f"{TABLE}: {operation}: {name}: unknown recipe {kind!r}")
    sizes = [size.strip() for size in arguments.split(",") if size.strip()]
    high = sizes.pop(0) if kind == "integers" else ""
    seed = zlib.crc32(f"{operation}/{name}".encode()) % 10_000
    shape = f"({', '.join(sizes)},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    return Input(RECIPES[kind].format(seed=seed, shape=shape, high=high), kind in FLOATS)


def _operation(section: str, name: str, line: str) -> Operation:
    code, *recipes = line.split(SEPARATOR)
    inputs = {}
    for recipe in recipes or ["x = normal(4, 8)"]:
        argument, _, value = recipe.partition(" = ")
        inputs[argument.strip()] = _input(name, argument.strip(), value.strip())
    return Operation(name, section, code.strip(), inputs)


def operations(table: Path = TABLE) -> dict[str, Operation]:
    """All operations by name; a name given twice or a recipe that can't be read is an error."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(table.read_text(encoding="utf-8"), str(table))
    found: dict[str, Operation] = {}
    for section in parser.sections():
        for name, line in parser[section].items():
            if name in found:
                raise ValueError(f"{table}: operation {name!r} is there twice")
            found[name] = _operation(section, name, line)
    return found
