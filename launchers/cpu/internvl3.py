"""InternVL3 on cpu: its network, data and loss, made from a configuration."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from cpu import tokenizer
from cpu.configuration import Configuration
from cpu.conversations import UNLABELLED, Conversations
from cpu.decoder import PLACE, Decoder
from cpu.internvit import InternViT, Projector
from cpu.randomness import Draws
from cpu.training import Batches


class Network(nn.Module):
    """Vision encoder, projector and text decoder."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        base = float(configuration.read(f"{PLACE}/rotary_base", 10000.0))
        self.vision_encoder = InternViT(configuration)
        self.text_decoder = Decoder(configuration, base)
        self.projector = Projector(
            configuration,
            self.vision_encoder.side,
            self.vision_encoder.sizes.width,
            self.text_decoder.sizes.width,
        )
        for parameter in self.vision_encoder.parameters():
            parameter.requires_grad = not self.vision_encoder.frozen

    def forward(self, tiles, rows: np.ndarray, draws: Draws | None = None):
        """Return the hidden states [batch, tokens, width]; *rows* as ``Decoder.embedded`` wants."""
        images = self.projector(self.vision_encoder(tiles, draws))
        decoder = self.text_decoder
        angles = np.arange(rows.shape[1])[:, None] * decoder.frequencies
        return decoder.hidden(decoder.embedded(images, rows), angles, draws=draws)[0]


class InternVL3:
    """The trained network with its data."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        self.network = Network(configuration)
        vision, decoder = self.network.vision_encoder, self.network.text_decoder
        self.image = tokenizer.special(
            "img_context_token_id",
            int(configuration.read("/model/img_context_token_id")),
            decoder.vocabulary,
        )
        self.by_sample = bool(configuration.read("/args/calculate-per-sample-loss", False))
        self.longest = int(configuration.read(f"{PLACE}/max_position_embeddings"))
        self.samples = Conversations(configuration, seed, self.network.projector.tokens, self.image)
        for name, held in (("patch_size", vision.patch), ("image_size", vision.image)):
            given = configuration.read(f"/data/dataset_param/{name}")
            if given != held:
                raise ValueError(f"data's {name} {given} is not the vision encoder's {held}")
        size = self.samples.steps["Resize"]["size"]
        if size != [vision.image] * 2:
            raise ValueError(f"Resize makes {size}, the vision encoder takes {vision.image}")
        scaling = configuration.read(f"{PLACE}/rope_scaling", None)
        if scaling is not None and scaling.get("type") != "dynamic":
            raise AssertionError("Unsupported rope scaling type")

    def micro_batch(self, number: int, first: int, batches: Batches, draws: Draws):
        """Return tiles, rows, places to predict at, what follows there, its weights, draws."""
        samples = [self.samples.sample(first + offset) for offset in range(batches.micro)]
        tiles = np.stack([tile for sample in samples for tile in sample.tiles])
        length = max(len(sample.ids) for sample in samples)
        if length > self.longest:
            raise ValueError(f"{length} tokens are more than max_position_embeddings allows")
        ids = np.full((len(samples), length), tokenizer.PAD)
        labels = np.full((len(samples), length), UNLABELLED)
        for index, sample in enumerate(samples):
            ids[index, : len(sample.ids)] = sample.ids
            labels[index, : len(sample.ids)] = sample.labels
        places, targets, weights = self.learned(labels)
        rows = image_rows(ids, self.image, len(tiles) * self.network.projector.tokens)
        return (torch.tensor(tiles), rows, places, targets, torch.tensor(weights), draws)

    def learned(self, labels: np.ndarray):
        """Return the flat places whose next token is learned, these tokens, and their weights."""
        shifted = np.full_like(labels, UNLABELLED)
        shifted[:, :-1] = labels[:, 1:]
        wanted = shifted != UNLABELLED
        counts = wanted.sum(axis=1)
        if self.by_sample:
            shares = np.repeat(1.0 / (counts * len(labels)), counts)
        else:
            shares = np.full(counts.sum(), 1.0 / counts.sum())
        return np.flatnonzero(wanted), shifted[wanted], shares.astype(np.float32)

    def loss(self, tiles, rows, places, targets, weights, draws):
        """Return the weighted cross entropy of the tokens that are learned."""
        hidden = self.network(tiles, rows, draws)
        hidden = hidden.reshape(-1, hidden.shape[-1])[torch.tensor(places)]
        logits = self.network.text_decoder.head(hidden)
        chances = nn.functional.log_softmax(logits, dim=-1)
        taken = torch.gather(chances, 1, torch.tensor(targets.reshape(-1, 1)))
        return -(taken.reshape(-1) * weights).sum()


def image_rows(ids: np.ndarray, image: int, images: int) -> np.ndarray:
    """Return row numbers of a table that holds *images* image tokens before the vocabulary.

    Image tokens take the places of the id *image* in order.
    """
    places = ids == image
    if int(places.sum()) != images:
        raise ValueError(f"{int(places.sum())} places for {images} image tokens")
    rows = ids + images
    rows[places] = np.arange(images)
    return rows.astype(np.int64)
