"""The layers that the vision-language networks are made of, by Megatron's configuration keys.

Written out-of-place: mindtorch on cpu does not write through views.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from cpu import positions
from cpu.configuration import Configuration
from cpu.randomness import Draws
from cpu.satdit import dropped

HIDDEN = -1e30
"""Added to the score of a place that must not be seen."""


@dataclass(frozen=True)
class Sizes:
    """What Megatron's keys say about one stack of layers."""

    layers: int
    width: int
    ffn: int
    heads: int
    groups: int
    eps: float
    normalization: str
    activation: str
    gated: bool
    qkv_bias: bool
    bias: bool
    hidden_dropout: float
    attention_dropout: float

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @classmethod
    def read(cls, configuration: Configuration, place: str, *, bias: bool) -> Sizes:
        """Read the keys below *place*; *bias* is what holds without ``add_bias_linear``."""

        def read(key, *default):
            return configuration.read(f"{place}/{key}", *default)

        layers, width = int(read("num_layers")), int(read("hidden_size"))
        heads = int(read("num_attention_heads"))
        groups = int(read("num_query_groups", None) or heads)
        split = read("pipeline_num_layers", None)
        if width % heads or heads % groups:
            raise ValueError(
                f"{place}: hidden_size ({width}) must be a multiple of num_attention_heads "
                f"({heads}), and these of num_query_groups ({groups})"
            )
        if split is not None and len(split) != 1:
            raise ValueError(
                f"length of {place}/pipeline_num_layers must equal to "
                f"pipeline-model-parallel-size (1), found {split}"
            )
        if split is not None and sum(split) != layers:
            raise ValueError(f"{place}/pipeline_num_layers {split} must add up to {layers}")
        return cls(
            layers=layers,
            width=width,
            ffn=int(read("ffn_hidden_size", 4 * width)),
            heads=heads,
            groups=groups,
            eps=float(read("layernorm_epsilon", 1e-5)),
            normalization=str(read("normalization", "LayerNorm")),
            activation=str(read("activation_func", "gelu")),
            gated=bool(read("gated_linear_unit", False)),
            qkv_bias=bool(read("add_qkv_bias", True)),
            bias=bool(read("add_bias_linear", bias)),
            hidden_dropout=float(read("hidden_dropout", 0.0)),
            attention_dropout=float(read("attention_dropout", 0.0)),
        )


