"""Initial weights on npu: filled from NumPy, the same on both stacks, and proved by digests.

A weight's values belong to seed, full name, pipeline stage and global shape; a tensor parallel rank
takes its shard. They are drawn in blocks of rows, so that no rank holds a whole embedding in double
precision. Weights that come from files of their own (VAE, T5) are left alone.
"""

from __future__ import annotations

import hashlib
import math
import os
from typing import Any

import numpy as np
from cpu.randomness import generator

BLOCK = 1 << 22
"""Numbers of one block."""
STD = 0.02
PRETRAINED = ("ae.", "text_encoder.")


def rows(
    name: str, shape: tuple[int, ...], seed: int, start: int, stop: int
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return rows *start* to *stop* of the values with which the parameter *name* begins."""
    width = math.prod(shape[1:])
    size = max(1, BLOCK // max(1, width))
    blocks = []
    for number in range(start // size, -(-stop // size)):
        first, last = number * size, min((number + 1) * size, shape[0])
        drawn = generator("npu", seed, name, number).standard_normal((last - first, width))
        blocks.append(drawn[max(start, first) - first : min(stop, last) - first])
    values = np.concatenate(blocks) if blocks else np.zeros((0, width))
    if len(shape) > 1 or name.endswith("bias"):
        values *= STD
    else:
        values = 1.0 + STD * values
    return values.astype(np.float32).reshape((stop - start, *shape[1:]))


def initial(
    name: str, shape: tuple[int, ...], seed: int, dim: int = -1, part: int = 0, parts: int = 1
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return shard *part* of *parts* along *dim* (-1: all) of a parameter of global *shape*."""
    if not shape:
        return rows(name, (1,), seed, 0, 1).reshape(())
    if dim == 0:
        size = shape[0] // parts
        return rows(name, shape, seed, part * size, (part + 1) * size)
    whole = rows(name, shape, seed, 0, shape[0])
    return whole if dim < 0 else np.split(whole, parts, axis=dim)[part]


def ranks() -> tuple[int, int, int]:
    """Return tensor parallel rank and size, and the pipeline stage."""
    from megatron.core import mpu

    return (
        mpu.get_tensor_model_parallel_rank(),
        mpu.get_tensor_model_parallel_world_size(),
        mpu.get_pipeline_model_parallel_rank(),
    )


def parameters(network: Any) -> list[tuple[str, Any]]:
    """Return the parameters by their full names, without what wrappers put before them."""
    found = []
    for name, parameter in network.named_parameters():
        while name.startswith("module."):
            name = name[len("module.") :]
        found.append((name, parameter))
    return found


def fill(network: Any, seed: int) -> None:
    """Fill every parameter that has no file of its own."""
    import torch

    rank, size, stage = ranks()
    for name, parameter in parameters(network):
        if name.startswith(PRETRAINED):
            continue
        shape, dim, parts = [int(n) for n in parameter.shape], -1, 1
        if getattr(parameter, "tensor_model_parallel", False) and size > 1:
            dim, parts = int(getattr(parameter, "partition_dim", 0)), size
            shape[dim] *= size
        values = initial(f"stage{stage}.{name}", tuple(shape), seed, dim, rank, parts)
        with torch.no_grad():
            parameter.copy_(torch.tensor(values).to(parameter.device, parameter.dtype))


def moved(values: Any, digits: int, least: int, draw: np.random.RandomState) -> Any:
    """Return the float32 *values*, each one unit in the last of *digits* binary places up or down.

    *digits* behind the point and *least* exponent: those of the type that the values come from and
    go back to.
    """
    bits = np.frombuffer(draw.bytes(-(-values.size // 8)), dtype=np.uint8)
    up = np.unpackbits(bits)[: values.size].reshape(values.shape).astype(bool)
    exponent = np.where(values == 0, least, np.frexp(values)[1] - 1)
    unit = np.ldexp(np.float32(1.0), np.maximum(exponent, least) - digits)
    return values + np.where(up, unit, -unit)


def move(network: Any, seed: int, noise: int) -> None:
    """Move every weight by one unit in the last place of its type (docs/drift.md).

    The directions belong to seed, *noise* (the number of the noise run), full name, pipeline stage
    and tensor parallel shard, so that copies of a weight on several ranks move alike.
    """
    import torch

    rank, size, stage = ranks()
    types = {torch.bfloat16: (7, -126), torch.float16: (10, -14), torch.float32: (23, -126)}
    for name, parameter in parameters(network):
        if parameter.dtype not in types:
            continue
        sharded = getattr(parameter, "tensor_model_parallel", False) and size > 1
        draw = generator("npu noise", noise, seed, stage, name, rank if sharded else 0)
        flat = parameter.detach().float().cpu().numpy().reshape(-1)
        parts = [
            moved(flat[start : start + BLOCK], *types[parameter.dtype], draw)
            for start in range(0, flat.size, BLOCK)
        ]
        values = np.concatenate(parts).reshape(tuple(parameter.shape)) if parts else flat
        with torch.no_grad():
            parameter.copy_(torch.tensor(values).to(parameter.device, parameter.dtype))


def held(network: Any) -> dict[str, dict[str, Any]]:
    """Return type, shape and digest of every parameter of *network*.

    Digests are of the values as float32, so that NumPy needs no bfloat16; the type stands beside.
    """
    if os.environ.get("LMSV_WEIGHT_DIGESTS", "on") == "off":
        return {}
    found = {}
    for name, parameter in parameters(network):
        values = np.ascontiguousarray(parameter.detach().float().cpu().numpy())
        found[name] = {
            "dtype": str(parameter.dtype).rpartition(".")[2].lower(),
            "shape": [int(size) for size in parameter.shape],
            "digest": "sha256:" + hashlib.sha256(values.tobytes()).hexdigest(),
        }
    return found
