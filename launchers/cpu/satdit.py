"""A small SAT-DiT, the network of CogVideoX, from MindSpeed-MM's ``predictor`` keys.

Video patches and text tokens run through one sequence; a time embedding modulates the layer norms,
separately for text and video. Written out-of-place: mindtorch on cpu does not write through views.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cpu import positions
from cpu.configuration import Configuration
from cpu.feed_forward import FeedForward
from cpu.randomness import Draws

NORM_TYPES = ("qk_ln", "ada_norm_single")
OUT_EPS = 1e-6
"""MindSpeed-MM norms the output twice; the second norm (norm_out) has an eps of its own."""


class Shape:
    """What the ``predictor`` keys say about the network."""

    def __init__(self, configuration: Configuration) -> None:
        def read(key, *default):
            return configuration.read(f"/model/predictor/{key}", *default)

        self.layers = int(read("num_layers"))
        self.heads = int(read("num_heads"))
        self.head_dim = int(read("head_dim"))
        self.width = self.heads * self.head_dim
        self.channels = int(read("in_channels"))
        self.out_channels = int(read("out_channels"))
        self.patch = tuple(int(size) for size in read("patch_size"))
        self.dropout = float(read("dropout", 0.0))
        self.attention_bias = bool(read("attention_bias", False))
        self.activation = str(read("activation_fn", "geglu"))
        self.norm_type = str(read("norm_type", "qk_ln"))
        self.affine = bool(read("norm_elementwise_affine", True))
        self.eps = float(read("norm_eps", 1e-5))
        self.time_width = int(read("time_embed_dim"))
        self.text_length = int(read("text_length"))
        self.text_width = int(read("text_hidden_size"))
        self.joint = bool(read("concat_text_embed", True))
        self.rotary = bool(read("use_rope", True))
        self.stretch = tuple(float(scale) for scale in read("interpolation_scale", [1.0] * 3))
        sizes = [int(size) for size in read("input_size")]
        self.grid = tuple(size // patch for size, patch in zip(sizes, self.patch, strict=True))
        if self.norm_type not in NORM_TYPES:
            raise ValueError(f"norm_type must be one of {', '.join(NORM_TYPES)}: {self.norm_type}")
        if self.head_dim % 16 and self.rotary:
            raise ValueError(
                f"head_dim must be a multiple of 16 for 3D RoPE, found {self.head_dim}"
            )
        if self.channels != self.out_channels:
            raise ValueError(f"in_channels {self.channels} != out_channels {self.out_channels}")


def norm(width: int, shape: Shape) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=shape.eps, elementwise_affine=shape.affine)


def dropped(tokens, draws: Draws | None, name: str, probability: float):
    """Return *tokens* with a share of them at zero, by a mask that both stacks get."""
    mask = None if draws is None else draws.kept(name, tuple(tokens.shape), probability)
    return tokens if mask is None else tokens * torch.tensor(mask)


class Attention(nn.Module):
    """Self-attention over the whole sequence; rotary positions on its video tokens."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.q = nn.Linear(shape.width, shape.width, bias=shape.attention_bias)
        self.k = nn.Linear(shape.width, shape.width, bias=shape.attention_bias)
        self.v = nn.Linear(shape.width, shape.width, bias=shape.attention_bias)
        self.out = nn.Linear(shape.width, shape.width)
        if shape.norm_type == "qk_ln":
            self.q_norm = norm(shape.head_dim, shape)
            self.k_norm = norm(shape.head_dim, shape)

    def split(self, tokens):
        batch, count, _ = tokens.shape
        heads = tokens.reshape(batch, count, self.shape.heads, self.shape.head_dim)
        return heads.permute(0, 2, 1, 3)

    def forward(self, tokens, rotation):
        query, key, value = (self.split(part(tokens)) for part in (self.q, self.k, self.v))
        if self.shape.norm_type == "qk_ln":
            query, key = self.q_norm(query), self.k_norm(key)
        if rotation is not None:
            query = positions.rotated(query, *rotation)
            key = positions.rotated(key, *rotation)
        scores = torch.matmul(query, key.permute(0, 1, 3, 2)) * self.shape.head_dim**-0.5
        mixed = torch.matmul(torch.softmax(scores, dim=-1), value).permute(0, 2, 1, 3)
        return self.out(mixed.reshape(tokens.shape))