class RMSNorm(nn.Module):
    """Scales to a root mean square of one."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, tokens):
        square = (tokens * tokens).mean(dim=-1, keepdim=True)
        return tokens * torch.rsqrt(square + self.eps) * self.weight


def norm(normalization: str, width: int, eps: float) -> nn.Module:
    """Return the norm that ``normalization`` names."""
    if normalization == "RMSNorm":
        return RMSNorm(width, eps)
    if normalization == "LayerNorm":
        return nn.LayerNorm(width, eps=eps)
    raise ValueError(f"normalization {normalization!r} is none of LayerNorm, RMSNorm")


def activated(tokens, activation: str):
    """Return ``activation_func`` of *tokens*; as in MindSpeed-MM any other name means gelu."""
    if activation == "silu":
        return nn.functional.silu(tokens)
    if activation == "quick_gelu":
        return tokens * torch.sigmoid(tokens * 1.702)
    return nn.functional.gelu(tokens)


class Attention(nn.Module):
    """Attention in which each group of query heads shares one key and value head."""

    def __init__(self, sizes: Sizes, name: str, *, qk_norm: bool = False) -> None:
        super().__init__()
        self.name = name
        self.sizes = sizes
        narrow = sizes.groups * sizes.head_dim
        self.q = nn.Linear(sizes.width, sizes.width, bias=sizes.qkv_bias)
        self.k = nn.Linear(sizes.width, narrow, bias=sizes.qkv_bias)
        self.v = nn.Linear(sizes.width, narrow, bias=sizes.qkv_bias)
        self.out = nn.Linear(sizes.width, sizes.width, bias=sizes.bias)
        self.qk_norm = qk_norm
        if qk_norm:
            self.q_norm = RMSNorm(sizes.width, sizes.eps)
            self.k_norm = RMSNorm(narrow, sizes.eps)

    def split(self, tokens):
        batch, count, width = tokens.shape
        heads = tokens.reshape(batch, count, width // self.sizes.head_dim, self.sizes.head_dim)
        return heads.permute(0, 2, 1, 3)

    def forward(self, tokens, *, mask=None, rotation=None, cache=None, draws=None):
        """Return the mixed tokens, and keys and values with those of *cache* before them."""
        sizes = self.sizes
        batch, count, _ = tokens.shape
        query, key = self.q(tokens), self.k(tokens)
        if self.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key, value = self.split(query), self.split(key), self.split(self.v(tokens))
        if rotation is not None:
            query = positions.rotated(query, *rotation)
            key = positions.rotated(key, *rotation)
        if cache is not None:
            key = torch.cat([cache[0], key], dim=2)
            value = torch.cat([cache[1], value], dim=2)
        # The heads of a group lie side by side: they are rows of one multiplication.
        rows = sizes.heads // sizes.groups * count
        query = query.reshape(batch, sizes.groups, rows, sizes.head_dim)
        scores = torch.matmul(query, key.permute(0, 1, 3, 2)) * sizes.head_dim**-0.5
        seen = key.shape[2]
        if mask is not None:
            scores = scores.reshape(batch, sizes.heads, count, seen) + mask
        weights = torch.softmax(scores, dim=-1)
        weights = dropped(weights, draws, f"{self.name}.weights", sizes.attention_dropout)
        mixed = torch.matmul(weights.reshape(batch, sizes.groups, rows, seen), value)
        mixed = mixed.reshape(batch, sizes.heads, count, sizes.head_dim).permute(0, 2, 1, 3)
        return self.out(mixed.reshape(batch, count, sizes.width)), (key, value)


class MLP(nn.Module):
    """Two linear layers around the activation, with a gate beside the first where asked."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.widen = nn.Linear(sizes.width, sizes.ffn, bias=sizes.bias)
        if sizes.gated:
            self.gate = nn.Linear(sizes.width, sizes.ffn, bias=sizes.bias)
        self.narrow = nn.Linear(sizes.ffn, sizes.width, bias=sizes.bias)

    def forward(self, tokens):
        wide = self.widen(tokens)
        if self.sizes.gated:
            return self.narrow(activated(self.gate(tokens), self.sizes.activation) * wide)
        return self.narrow(activated(wide, self.sizes.activation))


class Layer(nn.Module):
    """Attention and MLP, each behind its norm and beside the residual."""

    def __init__(self, sizes: Sizes, name: str) -> None:
        super().__init__()
        self.name = name
        self.dropout = sizes.hidden_dropout
        self.norm1 = norm(sizes.normalization, sizes.width, sizes.eps)
        self.attention = Attention(sizes, f"{name}.attention")
        self.norm2 = norm(sizes.normalization, sizes.width, sizes.eps)
        self.mlp = MLP(sizes)

    def forward(self, tokens, *, mask=None, rotation=None, cache=None, draws: Draws | None = None):
        """Return the tokens, and the layer's keys and values."""
        mixed, held = self.attention(
            self.norm1(tokens), mask=mask, rotation=rotation, cache=cache, draws=draws
        )
        tokens = tokens + dropped(mixed, draws, f"{self.name}.mixed", self.dropout)
        fed = self.mlp(self.norm2(tokens))
        return tokens + dropped(fed, draws, f"{self.name}.fed", self.dropout), held


def tables(angles: np.ndarray):
    """Return cosines and sines, tensors [tokens, head_dim], of *angles* [tokens, head_dim / 2]."""
    both = np.concatenate([angles, angles], axis=-1)
    return torch.tensor(np.cos(both).astype(np.float32)), torch.tensor(
        np.sin(both).astype(np.float32)
    )


def frequencies(dims: int, base: float) -> np.ndarray:
    """Return the falling frequencies of *dims* / 2 pairs, float64."""
    return base ** (-np.arange(0, dims, 2, dtype=np.float64) / dims)


def causal(count: int, before: int = 0):
    """Return the mask [count, before + count]: a token sees itself and what is before it."""
    seen = np.arange(before + count)[None, :] <= before + np.arange(count)[:, None]
    return torch.tensor(np.where(seen, 0.0, HIDDEN).astype(np.float32))
