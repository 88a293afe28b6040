"""A small STDiT3, the network of OpenSora 1.2, from MindSpeed-MM's ``predictor`` keys.

Blocks that attend within a frame alternate with blocks that attend along time; a time embedding
modulates both through tables of scale and shift, and each looks at the text. Out-of-place, as
mindtorch on cpu does not write through views.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cpu import positions
from cpu.configuration import Configuration

EPS = 1e-6
FREQUENCIES = 256
"""Width of the sinusoids of times and frame rates, before they are embedded."""
HIDDEN = -1e9
"""Added to the score of a token that does not count."""


class Shape:
    """What the ``predictor`` keys say about the network."""

    def __init__(self, configuration: Configuration) -> None:
        def read(key, *default):
            return configuration.read(f"/model/predictor/{key}", *default)

        self.layers = int(read("num_layers", 28))
        self.width = int(read("hidden_size", 1152))
        self.heads = int(read("num_heads", 16))
        self.patch = tuple(int(size) for size in read("patch_size", [1, 2, 2]))
        self.channels = int(read("in_channels", 4))
        self.feed_forward = int(self.width * float(read("mlp_ratio", 4.0)))
        self.qk_norm = bool(read("qk_norm", True))
        self.square = float(read("input_sq_size", 512))
        self.text_width = int(read("caption_channels", 4096))
        self.text_length = int(read("model_max_length", 300))
        if self.width % self.heads:
            raise ValueError(f"hidden_size {self.width} is not divisible by num_heads {self.heads}")
        self.head_dim = self.width // self.heads
        if self.head_dim % 2:
            raise ValueError(f"RoPE turns pairs, a head has {self.head_dim} numbers")
        if self.width % 4:
            raise ValueError(f"hidden_size {self.width} can't be split over rows and columns")


def place_table(rows: int, columns: int, width: int, scale: float) -> np.ndarray:
    """Return the fixed embedding of places, float32 [rows * columns, *width*].

    Half of it tells the column, half the row. Places are measured as if the grid were a square of
    the same area, in units of *scale*.
    """
    base = round((rows * columns) ** 0.5)
    half = width // 2
    frequencies = positions.BASE ** (-np.arange(0, half, 2, dtype=np.float64) / half)
    sides = []
    for count in (rows, columns):
        angles = np.arange(count)[:, None] / scale * (base / count) * frequencies
        sides.append(np.concatenate([np.sin(angles), np.cos(angles)], axis=1))
    down, across = sides
    table = np.concatenate([np.tile(across, (rows, 1)), np.repeat(down, columns, axis=0)], axis=1)
    return table.astype(np.float32)


def turns(frames: int, head_dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines and sines of temporal RoPE, float32 [frames, head_dim], pairs side by side."""
    frequencies = positions.BASE ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    angles = np.repeat(np.arange(frames)[:, None] * frequencies, 2, axis=1)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def turned(heads, cosines, sines):
    """Return *heads* [batch, heads, tokens, head_dim] with each pair of numbers turned."""
    batch, count, tokens, dim = heads.shape
    pairs = heads.reshape(batch, count, tokens, dim // 2, 2)
    swapped = torch.cat([-pairs[..., 1:], pairs[..., :1]], dim=-1)
    return heads * cosines + swapped.reshape(batch, count, tokens, dim) * sines


def modulated(tokens, shift, scale):
    return tokens * (1.0 + scale) + shift


def attended(query, key, value, bias):
    """Return what *query* finds in *value*, [batch, tokens, width]; all [batch, heads, n, dim]."""
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.permute(0, 1, 3, 2))
    if bias is not None:
        scores = scores + bias
    mixed = torch.matmul(torch.softmax(scores, dim=-1), value).permute(0, 2, 1, 3)
    return mixed.reshape(mixed.shape[0], mixed.shape[1], -1)


class RMSNorm(nn.Module):
    """Divides by the root of the mean square, and weighs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, values):
        square = (values * values).mean(dim=-1, keepdim=True)
        return values * torch.rsqrt(square + EPS) * self.weight


class TwoLayers(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, hidden: int, out: int, activation: str) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, out)
        self.activation = activation

    def forward(self, values):
        wide = self.fc1(values)
        if self.activation == "silu":
            return self.fc2(nn.functional.silu(wide))
        return self.fc2(nn.functional.gelu(wide, approximate="tanh"))


class Attention(nn.Module):
    """Self-attention; queries and keys are normed, and turned where turns are given."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.proj = nn.Linear(shape.width, shape.width)
        if shape.qk_norm:
            self.q_norm = RMSNorm(shape.head_dim)
            self.k_norm = RMSNorm(shape.head_dim)

    def forward(self, tokens, rotation):
        parts = torch.chunk(self.qkv(tokens), 3, dim=-1)
        query, key, value = (split(part, self.shape) for part in parts)
        if self.shape.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        if rotation is not None:
            query, key = turned(query, *rotation), turned(key, *rotation)
        return self.proj(attended(query, key, value, None))


