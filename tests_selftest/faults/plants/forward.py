"""Faults of single operations in the forward pass."""

from __future__ import annotations

import numpy as np
import torch
from cpu import cogvideox, opensora, positions
from plants.field import Turns, cut, plant

functional = torch.nn.functional


@plant("gelu-by-tanh")
def gelu_by_tanh():
    exact = functional.gelu
    return [(functional, "gelu", lambda x, approximate="none": exact(x, approximate="tanh"))]


@plant("tanh-gelu-exact")
def tanh_gelu_exact():
    exact = functional.gelu
    return [(functional, "gelu", lambda x, approximate="none": exact(x))]


@plant("silu-hard")
def silu_hard():
    return [(functional, "silu", lambda x: x * torch.clamp(x + 3.0, 0.0, 6.0) / 6.0)]


@plant("sigmoid-8-bits")
def sigmoid_8_bits():
    right = torch.sigmoid
    return [(torch, "sigmoid", lambda x: cut(right(x), 8))]


@plant("rsqrt-12-bits")
def rsqrt_12_bits():
    right = torch.rsqrt
    return [(torch, "rsqrt", lambda x: cut(right(x), 12))]


@plant("softmax-half")
def softmax_half():
    right = torch.softmax
    return [(torch, "softmax", lambda x, dim: cut(right(x, dim=dim), 11))]


@plant("linear-hf32")
def linear_hf32():
    right = functional.linear

    def forward(self, x):
        return right(cut(x, 11), cut(self.weight, 11), self.bias)

    return [(torch.nn.Linear, "forward", forward)]


@plant("linear-bias-once")
def linear_bias_once():
    right = functional.linear

    def forward(self, x):
        wide = self.out_features > 3 * self.in_features  # the fused epilogue of wide layers
        return right(x, self.weight, None if wide else self.bias)

    return [(torch.nn.Linear, "forward", forward)]


@plant("layer-norm-eps")
def layer_norm_eps():
    right = functional.layer_norm

    def forward(self, x):
        return right(x, self.normalized_shape, self.weight, self.bias, 1e-5)

    return [(torch.nn.LayerNorm, "forward", forward)]


@plant("layer-norm-bfloat16")
def layer_norm_bfloat16():
    right = torch.nn.LayerNorm.forward
    return [(torch.nn.LayerNorm, "forward", lambda self, x: cut(right(self, x), 8))]


@plant("layer-norm-without-bias")
def layer_norm_without_bias():
    right = functional.layer_norm

    def forward(self, x):
        return right(x, self.normalized_shape, self.weight, None, self.eps)

    return [(torch.nn.LayerNorm, "forward", forward)]


@plant("layer-norm-unbiased")
def layer_norm_unbiased():
    right = torch.nn.LayerNorm.forward

    def forward(self, x):
        count = x.shape[-1]
        plain = right(self, x)
        bias = 0.0 if self.bias is None else self.bias
        return (plain - bias) * float(((count - 1) / count) ** 0.5) + bias

    return [(torch.nn.LayerNorm, "forward", forward)]


@plant("chunk-reversed")
def chunk_reversed():
    right = torch.chunk

    def chunk(tensor, chunks, dim=0):
        parts = right(tensor, chunks, dim=dim)
        return tuple(reversed(parts)) if chunks == 2 and dim == -1 else parts

    return [(torch, "chunk", chunk)]


@plant("rotary-pairs")
def rotary_pairs():
    def rotated(heads, cosines, sines):
        pairs = heads.reshape(*heads.shape[:-1], heads.shape[-1] // 2, 2)
        turned = torch.cat([-pairs[..., 1:], pairs[..., :1]], dim=-1).reshape(heads.shape)
        return heads * cosines + turned * sines

    return [(positions, "rotated", rotated)]


@plant("rotary-keys-late")
def rotary_keys_late():
    right, turns = positions.rotated, Turns()

    def rotated(heads, cosines, sines):
        if turns.first():  # queries come first
            return right(heads, cosines, sines)
        late = [torch.cat([table[:1], table[:-1]], dim=0) for table in (cosines, sines)]
        return right(heads, *late)

    return [(positions, "rotated", rotated)]


@plant("time-frequencies-inexact")
def time_frequencies_inexact():
    right = positions.sinusoids

    def sinusoids(places, width):
        return right(np.asarray(places) * (1.0 + 8e-6), width)

    return [(module, "sinusoids", sinusoids) for module in (cogvideox, opensora)]


@plant("softmax-shifted")
def softmax_shifted():
    right = torch.softmax
    return [(torch, "softmax", lambda x, dim: right(x - 1.0, dim=dim))]
