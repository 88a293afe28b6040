"""InternViT and its projector: tiles of a picture to tokens of the language model."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cpu.configuration import Configuration
from cpu.randomness import Draws
from cpu.satdit import dropped
from cpu.transformer import MLP, Attention, Sizes, norm

PLACE = "/model/image_encoder/vision_encoder"
PROJECTOR = "/model/image_encoder/vision_projector"
CHANNELS = 3
PROJECTOR_EPS = 1e-5


class VisionLayer(nn.Module):
    """A layer whose branches are scaled by channel, and left out at random (drop path)."""

    def __init__(self, sizes: Sizes, name: str, *, qk_norm: bool, drop_path: float) -> None:
        super().__init__()
        self.name = name
        self.drop_path = drop_path
        self.dropout = sizes.hidden_dropout
        self.norm1 = norm(sizes.normalization, sizes.width, sizes.eps)
        self.attention = Attention(sizes, f"{name}.attention", qk_norm=qk_norm)
        self.scale1 = nn.Parameter(torch.ones(sizes.width))
        self.norm2 = norm(sizes.normalization, sizes.width, sizes.eps)
        self.mlp = MLP(sizes)
        self.scale2 = nn.Parameter(torch.ones(sizes.width))

    def branch(self, tokens, name: str, draws: Draws | None):
        """Return *tokens* after dropout, with whole tiles left out by drop path."""
        tokens = dropped(tokens, draws, f"{self.name}.{name}", self.dropout)
        shape = (tokens.shape[0], 1, 1)
        mask = (
            None if draws is None else draws.kept(f"{self.name}.{name}.path", shape, self.drop_path)
        )
        return tokens if mask is None else tokens * torch.tensor(mask)

    def forward(self, tokens, draws: Draws | None = None):
        mixed, _ = self.attention(self.norm1(tokens), draws=draws)
        tokens = tokens + self.branch(mixed * self.scale1, "mixed", draws)
        fed = self.mlp(self.norm2(tokens)) * self.scale2
        return tokens + self.branch(fed, "fed", draws)


class InternViT(nn.Module):
    """Patches of a tile behind a class token, with learned positions."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()

        def read(key, *default):
            return configuration.read(f"{PLACE}/{key}", *default)

        sizes = Sizes.read(configuration, PLACE, bias=True)
        self.sizes = sizes
        self.patch, self.image = int(read("patch_size")), int(read("image_size"))
        if self.image % self.patch:
            raise ValueError(f"image_size {self.image} is no multiple of {self.patch}")
        self.side = self.image // self.patch
        self.frozen = bool(read("freeze", False))
        qk_norm = bool(read("qk_layernorm", False))
        rates = np.linspace(0.0, float(read("drop_path_rate", 0.0)), sizes.layers)
        self.patch_embed = nn.Linear(CHANNELS * self.patch**2, sizes.width)
        self.class_token = nn.Parameter(torch.zeros(1, 1, sizes.width))
        self.position_table = nn.Parameter(torch.zeros(1, self.side**2 + 1, sizes.width))
        self.layers = nn.ModuleList(
            [
                VisionLayer(
                    sizes, f"vision_encoder.{index}", qk_norm=qk_norm, drop_path=float(rate)
                )
                for index, rate in enumerate(rates)
            ]
        )

    def forward(self, tiles, draws: Draws | None = None):
        """Return [tiles, side, side, width] of *tiles* [tiles, channels, height, width]."""
        count, side = tiles.shape[0], self.side
        cut = tiles.reshape(count, CHANNELS, side, self.patch, side, self.patch)
        cut = cut.permute(0, 2, 4, 1, 3, 5).reshape(count, side**2, CHANNELS * self.patch**2)
        first = self.class_token.expand(count, 1, self.sizes.width)
        tokens = torch.cat([first, self.patch_embed(cut)], dim=1) + self.position_table
        for layer in self.layers:
            tokens = layer(tokens, draws)
        return tokens[:, 1:].reshape(count, side, side, self.sizes.width)


def shuffled(features, ratio: float, version: str):
    """Return [tiles, rows, columns, width / ratio squared]: neighbours put into one token.

    ``ps_version`` v1 leaves rows and columns exchanged.
    """
    count, rows, columns, width = features.shape
    few_rows, few_columns = int(rows * ratio), int(columns * ratio)
    cut = features.reshape(count, rows, few_columns, int(width / ratio)).permute(0, 2, 1, 3)
    cut = cut.reshape(count, few_columns, few_rows, int(width / ratio**2))
    return cut if version == "v1" else cut.permute(0, 2, 1, 3)


class Projector(nn.Module):
    """Pixel shuffle, norm and two linear layers into the width of the language model."""

    def __init__(self, configuration: Configuration, side: int, vision: int, text: int) -> None:
        super().__init__()
        self.ratio = float(configuration.read(f"{PLACE}/downsample_ratio"))
        self.version = str(configuration.read(f"{PLACE}/ps_version", "v2"))
        given = {
            f"{PROJECTOR}/downsample_ratio": self.ratio,
            f"{PROJECTOR}/vit_hidden_size": vision,
            f"{PROJECTOR}/llm_hidden_size": text,
        }
        for pointer, expected in given.items():
            if configuration.read(pointer) != expected:
                raise ValueError(f"{pointer} is {configuration.read(pointer)}, not {expected}")
        if side * self.ratio != int(side * self.ratio):
            raise ValueError(f"downsample_ratio {self.ratio} does not divide {side} patches a side")
        self.tokens = int(side * self.ratio) ** 2
        wide = vision * int(1 / self.ratio) ** 2
        self.norm = nn.LayerNorm(wide, eps=PROJECTOR_EPS)
        self.first = nn.Linear(wide, text)
        self.second = nn.Linear(text, text)

    def forward(self, features):
        """Return [all tokens, width], tile by tile."""
        cut = shuffled(features, self.ratio, self.version)
        tokens = cut.reshape(-1, cut.shape[-1])
        return self.second(nn.functional.gelu(self.first(self.norm(tokens))))