class CrossAttention(nn.Module):
    """Attention of video tokens to the text; *bias* hides what does not count."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q_linear = nn.Linear(shape.width, shape.width)
        self.kv_linear = nn.Linear(shape.width, 2 * shape.width)
        self.proj = nn.Linear(shape.width, shape.width)

    def forward(self, tokens, text, bias):
        query = split(self.q_linear(tokens), self.shape)
        key, value = (
            split(part, self.shape) for part in torch.chunk(self.kv_linear(text), 2, dim=-1)
        )
        return self.proj(attended(query, key, value, bias))


def split(tokens, shape: Shape):
    batch, count, _ = tokens.shape
    return tokens.reshape(batch, count, shape.heads, shape.head_dim).permute(0, 2, 1, 3)


class Block(nn.Module):
    """Self-attention within frames or along time, attention to the text, and feed-forward."""

    def __init__(self, shape: Shape, temporal: bool) -> None:
        super().__init__()
        self.temporal = temporal
        self.norm1 = nn.LayerNorm(shape.width, eps=EPS, elementwise_affine=False)
        self.attn = Attention(shape)
        self.cross_attn = CrossAttention(shape)
        self.norm2 = nn.LayerNorm(shape.width, eps=EPS, elementwise_affine=False)
        self.mlp = TwoLayers(shape.width, shape.feed_forward, shape.width, "gelu")
        self.scale_shift_table = nn.Parameter(torch.zeros(6, shape.width))

    def mixed(self, tokens, frames: int, rotation):
        batch, count, width = tokens.shape
        area = count // frames
        if not self.temporal:
            flat = tokens.reshape(batch * frames, area, width)
            return self.attn(flat, None).reshape(batch, count, width)
        flat = tokens.reshape(batch, frames, area, width).permute(0, 2, 1, 3)
        flat = self.attn(flat.reshape(batch * area, frames, width), rotation)
        flat = flat.reshape(batch, area, frames, width).permute(0, 2, 1, 3)
        return flat.reshape(batch, count, width)

    def forward(self, tokens, text, bias, time, frames: int, rotation):
        parts = torch.chunk(time + self.scale_shift_table, 6, dim=1)
        shift1, scale1, gate1, shift2, scale2, gate2 = parts
        seen = modulated(self.norm1(tokens), shift1, scale1)
        tokens = tokens + gate1 * self.mixed(seen, frames, rotation)
        tokens = tokens + self.cross_attn(tokens, text, bias)
        return tokens + gate2 * self.mlp(modulated(self.norm2(tokens), shift2, scale2))


class CaptionEmbedder(nn.Module):
    """Brings text to the network's width; ``y_embedding`` is the text that says nothing."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.y_proj = TwoLayers(shape.text_width, shape.width, shape.width, "gelu")
        self.y_embedding = nn.Parameter(torch.zeros(shape.text_length, shape.text_width))

    def forward(self, text):
        """Return the embedding of *text* [batch, tokens, width], and of nothing after it."""
        nothing = self.y_embedding.reshape(1, *self.y_embedding.shape)
        nothing = nothing.expand(text.shape[0], *self.y_embedding.shape)
        return self.y_proj(torch.cat([text, nothing], dim=0))


class FinalLayer(nn.Module):
    """Tokens to patches, modulated by the time embedding."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(width, eps=EPS, elementwise_affine=False)
        self.linear = nn.Linear(width, out)
        self.scale_shift_table = nn.Parameter(torch.zeros(2, width))

    def forward(self, tokens, time):
        shift, scale = torch.chunk(
            time.reshape(time.shape[0], 1, -1) + self.scale_shift_table, 2, dim=1
        )
        return self.linear(modulated(self.norm_final(tokens), shift, scale))


class STDiT3(nn.Module):
    """Predicts velocity and variance of noised latents, by time, frame rate and text."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, volume = shape.width, int(np.prod(shape.patch))
        self.x_embedder = nn.Linear(shape.channels * volume, width)
        self.t_embedder = TwoLayers(FREQUENCIES, width, width, "silu")
        self.fps_embedder = TwoLayers(FREQUENCIES, width, width, "silu")
        self.t_block = nn.Linear(width, 6 * width)
        self.y_embedder = CaptionEmbedder(shape)
        self.spatial_blocks = nn.ModuleList(Block(shape, False) for _ in range(shape.layers))
        self.temporal_blocks = nn.ModuleList(Block(shape, True) for _ in range(shape.layers))
        self.final_layer = FinalLayer(width, 2 * shape.channels * volume)

    def padded(self, latents):
        """Return *latents* with zeros at their ends, so that whole patches can be cut."""
        for axis, patch in enumerate(self.shape.patch, start=2):
            missing = -latents.shape[axis] % patch
            if missing:
                size = list(latents.shape)
                size[axis] = missing
                latents = torch.cat([latents, torch.zeros(*size)], dim=axis)
        return latents

    def text(self, embedded, counted):
        """Return the text as blocks need it: with and without the prompt, and a bias for it."""
        return self.y_embedder(embedded), (counted - 1.0).reshape(1, 1, 1, -1) * -HIDDEN

    def forward(self, latents, time, fps, text, bias, pixels: tuple[int, int]):
        """Return [batch, 2 * channels, frames, height, width].

        *time* and *fps* are sinusoids [batch, FREQUENCIES]; *pixels* is the size of the video.
        """
        shape, size = self.shape, latents.shape
        whole = self.padded(latents)
        grid = tuple(n // p for n, p in zip(whole.shape[2:], shape.patch, strict=True))
        scale = (pixels[0] * pixels[1]) ** 0.5 / shape.square
        places = place_table(grid[1], grid[2], shape.width, scale)
        rotation = tuple(torch.tensor(table) for table in turns(grid[0], shape.head_dim))
        time = self.t_embedder(time) + self.fps_embedder(fps)
        six = self.t_block(nn.functional.silu(time)).reshape(time.shape[0], 6, shape.width)
        tokens = self.x_embedder(positions.patches(whole, shape.patch))
        tokens = tokens + torch.tensor(np.tile(places, (grid[0], 1)))
        for spatial, temporal in zip(self.spatial_blocks, self.temporal_blocks, strict=True):
            tokens = spatial(tokens, text, bias, six, grid[0], rotation)
            tokens = temporal(tokens, text, bias, six, grid[0], rotation)
        out = self.final_layer(tokens, time)
        video = positions.unpatched(out, grid, shape.patch, 2 * shape.channels)
        return video[:, :, : size[2], : size[3], : size[4]]
