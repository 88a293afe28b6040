"""How far a stack's float32 functions are from float64, over the ranges that networks reach.

The reference is NumPy in float64 at the same float32 inputs. The error at a point is
``abs(y - reference) / max(abs(reference), floor)``; the floor keeps zero crossings, where every
float32 function is relatively wrong, from hiding the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

POINTS = 4001


@dataclass(frozen=True)
class Function:
    """One elementwise function (or one over the last axis): code, reference, range, floor."""

    code: str
    reference: Callable[[Any], Any]
    low: float
    high: float
    floor: float = 0.0
    rows: int = 1


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def _log_softmax(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


FUNCTIONS = {
    "exp": Function("torch.exp(x)", np.exp, -80, 80),
    "log": Function("torch.log(x)", np.log, 1e-6, 1e6, floor=1.0),
    "log1p": Function("torch.log1p(x)", np.log1p, -0.9, 50, floor=1e-3),
    "expm1": Function("torch.expm1(x)", np.expm1, -2, 2, floor=1e-3),
    "sin": Function("torch.sin(x)", np.sin, -1000, 1000, floor=1.0),
    "cos": Function("torch.cos(x)", np.cos, -1000, 1000, floor=1.0),
    "tanh": Function("torch.tanh(x)", np.tanh, -10, 10, floor=1e-3),
    "sigmoid": Function("torch.sigmoid(x)", lambda x: 1 / (1 + np.exp(-x)), -80, 80, 1e-3),
    "erf": Function("torch.erf(x)", _erf, -5, 5, floor=1e-3),
    "gelu": Function("F.gelu(x)", lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), -3, 20, 0.1),
    "gelu_tanh": Function('F.gelu(x, approximate="tanh")', _gelu_tanh, -3, 20, floor=0.1),
    "silu": Function("F.silu(x)", lambda x: x / (1 + np.exp(-x)), -30, 30, floor=0.1),
    "softplus": Function("F.softplus(x)", _softplus, -10, 80),
    "sqrt": Function("torch.sqrt(x)", np.sqrt, 1e-6, 1e6),
    "rsqrt": Function("torch.rsqrt(x)", lambda x: 1 / np.sqrt(x), 1e-6, 1e6),
    "pow_of_scalar": Function("10000.0 ** x", lambda x: 10000.0**x, -1, 1),
    "pow_float": Function("x ** 1.5", lambda x: x**1.5, 1e-3, 1e3),
    "softmax": Function("torch.softmax(x, -1)", _softmax, -40, 40, floor=1e-6, rows=29),
    "log_softmax": Function("F.log_softmax(x, -1)", _log_softmax, -40, 40, floor=1.0, rows=29),
}


def points(function: Function) -> Any:
    """The float32 inputs, evenly spread, and by magnitude too where the range is positive."""
    spread = np.linspace(function.low, function.high, POINTS)
    if function.low > 0:
        spread = np.concatenate([spread, np.geomspace(function.low, function.high, POINTS)])
    if function.rows > 1:
        order = np.random.RandomState(0).permutation(POINTS)
        spread = spread[order][: POINTS - POINTS % function.rows].reshape(function.rows, -1)
    return spread.astype(np.float32)


def worst(function: Function, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The largest error of *outputs*, the input where it is, and value and reference there.

    ``inputs`` is what repeats it: the one number, or its whole row.
    """
    exact = function.reference(inputs.astype(np.float64))
    error = np.abs(outputs.astype(np.float64) - exact) / np.maximum(np.abs(exact), function.floor)
    error = np.where(np.isnan(error), 1e300, error)
    at = int(error.argmax())
    row = inputs[at // inputs.shape[-1]] if function.rows > 1 else inputs[at : at + 1]
    return {
        "error": min(float(error.flat[at]), 1e300),
        "at": float(inputs.flat[at]),
        "value": float(outputs.flat[at]),
        "exact": float(exact.flat[at]),
        "inputs": row.tolist(),
    }
