"""OpenSora 1.2's parts from their published definitions, in NumPy at float64, beside our own.

Runs in a stack's environment, and prints the relative difference of each part as JSON. There is no
library class of STDiT3 to compare with as a whole.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np  # type: ignore[import-not-found,unused-ignore]
import torch  # type: ignore[import-not-found,unused-ignore]
from cpu import flow, stdit3, video_decoder, weights  # type: ignore[import-not-found,unused-ignore]
from cpu.configuration import Configuration  # type: ignore[import-not-found,unused-ignore]

SEED = 7
FRAMES, ROWS, COLUMNS, TEXT = 5, 2, 3, 6
DOCUMENTS: dict[str, Any] = {
    "model": {
        "predictor": {
            "num_layers": 1,
            "hidden_size": 24,
            "num_heads": 3,
            "caption_channels": 10,
            "model_max_length": TEXT,
        },
        "diffusion": {"num_train_steps": 800, "cfg_scale": 3.0},
        "ae": {"shift": [-0.1, 0.34, 0.27, 0.98], "scale": [3.85, 2.32, 2.33, 3.06]},
    }
}
random = np.random.RandomState(SEED)
configuration = Configuration(DOCUMENTS)
shape = stdit3.Shape(configuration)
network = stdit3.STDiT3(shape)
weights.fill(network, SEED)
held = {name: value.detach().numpy().astype(float) for name, value in network.named_parameters()}


def normal(*size: int) -> Any:
    return random.standard_normal(size).astype(np.float32)


def apart(ours: Any, theirs: Any) -> float:
    ours = ours.detach().numpy() if isinstance(ours, torch.Tensor) else np.asarray(ours)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def linear(name: str, values: Any) -> Any:
    return values @ held[f"{name}.weight"].T + held[f"{name}.bias"]


def gelu_tanh(x: Any) -> Any:
    return x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def standardised(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def rms(name: str, x: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * held[f"{name}.weight"]


def rope(x: Any) -> Any:
    """The pairs (2k, 2k+1) of *x* [..., tokens, dim] are complex numbers, turned by place."""
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    theta = 1.0 / 10000 ** (np.arange(0, x.shape[-1], 2) / x.shape[-1])
    pairs = pairs * np.exp(1j * np.outer(np.arange(x.shape[-2]), theta))
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def softmax(x: Any) -> Any:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def heads(x: Any) -> Any:
    return np.swapaxes(x.reshape(*x.shape[:-1], shape.heads, shape.head_dim), -2, -3)


def attention(q: Any, k: Any, v: Any) -> Any:
    mixed = softmax(np.einsum("...qd,...kd->...qk", q, k) / shape.head_dim**0.5) @ v
    mixed = np.swapaxes(mixed, -2, -3)
    return mixed.reshape(*mixed.shape[:-2], shape.width)


def block(name: str, x: Any, text: Any, time: Any, temporal: bool) -> Any:
    """One block on *x* [batch, frames, area, width]; *text* without what is masked."""
    table = held[f"{name}.scale_shift_table"] + time  # [batch, 6, width]
    shift1, scale1, gate1, shift2, scale2, gate2 = (table[:, i, None, None] for i in range(6))
    seen = standardised(x) * (1 + scale1) + shift1
    if temporal:
        seen = np.swapaxes(seen, 1, 2)
    q, k, v = (heads(part) for part in np.split(linear(f"{name}.attn.qkv", seen), 3, -1))
    q, k = rms(f"{name}.attn.q_norm", q), rms(f"{name}.attn.k_norm", k)
    if temporal:
        q, k = rope(q), rope(k)
    mixed = linear(f"{name}.attn.proj", attention(q, k, v))
    x = x + gate1 * (np.swapaxes(mixed, 1, 2) if temporal else mixed)
    q = heads(linear(f"{name}.cross_attn.q_linear", x))
    k, v = np.split(linear(f"{name}.cross_attn.kv_linear", text)[:, None], 2, -1)
    x = x + linear(f"{name}.cross_attn.proj", attention(q, heads(k), heads(v)))
    seen = standardised(x) * (1 + scale2) + shift2
    wide = gelu_tanh(linear(f"{name}.mlp.fc1", seen))
    return x + gate2 * linear(f"{name}.mlp.fc2", wide)


def blocks() -> Iterator[tuple[str, float]]:
    x, text = normal(2, FRAMES, ROWS * COLUMNS, shape.width), normal(2, TEXT, shape.width)
    time, counted = normal(2, 6, shape.width), np.array([1, 1, 1, 1, 0, 0], np.float32)
    bias = network.text(torch.zeros(1, TEXT, shape.text_width), torch.tensor(counted))[1]
    rotation = tuple(map(torch.tensor, stdit3.turns(FRAMES, shape.head_dim)))
    for kind, module in (
        ("spatial", network.spatial_blocks),
        ("temporal", network.temporal_blocks),
    ):
        flat = torch.tensor(x.reshape(2, -1, shape.width))
        ours = module[0](flat, torch.tensor(text), bias, torch.tensor(time), FRAMES, rotation)
        theirs = block(f"{kind}_blocks.0", x.astype(float), text[:, :4], time, kind == "temporal")
        yield f"{kind} block", apart(ours, theirs.reshape(2, -1, shape.width))


def places() -> float:
    """The published table: sines and cosines of the column, then of the row, scaled to a square."""
    scale, base = 0.4, round((ROWS * COLUMNS) ** 0.5)
    frequency = 1.0 / 10000 ** (np.arange(0, 12, 2) / 12)
    theirs = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            across = column / scale * base / COLUMNS * frequency
            down = row / scale * base / ROWS * frequency
            theirs.append([*np.sin(across), *np.cos(across), *np.sin(down), *np.cos(down)])
    return apart(stdit3.place_table(ROWS, COLUMNS, 24, scale), np.array(theirs))


def final() -> float:
    x, time = normal(2, 4, shape.width), normal(2, shape.width)
    shift, scale = (held["final_layer.scale_shift_table"][i] + time[:, None] for i in range(2))
    theirs = linear("final_layer.linear", standardised(x) * (1 + scale) + shift)
    return apart(network.final_layer(torch.tensor(x), torch.tensor(time)), theirs)


def steps() -> Iterator[tuple[str, float]]:
    """With a velocity that is known, the flow's samples are known too."""
    scheme = flow.RectifiedFlow(configuration, steps=5)
    times = scheme.times(34, 256, 256)
    t, ratio = 1 - np.arange(5) / 5, (256 * 256 / 512**2 * 10) ** 0.5
    yield "time shift", apart(times, 800 * ratio * t / (1 + (ratio - 1) * t))
    start, prompt, nothing = normal(1, 4, 2, 2, 2), normal(1, 4, 2, 2, 2), normal(1, 4, 2, 2, 2)
    variance = normal(2, 4, 2, 2, 2)
    constant = np.concatenate([np.concatenate([prompt, nothing]), variance], axis=1)
    asked = []

    def predict(both: Any, time: float) -> Any:
        asked.append(time)
        return torch.tensor(constant)

    ours = scheme.sample(torch.tensor(start), times, predict, lambda step: None)
    guided = nothing + 3.0 * (prompt - nothing.astype(float))
    yield "guided flow", apart(ours, start + guided)  # the steps add up to 1, however long each is
    yield "times asked", apart(np.array(asked), times)


def geometry() -> float:
    """Chunks of 17 frames are 5 latents each, the rest a quarter rounded up; space is an eighth."""
    decoder = video_decoder.VideoDecoder(configuration)
    wanted = {1: 1, 16: 4, 17: 5, 20: 6, 34: 10, 51: 15, 102: 30}
    for frames, latents in wanted.items():
        assert decoder.latent_size(frames, 24, 40) == (latents, 3, 5), frames
        video = decoder(torch.zeros(4, latents, 3, 5), frames)
        assert tuple(video.shape) == (frames, 24, 40, 3), frames
    return 0.0


with torch.no_grad():
    found = dict([*blocks(), ("places", places()), ("final layer", final()), *steps()])
    found["geometry of the decoder"] = geometry()
json.dump(found, sys.stdout)
