"""Qwen2.5-VL's vision encoder and merger: a picture of any size to tokens of the language model."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from cpu import pictures
from cpu.configuration import Configuration
from cpu.transformer import HIDDEN, Layer, Sizes, activated, frequencies, norm, tables

PLACE = "/model/image_encoder/vision_encoder"
PROJECTOR = "/model/image_encoder/vision_projector"
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""The colours of Qwen2-VL's image processor."""
ROTARY_BASE = 10000.0
MOST_NARROW = 200
"""The image processor refuses a picture whose sides differ by more than this factor."""


def sizes_for(height: int, width: int, unit: int, least: int, most: int) -> tuple[int, int]:
    """Return the size, multiples of *unit*, of *least* to *most* pixels, of about the same shape.

    The published image processor's rule.
    """
    if max(height, width) > MOST_NARROW * min(height, width):
        raise ValueError(f"a picture of {height}x{width} is too narrow")
    new = [round(side / unit) * unit for side in (height, width)]
    if new[0] * new[1] > most:
        shrink = math.sqrt(height * width / most)
        new = [max(unit, math.floor(side / shrink / unit) * unit) for side in (height, width)]
    elif new[0] * new[1] < least:
        stretch = math.sqrt(least / (height * width))
        new = [math.ceil(side * stretch / unit) * unit for side in (height, width)]
    return new[0], new[1]


class Picture:
    """One picture as the vision encoder takes it: patches, in the order of merged groups."""

    def __init__(self, pixels: np.ndarray, vision: QwenVision, least: int, most: int) -> None:
        patch, merge, frames = vision.patch, vision.merge, vision.frames
        size = sizes_for(*pixels.shape[:2], patch * merge, least, most)
        colours = pictures.normalized(pictures.resized(pixels, *size), MEAN, STD)
        self.rows, self.columns = size[0] // patch, size[1] // patch
        cut = colours.reshape(
            3, self.rows // merge, merge, patch, self.columns // merge, merge, patch
        )
        cut = cut.transpose(1, 4, 2, 5, 0, 3, 6).reshape(-1, 3, 1, patch, patch)
        # A picture is a video of equal frames.
        self.patches = np.repeat(cut, frames, axis=2).reshape(len(cut), -1)
        grid = np.stack(np.indices((self.rows, self.columns)), axis=-1)
        grid = grid.reshape(self.rows // merge, merge, self.columns // merge, merge, 2)
        self.places = grid.transpose(0, 2, 1, 3, 4).reshape(-1, 2)

    def merged(self, merge: int) -> tuple[int, int]:
        """Return rows and columns of merged tokens."""
        return self.rows // merge, self.columns // merge


class Merger(nn.Module):
    """Norm, neighbours put into one token, two linear layers into the text decoder's width."""

    def __init__(self, configuration: Configuration, vision: int, merge: int, text: int) -> None:
        super().__init__()

        def read(key, *default):
            return configuration.read(f"{PROJECTOR}/{key}", *default)

        ties = ((f"{PROJECTOR}/input_size", vision), (f"{PROJECTOR}/hidden_size", text))
        for pointer, expected in ties:
            if configuration.read(pointer) != expected:
                raise ValueError(f"{pointer} is {configuration.read(pointer)}, not {expected}")
        self.wide = vision * merge**2
        middle, bias = int(read("ffn_hidden_size", self.wide)), bool(read("add_bias_linear", True))
        self.activation = str(read("activation_func", "gelu"))
        self.gated = bool(read("gated_linear_unit", False))
        self.norm = norm(
            str(read("normalization", "RMSNorm")), vision, float(read("layernorm_epsilon", 1e-6))
        )
        self.first = nn.Linear(self.wide, middle, bias=bias)
        if self.gated:
            self.gate = nn.Linear(self.wide, middle, bias=bias)
        self.second = nn.Linear(middle, text, bias=bias)

    def forward(self, tokens):
        grouped = self.norm(tokens).reshape(-1, self.wide)
        middle = self.first(grouped)
        if self.gated:
            return self.second(activated(self.gate(grouped), self.activation) * middle)
        return self.second(activated(middle, self.activation))


class QwenVision(nn.Module):
    """Layers that look at windows, and some that look at the whole picture."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()

        def read(key, *default):
            return configuration.read(f"{PLACE}/{key}", *default)

        self.sizes = sizes = Sizes.read(configuration, PLACE, bias=True)
        self.patch, self.merge = int(read("patch_size")), int(read("spatial_merge_size"))
        self.frames = int(read("temporal_patch_size"))
        window = read("window_attn_size", None)
        self.whole = read("fullatt_block_indexes", None)
        if window is not None and self.whole is None:
            raise ValueError("fullatt_block_indexes is needed with window_attn_size")
        self.window = None if window is None else int(window) // self.patch // self.merge
        if self.window == 0:
            raise ValueError(f"window_attn_size {window} is smaller than a merged patch")
        if sizes.head_dim % 4:
            raise ValueError(f"{PLACE}: a head of {sizes.head_dim} can't be turned in two ways")
        channels = int(read("in_channels", 3))
        self.patch_embed = nn.Linear(
            channels * self.frames * self.patch**2, sizes.width, bias=False
        )
        self.layers = nn.ModuleList(
            [Layer(sizes, f"vision_encoder.{index}") for index in range(sizes.layers)]
        )

    def mask(self, picture: Picture):
        """Return what keeps each patch to its window, [patches, patches]; None without windows."""
        if self.window is None:
            return None
        windows = picture.places // (self.merge * self.window)
        same = (windows[:, None] == windows[None, :]).all(axis=-1)
        return torch.tensor(np.where(same, 0.0, HIDDEN).astype(np.float32))

    def forward(self, picture: Picture):
        """Return [1, patches, width]."""
        turning = frequencies(self.sizes.head_dim // 2, ROTARY_BASE)
        angles = (picture.places[:, :, None] * turning).reshape(len(picture.places), -1)
        rotation = tables(angles)
        mask = self.mask(picture)
        tokens = self.patch_embed(torch.tensor(picture.patches)).unsqueeze(0)
        for index, layer in enumerate(self.layers):
            seen = None if mask is None or index in self.whole else mask
            tokens, _ = layer(tokens, mask=seen, rotation=rotation)
        return tokens
