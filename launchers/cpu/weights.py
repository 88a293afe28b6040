"""Initial weights from NumPy by seed and full name, the same on both stacks (DESIGN 5.6).

No weight starts at zero: from zero gates the gradients of all blocks are zero at the first step,
and faults stay unseen.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from cpu import stack
from cpu.randomness import generator

SPREAD = 0.1
"""Standard deviation of biases, and of norm weights about one."""


def initial(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return the float32 values with which the parameter *name* starts."""
    values = generator("weights", seed, name).standard_normal(shape)
    if len(shape) > 1:
        values /= np.sqrt(shape[-1])
    elif name.endswith(".weight"):
        values = 1.0 + SPREAD * values
    else:
        values *= SPREAD
    return values.astype(np.float32)


def moved(values: np.ndarray, name: str, seed: int, noise: int) -> np.ndarray:
    """Return the float32 *values* of *name*, each one unit in its last place up or down.

    The directions belong to seed, *noise* (the number of the noise run, from 1) and name, so that
    every worker moves alike.
    """
    up = generator("noise", noise, seed, name).random_sample(values.shape) < 0.5
    towards = np.where(up, np.float32(np.inf), np.float32(-np.inf))
    return np.nextafter(values, towards, dtype=np.float32)


def save(network, folder: Path, step: int) -> None:
    """Write the weights after *step* to ``folder/iter_<step>/weights.npz``, whole or not at all."""
    target = folder / f"iter_{step:07d}"
    target.mkdir(parents=True, exist_ok=True)
    named = network.named_parameters()
    values = {name: parameter.detach().numpy() for name, parameter in named}
    aside = target / f".weights.{os.getpid()}.npz"
    np.savez(aside, **values)
    aside.rename(target / "weights.npz")


def fill(network, seed: int, noise: int = 0) -> dict[str, dict[str, object]]:
    """Fill every parameter of *network*; return type, shape and digest of what it then holds.

    *noise*: the number of a noise run, whose weights are :func:`moved`; 0 is the run itself.
    """
    import torch

    held: dict[str, dict[str, object]] = {}
    for name, parameter in network.named_parameters():
        shape = tuple(parameter.shape)
        start = initial(name, shape, seed)
        if noise:
            start = moved(start, name, seed, noise)
        stack.assign(parameter, torch.tensor(start))
        values = np.ascontiguousarray(parameter.detach().numpy())
        held[name] = {
            "dtype": str(values.dtype),
            "shape": list(shape),
            "digest": "sha256:" + hashlib.sha256(values.tobytes()).hexdigest(),
        }
    return held
