"""The frozen encoders: video to latents, captions to embeddings; fixed, in NumPy.

They stand where CogVideoX has its VAE and T5, neither of which is trained.
"""

from __future__ import annotations

import hashlib
import re

import numpy as np

from cpu.configuration import Configuration
from cpu.positions import sinusoids
from cpu.randomness import Draws, generator

FRAMES_PER_LATENT = 4
END, PADDING = 1, 0
VOCABULARY = 512
MOST_CHANNELS = 64
GAIN = 2.0
"""Brings the latents of the project's own videos near unit variance."""


def hashed_tokens(text: str, length: int) -> list[int]:
    """Return one token for each word of *text*, cut or padded to *length*."""
    words = re.findall(r"\w+", text.lower())
    hashed = [int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) for word in words]
    known = [2 + value % (VOCABULARY - 2) for value in hashed[: length - 1]]
    known.append(END)
    return known + [PADDING] * (length - len(known))


class VideoEncoder:
    """Compresses 4 x 8 x 8 as CogVideoX's causal VAE does: frames pooled, cells projected."""

    def __init__(self, configuration: Configuration) -> None:
        self.channels = int(configuration.read("/model/ae/z_channels"))
        halvings = configuration.read("/model/ae/encoder_spatial_downsample")
        self.space = 2 ** sum(1 for halving in halvings if halving)
        pixels = 3 * self.space**2
        projection = generator("video encoder", pixels).standard_normal((MOST_CHANNELS, pixels))
        self.projection = (projection[: self.channels].T * GAIN / pixels**0.5).astype(np.float32)

    def encode(self, video: np.ndarray) -> np.ndarray:
        """Return float32 latents [channels, frames, rows, columns] of uint8 [frames, h, w, 3].

        The first frame stands alone, as in a causal encoder.
        """
        frames, height, width, _ = video.shape
        if (frames - 1) % FRAMES_PER_LATENT or height % self.space or width % self.space:
            raise ValueError(
                f"a clip of {frames} frames, {height}x{width}: frames must be "
                f"{FRAMES_PER_LATENT}k+1, height and width multiples of {self.space}"
            )
        rows, columns = height // self.space, width // self.space
        groups = video[1:].reshape(-1, FRAMES_PER_LATENT, height, width, 3)
        pooled = groups.sum(axis=1, dtype=np.uint16) / np.float32(FRAMES_PER_LATENT)
        pooled = np.concatenate([video[:1].astype(np.float32), pooled]) / np.float32(127.5) - 1
        cells = pooled.reshape(len(pooled), rows, self.space, columns, self.space, 3)
        cells = cells.transpose(0, 1, 3, 2, 4, 5).reshape(len(pooled), rows, columns, -1)
        return np.ascontiguousarray((cells @ self.projection).transpose(3, 0, 1, 2))


class TextEncoder:
    """Hashes words to tokens, and gives each token and place a fixed embedding."""

    def __init__(self, configuration: Configuration) -> None:
        self.length = int(
            configuration.read("/data/dataset_param/tokenizer_config/model_max_length")
        )
        self.width = int(configuration.read("/model/predictor/text_hidden_size"))
        self.dropped = float(configuration.read("/model/text_encoder/ucg_rate", 0.0))
        self.masked = bool(configuration.read("/model/text_encoder/use_attention_mask", True))
        expected = int(configuration.read("/model/predictor/text_length"))
        if expected != self.length:
            raise ValueError(f"text_length {expected} != model_max_length {self.length}")
        table = generator("text encoder", self.width).standard_normal((VOCABULARY, self.width))
        self.table = table.astype(np.float32)
        self.places = sinusoids(np.arange(self.length), self.width)

    def tokens(self, caption: str) -> list[int]:
        """Return the tokens of *caption*, cut or padded to the length."""
        return hashed_tokens(caption, self.length)

    def encode(self, captions: list[str], draws: Draws) -> np.ndarray:
        """Return float32 [captions, length, width]; a share of captions is dropped (ucg_rate)."""
        drops = draws.uniform("ucg", (len(captions),)) < self.dropped
        kept = ["" if drop else text for text, drop in zip(captions, drops, strict=True)]
        tokens = np.array([self.tokens(text) for text in kept])
        embedded = self.table[tokens] + self.places
        if self.masked:
            embedded = embedded * (tokens != PADDING)[:, :, None]
        return embedded.astype(np.float32)
