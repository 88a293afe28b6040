"""AdamW with global norm clipping and Megatron's learning-rate schedules.

All parameters are one flat tensor, as in Megatron's contiguous buffers: one sum over the workers,
and few operations where each costs much (MSA on cpu). Biases and norms do not decay.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from cpu import stack
from cpu.configuration import Configuration


class Schedule:
    """Learning rate by the number of steps done: warm-up, then one of four styles."""

    def __init__(self, configuration: Configuration, steps: int) -> None:
        read = configuration.read
        self.top = float(read("/args/lr"))
        self.bottom = float(read("/args/min-lr", 0.0))
        self.style = read("/args/lr-decay-style", "linear")
        self.warmup = int(read("/args/lr-warmup-iters", 0))
        self.start = float(read("/args/lr-warmup-init", 0.0))
        self.length = int(read("/args/lr-decay-iters", steps))
        if self.style not in {"constant", "linear", "cosine", "inverse-square-root"}:
            raise ValueError(f"--lr-decay-style: {self.style!r} decay style is not supported")
        if not 0.0 <= self.bottom <= self.top:
            raise ValueError(f"--min-lr {self.bottom} is not between 0 and --lr {self.top}")

    def rate(self, done: int) -> float:
        """Return the rate of the step after *done* steps."""
        if self.warmup > 0 and done <= self.warmup:
            return self.start + (self.top - self.start) * done / self.warmup
        if self.style == "constant":
            return self.top
        if done > self.length:
            return self.bottom
        if self.style == "inverse-square-root":
            warm = max(self.warmup, 1)
            return max(self.bottom, self.top * math.sqrt(warm) / math.sqrt(max(done, 1)))
        part = (done - self.warmup) / max(self.length - self.warmup, 1)
        share = 1.0 - part if self.style == "linear" else 0.5 + 0.5 * math.cos(math.pi * part)
        return self.bottom + share * (self.top - self.bottom)


class AdamW:
    """AdamW over all parameters of a network as one flat tensor."""

    def __init__(self, configuration: Configuration, named_parameters) -> None:
        read = configuration.read
        self.beta1 = float(read("/args/adam-beta1", 0.9))
        self.beta2 = float(read("/args/adam-beta2", 0.999))
        self.eps = float(read("/args/adam-eps", 1e-8))
        self.clip = float(read("/args/clip-grad", 1.0))
        decay = float(read("/args/weight-decay", 0.01))
        self.names = [name for name, _ in named_parameters]
        self.parameters = [parameter for _, parameter in named_parameters]
        self.shapes = [tuple(parameter.shape) for parameter in self.parameters]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        decays = [
            np.full(size, decay if len(shape) > 1 else 0.0, np.float32)
            for size, shape in zip(self.sizes, self.shapes, strict=True)
        ]
        self._decay = torch.tensor(np.concatenate(decays))
        self._flat = self.flatten([parameter.detach() for parameter in self.parameters])
        self._first = torch.zeros_like(self._flat)
        self._second = torch.zeros_like(self._flat)
        self._updates = 0

    def flatten(self, tensors):
        """Return *tensors*, one for each parameter, as one flat tensor."""
        return torch.cat([tensor.reshape(-1) for tensor in tensors])

    def norms(self, gradient: np.ndarray) -> tuple[float, dict[str, float]]:
        """Return the norm of the flat *gradient* and of each parameter's part (float64 sums)."""
        ends = np.cumsum(self.sizes)
        parts = np.split(gradient.astype(np.float64), ends[:-1])
        squares = [float(part @ part) for part in parts]
        each = {name: math.sqrt(square) for name, square in zip(self.names, squares, strict=True)}
        return math.sqrt(sum(squares)), each

    def update(self, gradient, norm: float, rate: float) -> None:
        """Move the parameters along the flat *gradient* of *norm*, clipped."""
        self._updates += 1
        if self.clip > 0.0:
            share = self.clip / (norm + 1.0e-6)
            if share < 1.0:
                gradient = gradient * share
        self._first = self._first * self.beta1 + gradient * (1.0 - self.beta1)
        self._second = self._second * self.beta2 + gradient * gradient * (1.0 - self.beta2)
        first = self._first / (1.0 - self.beta1**self._updates)
        second = self._second / (1.0 - self.beta2**self._updates)
        move = first / (torch.sqrt(second) + self.eps) + self._decay * self._flat
        self._flat = self._flat - move * rate
        parts = torch.split(self._flat, self.sizes)
        for parameter, shape, part in zip(self.parameters, self.shapes, parts, strict=True):
            stack.assign(parameter, part.reshape(shape))
