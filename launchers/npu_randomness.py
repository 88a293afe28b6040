"""``--lmsv-shared-randomness`` on npu: random numbers of a training step from NumPy, by name.

The generators of PyTorch and MindSpore differ, so that noise and time steps do, and with them the
loss. Here ``randn``, ``randn_like``, ``rand``, ``randint`` and ``dropout`` take their numbers from
one NumPy stream that belongs to seed, step, data parallel rank, kind and the number of the call:
both stacks run the same source, so the calls come in the same order.

Limits: dropout inside fused attention kernels draws on the device and is not reached. Under
recomputation a block is run twice, and its dropout would be drawn anew: there dropout keeps the
stack's own generator. Workers that load data are other processes and are not reached.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from cpu.randomness import generator

_step = 0
_calls: dict[str, int] = {}


def draw(kind: str) -> np.random.RandomState:
    """Return the generator of the next call of *kind* in this step."""
    number = _calls.get(kind, 0)
    _calls[kind] = number + 1
    return generator("shared", int(os.environ.get("LMSV_SEED", "43")), _step, rank(), kind, number)


def rank() -> int:
    """Return the data parallel rank: tensor parallel ranks must draw the same."""
    try:
        from megatron.core import mpu

        return int(mpu.get_data_parallel_rank())
    except (ImportError, AssertionError):
        return 0


def next_step() -> None:
    """Begin the next step: calls are counted anew."""
    global _step
    _step += 1
    _calls.clear()


def install() -> None:
    """Put the shared numbers in the place of torch's functions."""
    import torch

    def tensor(values: Any, options: dict[str, Any], like: Any = None) -> Any:
        dtype = options.get("dtype") or (like.dtype if like is not None else None)
        device = options.get("device") or (like.device if like is not None else None)
        made = torch.tensor(values)
        if dtype is not None or device is not None:
            made = made.to(device=device, dtype=dtype)
        return made

    def size(shape: tuple[Any, ...]) -> tuple[int, ...]:
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return tuple(int(n) for n in given)

    def randn(*shape: Any, **options: Any) -> Any:
        return tensor(draw("randn").standard_normal(size(shape)).astype(np.float32), options)

    def randn_like(like: Any, **options: Any) -> Any:
        values = draw("randn").standard_normal(tuple(like.shape)).astype(np.float32)
        return tensor(values, options, like)

    def rand(*shape: Any, **options: Any) -> Any:
        return tensor(draw("rand").random_sample(size(shape)).astype(np.float32), options)

    def randint(low: int, high: Any, shape: Any = None, **options: Any) -> Any:
        if shape is None:
            low, high, shape = 0, low, high
        return tensor(draw("randint").randint(int(low), int(high), size((shape,))), options)

    def dropout(values: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0.0:
            return values
        kept = draw("dropout").random_sample(tuple(values.shape)) >= p
        mask = tensor((kept / (1.0 - p)).astype(np.float32), {}, values)
        return values.mul_(mask) if inplace else values * mask

    torch.randn, torch.randn_like, torch.rand, torch.randint = randn, randn_like, rand, randint
    if not recomputes():
        torch.nn.functional.dropout = dropout


def recomputes() -> bool:
    """Return whether this run computes blocks again in the backward pass."""
    try:
        from megatron.training import get_args

        return getattr(get_args(), "recompute_granularity", None) is not None
    except (ImportError, AssertionError):
        return True
