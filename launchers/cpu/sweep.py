"""Computes every operation of ``operations.ini`` on one stack: value, gradient and accuracy.

Runs in the stack's own environment: ``python sweep.py --stack pta|msa --out FILE [--after NAME]``.
FILE gets one JSON object a line: first what ran, then for each operation ``{"begin": name}`` and
its result, so that after a crash of the interpreter the operation that caused it is known and the
sweep can go on ``--after`` it. NaN and infinities are the strings of DESIGN 6.2.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cpu import accuracy, operations
from cpu.pieces import PIECES

PACKAGES = {"pta": ("torch", "numpy"), "msa": ("mindspore", "mindnlp", "numpy")}


def plain(array: Any) -> dict[str, Any]:
    """An array, or a Python number, as JSON: type, shape and flat data."""
    if isinstance(array, (bool, int, float)):
        number = plain(np.asarray(array))
        return number | {"dtype": "number"} if isinstance(array, float) else number
    values = array.reshape(-1).tolist()
    if array.dtype.kind == "f":
        names = {math.inf: "Infinity", -math.inf: "-Infinity"}
        values = ["NaN" if v != v else names.get(v, v) for v in values]
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": values}


def failure(error: Exception) -> str:
    """Type and first line of an error; the C++ call stack that MindSpore adds says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


class Stack:
    """One stack's torch, with the few calls that are spelled differently on the two."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fixes: tuple[str, ...] = ()
        if name == "msa":
            from cpu import adapter

            self.fixes = adapter.install()
        import torch

        if name == "pta":
            torch.set_num_threads(1)
        self.torch: Any = torch
        self.scope = {"torch": torch, "F": torch.nn.functional, "np": np, **PIECES}

    def numpy(self, tensor: Any) -> Any:
        if isinstance(tensor, (bool, int, float)):
            return tensor
        if self.name == "msa":
            return np.asarray(tensor.asnumpy())
        return tensor.detach().resolve_conj().numpy()

    def tensors(self, result: Any) -> list[Any]:
        parts = result if isinstance(result, (tuple, list)) else [result]
        return [tensor for part in parts for tensor in self.flat(part)]

    def flat(self, part: Any) -> list[Any]:
        return self.tensors(part) if isinstance(part, (tuple, list)) else [part]

    def is_float(self, part: Any) -> bool:
        return isinstance(part, self.torch.Tensor) and bool(part.is_floating_point())

    def gradients(self, loss: Any, parameters: list[Any]) -> list[Any]:
        """Runs *loss* and returns each parameter's gradient as NumPy, None where there is none."""
        if self.name == "msa":
            from mindtorch.autograd import value_and_grad

            value_and_grad(loss, parameters)()
        else:
            value = loss()
            if not value.requires_grad:
                return [None for _ in parameters]
            value.backward()
        return [None if p.grad is None else self.numpy(p.grad) for p in parameters]


def value(stack: Stack, function: Any, arrays: dict[str, Any]) -> list[tuple[Any, bool]]:
    """The results of an operation as NumPy arrays, and whether each is a tensor of floats."""
    with stack.torch.no_grad():
        given = {name: stack.torch.tensor(array) for name, array in arrays.items()}
        parts = stack.tensors(function(**given))
        return [(stack.numpy(part), stack.is_float(part)) for part in parts]


def gradient(
    stack: Stack, function: Any, arrays: dict[str, Any], wanted: list[str], floats: list[Any]
) -> dict[str, Any]:
    """The gradient of a fixed random sum of the float results, for each wanted input.

    *floats* are the values of these results; numbers that the operation gives are not among them.
    """
    torch = stack.torch
    given = {name: torch.tensor(array) for name, array in arrays.items()}
    for name in wanted:
        given[name] = torch.nn.Parameter(given[name])
    random = np.random.RandomState(9)
    weights = [
        torch.tensor(random.standard_normal(array.shape).astype(array.dtype)) for array in floats
    ]

    def loss() -> Any:
        parts = [part for part in stack.tensors(function(**given)) if stack.is_float(part)]
        terms = [(part * weight).sum() for part, weight in zip(parts, weights, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    found = stack.gradients(loss, [given[name] for name in wanted])
    return {name: None if a is None else plain(a) for name, a in zip(wanted, found, strict=True)}


def compute(stack: Stack, operation: operations.Operation) -> dict[str, Any]:
    """Value, gradient and accuracy of one operation, or the error of each."""
    result: dict[str, Any] = {"operation": operation.name}
    scope = dict(stack.scope)
    exec(operation.source(), scope)
    function = scope["operation"]
    arrays = {name: eval(i.expression, {"np": np}) for name, i in operation.inputs.items()}
    try:
        results = value(stack, function, arrays)
        result["value"] = [plain(array) for array, _ in results]
    except Exception as error:
        result["value_error"] = failure(error)
        return result
    wanted = [name for name, i in operation.inputs.items() if i.gradient]
    floats = [array for array, is_float in results if is_float]
    if wanted and floats:
        try:
            result["gradient"] = gradient(stack, function, arrays, wanted, floats)
        except Exception as error:
            result["gradient_error"] = failure(error)
    if operation.name in accuracy.FUNCTIONS:
        try:
            result["accuracy"] = measure(stack, accuracy.FUNCTIONS[operation.name])
        except Exception as error:
            result["accuracy_error"] = failure(error)
    return result


def measure(stack: Stack, function: accuracy.Function) -> dict[str, Any]:
    """The largest error of one function against float64, and the numbers there."""
    inputs = accuracy.points(function)
    with stack.torch.no_grad():
        outputs = eval(function.code, dict(stack.scope, x=stack.torch.tensor(inputs)))
    found = accuracy.worst(function, inputs, stack.numpy(outputs))
    return {"code": function.code, **found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stack", choices=("pta", "msa"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--after", metavar="NAME", help="go on after this operation")
    parser.add_argument("--only", metavar="NAME,...", help="these operations")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    table = operations.operations()
    names = list(table)
    if options.after:
        names = names[names.index(options.after) + 1 :]
    if options.only:
        names = [name for name in names if name in options.only.split(",")]
    stack = Stack(options.stack)
    versions = {name: importlib.metadata.version(name) for name in PACKAGES[options.stack]}
    head = {
        "schema": 1,
        "stack": options.stack,
        "fixes": list(stack.fixes),
        "versions": {"python": platform.python_version(), **versions},
        "machine": platform.machine(),
    }
    with options.out.open("a", encoding="utf-8") as out:

        def write(line: dict[str, Any]) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()

        write(head)
        for name in names:
            write({"begin": name})
            write(compute(stack, table[name]))
        write({"end": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
