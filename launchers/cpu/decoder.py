"""The text decoder of both vision-language networks: Qwen2's, by MindSpeed-MM's keys."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cpu.configuration import Configuration
from cpu.randomness import Draws
from cpu.satdit import dropped
from cpu.transformer import Layer, Sizes, causal, frequencies, norm, tables

PLACE = "/model/text_decoder"


class Decoder(nn.Module):
    """Token embeddings, causal layers with rotary positions, and the output layer."""

    def __init__(self, configuration: Configuration, base: float) -> None:
        super().__init__()
        self.sizes = sizes = Sizes.read(configuration, PLACE, bias=True)
        self.vocabulary = int(configuration.read(f"{PLACE}/vocab_size"))
        if sizes.head_dim % 2:
            raise ValueError(f"{PLACE}: a head of {sizes.head_dim} can't be turned by halves")
        self.frequencies = frequencies(sizes.head_dim, base)
        self.embeddings = nn.Parameter(torch.zeros(self.vocabulary, sizes.width))
        self.layers = nn.ModuleList(
            [Layer(sizes, f"text_decoder.{index}") for index in range(sizes.layers)]
        )
        self.norm = norm(sizes.normalization, sizes.width, sizes.eps)
        self.head = nn.Linear(sizes.width, self.vocabulary, bias=False)

    def embedded(self, images, rows: np.ndarray):
        """Return [batch, tokens, width] by *rows*: row n of *images*, or token id behind them."""
        table = self.embeddings if images is None else torch.cat([images, self.embeddings], dim=0)
        return table[torch.tensor(rows)]

    def hidden(self, tokens, angles: np.ndarray, caches=None, draws: Draws | None = None):
        """Return the normed hidden states, and each layer's keys and values.

        *angles* [tokens, head_dim / 2] turn queries and keys; *caches* hold what was before.
        """
        rotation = tables(angles)
        before = 0 if caches is None else caches[0][0].shape[2]
        count = tokens.shape[1]
        mask = causal(count, before) if count > 1 else None
        tokens = dropped(tokens, draws, "text_decoder.embedded", self.sizes.hidden_dropout)
        held = []
        for index, layer in enumerate(self.layers):
            cache = None if caches is None else caches[index]
            tokens, pair = layer(tokens, mask=mask, rotation=rotation, cache=cache, draws=draws)
            held.append(pair)
        return self.norm(tokens), held
