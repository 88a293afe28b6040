"""Qwen2.5-VL on cpu: its network, and what it answers to a question about a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from cpu import dataset, picture_set, pictures, tokenizer
from cpu.configuration import Configuration
from cpu.decoder import PLACE, Decoder
from cpu.generation import Generated, Rules, generate
from cpu.internvl3 import image_rows
from cpu.qwen_vision import PLACE as VISION
from cpu.qwen_vision import Merger, Picture, QwenVision
from cpu.samples import root

SYSTEM = "You are a helpful assistant."


class Network(nn.Module):
    """Vision encoder, merger and text decoder."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        base = float(configuration.read(f"{PLACE}/rope_theta"))
        self.vision_encoder = QwenVision(configuration)
        self.text_decoder = Decoder(configuration, base)
        vision, text = self.vision_encoder.sizes.width, self.text_decoder.sizes.width
        told = configuration.read(f"{VISION}/llm_hidden_size", text)
        if told != text:
            raise ValueError(f"{VISION}/llm_hidden_size is {told}, not {text}")
        self.projector = Merger(configuration, vision, self.vision_encoder.merge, text)
        self.sections = [int(part) for part in configuration.read(f"{PLACE}/mrope_section")]
        half = self.text_decoder.sizes.head_dim // 2
        if sum(self.sections) != half:
            raise ValueError(f"mrope_section {self.sections} must add up to {half}")

    def angles(self, places: np.ndarray) -> np.ndarray:
        """Return [tokens, head_dim / 2] of *places* [tokens, 3]: each section turns by one axis."""
        axis = np.repeat(np.arange(3), self.sections)
        return places[:, axis] * self.text_decoder.frequencies

    def embedded(self, ids: list[int], image: int, picture: Picture):
        """Return [1, tokens, width]: the picture's tokens in the places of the id *image*."""
        images = self.projector(self.vision_encoder(picture))
        rows = image_rows(np.array([ids]), image, int(images.shape[0]))
        return self.text_decoder.embedded(images, rows)


def places_of(ids: list[int], image: int, grid: tuple[int, int]) -> np.ndarray:
    """Return time, row and column of each token: text goes on by one, a picture lies at one time.

    Behind the picture text goes on after the largest place so far.
    """
    places, following, pixel = [], 0, 0
    for number in ids:
        if number == image:
            row, column = divmod(pixel, grid[1])
            places.append((following, following + row, following + column))
            pixel += 1
            if pixel == grid[0] * grid[1]:
                following += max(grid)
        else:
            places.append((following,) * 3)
            following += 1
    return np.array(places)


class QwenVL:
    """The network with one picture and one question."""

    def __init__(self, configuration: Configuration, steps: int | None) -> None:
        self.network = Network(configuration)
        self.rules = Rules(configuration, steps)
        read = configuration.read
        vocabulary = self.network.text_decoder.vocabulary
        self.image = tokenizer.special(
            "img_context_token_id", int(read("/model/img_context_token_id")), vocabulary
        )
        start = int(read("/model/generation_config/vision_start_token_id"))
        told = int(read("/model/generation_config/image_token_id"))
        if told != self.image:
            raise ValueError(f"image_token_id {told} is not img_context_token_id {self.image}")
        vision = self.network.vision_encoder
        self.path = located(str(read("/model/image_path")))
        limits = int(read("/model/min_pixels")), int(read("/model/max_pixels"))
        self.picture = Picture(pictures.array(self.path), vision, *limits)
        self.grid = self.picture.merged(vision.merge)
        self.question = str(read("/model/prompts"))
        seen = [start, *[self.image] * (self.grid[0] * self.grid[1]), tokenizer.IMAGE_END]
        self.prompt = [
            *tokenizer.turn("system", tokenizer.encoded(SYSTEM)),
            *tokenizer.turn("user", seen + tokenizer.encoded(self.question)),
            tokenizer.IM_START,
            *tokenizer.encoded("assistant\n"),
        ]
        self._caches = None

    def advance(self, ids: list[int], new: int) -> np.ndarray:
        """Return the logits of the token behind *ids*, of which the last *new* are not cached."""
        decoder = self.network.text_decoder
        places = places_of(ids, self.image, self.grid)[-new:]
        if new == len(ids):
            tokens, caches = self.network.embedded(ids, self.image, self.picture), None
        else:
            rows = np.array([ids[-new:]], dtype=np.int64)
            tokens, caches = decoder.embedded(None, rows), self._caches
        hidden, self._caches = decoder.hidden(tokens, self.network.angles(places), caches)
        return decoder.head(hidden[:, -1]).detach().numpy().reshape(-1)

    def answer(self) -> Generated:
        """Return what the network says to the question."""
        with torch.no_grad():
            return generate(self.rules, self.prompt, self.advance)


def located(name: str) -> Path:
    """Return the file of the picture *name*; the project's own set is written when asked for."""
    start = root(name)
    if not Path(name).is_absolute() and not (start / name).exists():
        dataset.ensure(start / Path(name).parts[0], picture_set.write)
    return start / name
