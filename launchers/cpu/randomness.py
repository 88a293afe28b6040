"""The one place that random numbers come from, in NumPy, so that both stacks get the same.

NumPy's legacy generator is used on purpose: its streams are frozen for ever (NEP 19), so that two
environments with different NumPy versions still draw the same numbers.
"""

from __future__ import annotations

import hashlib

import numpy as np


def generator(*keys: object) -> np.random.RandomState:
    """Return the generator that belongs to *keys*, in whatever order generators are asked for."""
    digest = hashlib.sha256("\x1f".join(map(str, keys)).encode()).digest()
    return np.random.RandomState(np.frombuffer(digest[:16], dtype="<u4"))


class Draws:
    """The random numbers of one micro-batch: each belongs to a name, not to an order of calls."""

    def __init__(self, seed: int, step: int, micro_batch: int, rank: int) -> None:
        self._keys = ("draws", seed, step, micro_batch, rank)

    def uniform(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return float64 numbers in [0, 1)."""
        return generator(*self._keys, name).random_sample(shape)

    def normal(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return float32 numbers of the standard normal distribution."""
        return generator(*self._keys, name).standard_normal(shape).astype(np.float32)

    def kept(self, name: str, shape: tuple[int, ...], probability: float) -> np.ndarray | None:
        """Return a dropout mask, scaled by 1 / (1 - *probability*); None where nothing drops."""
        if probability == 0.0:
            return None
        mask = self.uniform(name, shape) >= probability
        return mask.astype(np.float32) / np.float32(1.0 - probability)


def permutation(count: int, *keys: object) -> np.ndarray:
    """Return a random order of ``range(count)`` that belongs to *keys*."""
    return generator("permutation", *keys).permutation(count)
