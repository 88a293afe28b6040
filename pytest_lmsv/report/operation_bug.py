"""A bug report on operations that the makers of a stack can use: script, expected, actual.

The script needs only the stack: it runs on mindtorch where that is installed, else on PyTorch, so
that the two outputs can be compared by anyone.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv.judge.operations import Finding, Sweep
from pytest_lmsv.launch.sweep import Operation

SHOWN = 8
"""So many numbers of an array are printed."""

HEAD = '''\
"""Shows {name}; run it with mindtorch, and with PyTorch for what is expected."""
import numpy as np

try:
    import mindspore

    mindspore.set_device("CPU")
    import mindtorch  # from here on `import torch` is mindtorch
    from mindtorch.autograd import value_and_grad
except ImportError:
    value_and_grad = None
import torch
import torch.nn.functional as F


def numbers(result):
    array = np.asarray(result.detach().numpy() if hasattr(result, "detach") else result)
    return f"{{array.dtype}} {{list(array.shape)}} {{array.reshape(-1)[:{shown}].tolist()}}"

'''

GRADIENT = """
# The gradient of a fixed random sum of the results that are floats.
for name in {wanted!r}:
    inputs[name] = torch.nn.Parameter(inputs[name])
random = np.random.RandomState(9)
floats = [r for r in results if hasattr(r, "is_floating_point") and r.is_floating_point()]
weights = [random.standard_normal(tuple(r.shape)).astype(r.detach().numpy().dtype) for r in floats]
weights = [torch.tensor(weight) for weight in weights]


def loss():
    found = operation(**inputs)
    found = found if isinstance(found, (tuple, list)) else [found]
    found = [r for r in found if hasattr(r, "is_floating_point") and r.is_floating_point()]
    return sum((r * weight).sum() for r, weight in zip(found, weights))


if value_and_grad is None:
    loss().backward()
else:
    value_and_grad(loss, [inputs[name] for name in {wanted!r}])()
for name in {wanted!r}:
    print("gradient of", name, numbers(inputs[name].grad))
"""


def bug_report(
    title: str,
    cause: str,
    cases: Sequence[tuple[Operation, Sequence[Finding]]],
    pta: Sweep,
    msa: Sweep,
    launchers: Path,
) -> str:
    """Return the report, as Markdown, on all *cases* of one defect; the script shows the first."""
    first, findings = cases[0]
    lines = [
        f"# {title}",
        "",
        "Versions: " + _versions(msa),
        "",
        "Compared with: " + _versions(pta),
    ]
    if msa.fixes:
        lines += ["", f"pytest-lmsv's own fixes were installed: {', '.join(msa.fixes)}."]
    lines += ["", "## What is wrong", ""]
    if cause:
        lines += [f"{cause}.", ""]
    for operation, found in cases:
        code = "; ".join(line.strip() for line in operation.source.splitlines()[1:])
        lines += [f"- `{operation.name}`: `{code.replace('return ', '')}`"]
        lines += [f"  - {finding}" for finding in found]
    lines += ["", f"## Script that shows `{first.name}`", "", "```python"]
    lines += [script(first, findings, msa, launchers).rstrip(), "```"]
    lines += ["", "## Expected (PyTorch)", "", *_numbers(first, pta)]
    lines += ["", "## Actual (MindSpore, mindtorch)", "", *_numbers(first, msa)]
    return "\n".join(lines) + "\n"


def _versions(sweep: Sweep) -> str:
    return ", ".join(f"{name} {version}" for name, version in sweep.versions.items())


def script(operation: Operation, findings: Sequence[Finding], msa: Sweep, launchers: Path) -> str:
    """Return a program without pytest or files of ours that prints what the operation makes."""
    head = HEAD.format(name=operation.name, shown=SHOWN)
    measured = msa.results.get(operation.name, {}).get("accuracy")
    if measured is not None and all(finding.kind == "accuracy" for finding in findings):
        return head + _accuracy_script(measured)
    pieces = "".join(f"\n{piece}\n\n" for piece in _pieces(operation.source, launchers))
    given = "".join(
        f"    {name!r}: torch.tensor({expression}),\n"
        for name, (expression, _) in operation.inputs.items()
    )
    text = f"{head}{pieces}\n{operation.source}\n\ninputs = {{\n{given}}}\n"
    text += "results = operation(**inputs)\n"
    text += "results = results if isinstance(results, (tuple, list)) else [results]\n"
    text += 'for result in results:\n    print("value", numbers(result))\n'
    if any(finding.kind == "gradient" for finding in findings):
        wanted = [name for name, (_, gradient) in operation.inputs.items() if gradient]
        text += GRADIENT.format(wanted=wanted)
    return text


def _accuracy_script(measured: Mapping[str, Any]) -> str:
    return (
        f"\nx = torch.tensor(np.array({measured['inputs']}, 'float32'))\n"
        f"found = np.asarray(({measured['code']}).numpy(), 'float64')\n"
        f"exact = {measured['exact']!r}  # in float64, where x is {measured['at']!r}\n"
        f"at = int(np.abs(x.numpy() - np.float32({measured['at']!r})).argmin())\n"
        'print("value", found[at], "exact", exact, "difference", found[at] - exact)\n'
    )


def _pieces(source: str, launchers: Path) -> list[str]:
    """Return the sources of the helpers of ``cpu/pieces.py`` that *source* calls."""
    text = (launchers / "cpu" / "pieces.py").read_text(encoding="utf-8")
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and f"{node.name}(" in source:
            node.returns = None
            for argument in [*node.args.args, node.args.kwarg, node.args.vararg]:
                if argument is not None:
                    argument.annotation = None
            found.append(ast.unparse(node))
    return found


def _numbers(operation: Operation, sweep: Sweep) -> list[str]:
    """Return one line for each result, gradient and accuracy that a sweep has of *operation*."""
    result = sweep.results.get(operation.name)
    if result is None:
        return [f"- {sweep.crashed.get(operation.name, 'no result')}"]
    lines = [f"- value: {_array(array)}" for array in result.get("value", [])]
    for name, array in result.get("gradient", {}).items():
        lines.append(f"- gradient of {name}: {'none' if array is None else _array(array)}")
    measured = result.get("accuracy")
    if measured is not None:
        lines.append(
            f"- accuracy: largest error {measured['error']:.3g}, at x = {measured['at']!r}: "
            f"{measured['value']!r}, exact {measured['exact']!r}"
        )
    errors = ("value_error", "gradient_error", "accuracy_error")
    lines += [f"- {result[kind]}" for kind in errors if kind in result]
    return lines


def _array(array: Mapping[str, Any]) -> str:
    more = " ..." if len(array["data"]) > SHOWN else ""
    return f"`{array['dtype']} {array['shape']} {array['data'][:SHOWN]}`{more}"
