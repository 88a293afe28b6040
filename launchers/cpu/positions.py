"""Patches of a latent video, and where they are: rotary tables and rows of learned positions.

Constant tables are made in NumPy at float64: MindSpore's exp on cpu is off by up to 1e-5.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

Grid = tuple[int, ...]
BASE = 10000.0


def grid_of(latents: Grid, patch: Grid, largest: Grid) -> Grid:
    """Return the grid of patches of *latents* (frames, height, width), checked."""
    grid = tuple(size // step for size, step in zip(latents, patch, strict=True))
    if any(size % step for size, step in zip(latents, patch, strict=True)):
        raise ValueError(f"latents {latents} can't be cut into patches {patch}")
    if any(size > limit for size, limit in zip(grid, largest, strict=True)):
        raise ValueError(f"a grid of {grid} patches is larger than input_size allows: {largest}")
    return grid


def patches(latents, patch: Grid):
    """Return [batch, tokens, channels * patch volume] of [batch, channels, frames, height, width].

    One axis at a time, since MindSpore's transpose knows no more than 7 of them.
    """
    batch, channels, frames, height, width = latents.shape
    t, h, w = patch
    cut = latents.reshape(batch, channels * frames, height // h, h, width // w, w)
    cut = cut.permute(0, 2, 4, 1, 3, 5)  # batch, rows, columns, channels * frames, h, w
    area = (height // h) * (width // w)
    cut = cut.reshape(batch, area, channels, frames // t, t, h * w).permute(0, 3, 1, 2, 4, 5)
    return cut.reshape(batch, (frames // t) * area, channels * t * h * w)


def unpatched(tokens, grid: Grid, patch: Grid, channels: int):
    """Return [batch, channels, frames, height, width]: the inverse of ``patches``."""
    batch = tokens.shape[0]
    (frames, rows, columns), (t, h, w) = grid, patch
    cut = tokens.reshape(batch, frames, rows * columns, channels, t, h * w)
    cut = cut.permute(0, 2, 3, 1, 4, 5).reshape(batch, rows, columns, channels * frames * t, h, w)
    cut = cut.permute(0, 3, 1, 4, 2, 5)
    return cut.reshape(batch, channels, frames * t, rows * h, columns * w)


def sinusoids(places: np.ndarray, width: int) -> np.ndarray:
    """Return float32 [places, width]: cosines, then sines, of falling frequencies."""
    half = width // 2
    frequencies = BASE ** (-np.arange(half, dtype=np.float64) / half)
    angles = np.asarray(places, np.float64)[:, None] * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@lru_cache(maxsize=8)
def rotary_tables(
    grid: Grid, head_dim: int, stretch: tuple[float, ...], text: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines, float32 [text + video tokens, head_dim]; text is not turned.

    A quarter of the pairs turns with time, three eighths each with height and width; *stretch* is
    MindSpeed-MM's ``interpolation_scale``.
    """
    places = np.stack(np.meshgrid(*map(np.arange, grid), indexing="ij"), axis=-1).reshape(-1, 3)
    angles = []
    for axis, dims in enumerate((head_dim // 4, head_dim * 3 // 8, head_dim * 3 // 8)):
        frequencies = BASE ** (-np.arange(0, dims, 2, dtype=np.float64) / dims)
        angles.append(places[:, axis : axis + 1] / stretch[axis] * frequencies)
    half = np.concatenate(angles, axis=1)
    half = np.concatenate([np.zeros((text, half.shape[1])), half], axis=0)
    both = np.concatenate([half, half], axis=1)
    return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def rotated(heads, cosines, sines):
    """Return *heads* [batch, heads, tokens, head_dim] turned by the tables."""
    half = heads.shape[-1] // 2
    turned = torch.cat([-heads[..., half:], heads[..., :half]], dim=-1)
    return heads * cosines + turned * sines


def table_rows(grid: Grid, largest: Grid, text: int) -> np.ndarray:
    """Return the rows of the table of learned positions that belong to this grid's sequence."""
    rows = np.arange(int(np.prod(largest))).reshape(largest)
    video = rows[: grid[0], : grid[1], : grid[2]].reshape(-1)
    return np.concatenate([np.arange(text), text + video]).astype(np.int64)
