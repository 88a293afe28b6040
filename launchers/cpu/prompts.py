"""The prompts of an inference, and the frozen encoder of their text: fixed, in NumPy.

The encoder stands where OpenSora has T5, which is not part of what is compared.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from cpu.configuration import Configuration
from cpu.encoders import PADDING, VOCABULARY, hashed_tokens
from cpu.positions import sinusoids
from cpu.randomness import generator

MOST_PROMPTS = 100


def prompts(configuration: Configuration) -> list[str]:
    """Return the prompts that the configuration names: a text, or a file with one on each line.

    As MindSpeed-MM does, a name that is no file is the prompt itself.
    """
    named = str(configuration.read("/model/prompt"))
    if not os.path.isfile(named):  # noqa: PTH113 - Path.is_file raises for a long text
        return [named]
    lines = Path(named).read_text(encoding="utf-8").splitlines()
    found = [line.strip() for line in lines if line.strip()][:MOST_PROMPTS]
    if not found:
        raise ValueError(f"prompt: {named} holds no prompts")
    return found


class PromptEncoder:
    """Hashes words to tokens, embeds tokens and places, and lets each see the others' mean."""

    def __init__(self, configuration: Configuration) -> None:
        self.length = int(configuration.read("/model/tokenizer/model_max_length"))
        self.width = int(configuration.read("/model/predictor/caption_channels", 4096))
        self.masked = bool(configuration.read("/model/pipeline_config/use_attention_mask", True))
        table = generator("prompt encoder", self.width).standard_normal((VOCABULARY, self.width))
        self.table = table
        self.places = sinusoids(np.arange(self.length), self.width + self.width % 2)

    def encode(self, prompt: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the embedding, float32 [length, width], and which tokens count, float32 [length].

        Without the attention mask the padding counts as text, in the encoder and afterwards.
        """
        tokens = np.array(hashed_tokens(prompt, self.length))
        counted = (tokens != PADDING) if self.masked else np.ones(self.length, bool)
        embedded = self.table[tokens] + self.places[:, : self.width]
        embedded = embedded + embedded[counted].mean(axis=0)
        return embedded.astype(np.float32), counted.astype(np.float32)