class Block(nn.Module):
    """Attention and feed-forward, each modulated by the time embedding and gated."""

    def __init__(self, shape: Shape, name: str) -> None:
        super().__init__()
        self.name = name
        self.shape = shape
        self.streams = 2 if shape.joint else 1
        chunks = 6 * self.streams
        if shape.norm_type == "ada_norm_single":
            self.scale_shift_table = nn.Parameter(torch.zeros(chunks, shape.width))
        else:
            self.modulation = nn.Linear(shape.time_width, chunks * shape.width)
        self.norm1 = norm(shape.width, shape)
        self.attention = Attention(shape)
        self.norm2 = norm(shape.width, shape)
        self.feed_forward = FeedForward(shape.width, shape.activation)

    def modulations(self, time, shared):
        """Return six tensors per stream (video, then text), each [batch, 1, width]."""
        if shared is None:
            values = self.modulation(time).reshape(time.shape[0], -1, self.shape.width)
        else:
            values = shared + self.scale_shift_table.reshape(1, -1, self.shape.width)
        return [values[:, index : index + 1] for index in range(6 * self.streams)]

    def spread(self, parts, index: int, text: int, video: int):
        """Return modulation *index* for each token of the sequence, text first."""
        batch = parts[0].shape[0]
        tokens = parts[index].expand(batch, video, self.shape.width)
        if self.streams == 1:
            return tokens
        return torch.cat([parts[6 + index].expand(batch, text, self.shape.width), tokens], dim=1)

    def forward(self, tokens, text: int, time, shared, rotation, draws):
        parts = self.modulations(time, shared)
        video = tokens.shape[1] - text
        shift1, scale1, gate1, shift2, scale2, gate2 = (
            self.spread(parts, index, text, video) for index in range(6)
        )
        mixed = self.attention(self.norm1(tokens) * (1.0 + scale1) + shift1, rotation)
        mixed = dropped(mixed, draws, f"{self.name}.attention", self.shape.dropout)
        tokens = tokens + gate1 * mixed
        fed = self.feed_forward(self.norm2(tokens) * (1.0 + scale2) + shift2)
        fed = dropped(fed, draws, f"{self.name}.feed_forward", self.shape.dropout)
        return tokens + gate2 * fed


class SatDiT(nn.Module):
    """Predicts the noise target of noised latents, given time steps and text embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        volume = int(np.prod(shape.patch))
        self.patch_embed = nn.Linear(shape.channels * volume, shape.width)
        self.caption_projection = nn.Linear(shape.text_width, shape.width)
        self.time_in = nn.Linear(shape.width, shape.time_width)
        self.time_out = nn.Linear(shape.time_width, shape.time_width)
        if not shape.joint:
            self.text_to_time = nn.Linear(shape.width, shape.time_width)
        if not shape.rotary:
            rows = (shape.text_length if shape.joint else 0) + int(np.prod(shape.grid))
            self.position_table = nn.Parameter(torch.zeros(rows, shape.width))
        if shape.norm_type == "ada_norm_single":
            chunks = 12 if shape.joint else 6
            self.shared_modulation = nn.Linear(shape.time_width, chunks * shape.width)
        self.blocks = nn.ModuleList(
            [Block(shape, f"blocks.{index}") for index in range(shape.layers)]
        )
        self.norm_final = norm(shape.width, shape)
        self.modulation_final = nn.Linear(shape.time_width, 2 * shape.width)
        self.norm_out = nn.LayerNorm(shape.width, eps=OUT_EPS, elementwise_affine=shape.affine)
        self.out = nn.Linear(shape.width, shape.out_channels * volume)

    def forward(self, latents, time_table, text, draws: Draws | None = None):
        """Return a prediction of the shape of *latents* [batch, channels, frames, height, width].

        *time_table* holds the sinusoids of the time steps, *text* the embedded captions.
        """
        shape = self.shape
        grid = positions.grid_of(tuple(latents.shape[2:]), shape.patch, shape.grid)
        tokens = self.patch_embed(positions.patches(latents, shape.patch))
        silu = nn.functional.silu
        captions = self.caption_projection(text)
        time = self.time_out(silu(self.time_in(time_table)))
        count = captions.shape[1] if shape.joint else 0
        if shape.joint:
            tokens = torch.cat([captions, tokens], dim=1)
        else:
            time = time + self.text_to_time(captions.mean(dim=1))
        rotation = None
        if shape.rotary:
            tables = positions.rotary_tables(grid, shape.head_dim, shape.stretch, count)
            rotation = tuple(torch.tensor(table) for table in tables)
        else:
            rows = positions.table_rows(grid, shape.grid, count)
            tokens = tokens + self.position_table[torch.tensor(rows)]
        time = silu(time)
        shared = None
        if shape.norm_type == "ada_norm_single":
            shared = self.shared_modulation(time).reshape(time.shape[0], -1, shape.width)
        for block in self.blocks:
            tokens = block(tokens, count, time, shared, rotation, draws)
        shift, scale = torch.split(self.modulation_final(time), shape.width, dim=-1)
        video = self.norm_out(self.norm_final(tokens)[:, count:])
        video = video * (1.0 + scale.unsqueeze(1)) + shift.unsqueeze(1)
        return positions.unpatched(self.out(video), grid, shape.patch, shape.out_channels)
