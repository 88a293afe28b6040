"""CogVideoX on cpu: its network, data and loss, made from a configuration."""

from __future__ import annotations

import numpy as np
import torch

from cpu.configuration import Configuration
from cpu.diffusion import Diffusion
from cpu.encoders import TextEncoder, VideoEncoder
from cpu.positions import sinusoids
from cpu.randomness import Draws
from cpu.samples import Samples
from cpu.satdit import SatDiT, Shape
from cpu.training import Batches


class CogVideoX:
    """The trained network with the frozen parts around it."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        self.shape = Shape(configuration)
        self.video_encoder = VideoEncoder(configuration)
        if self.video_encoder.channels != self.shape.channels:
            raise ValueError(
                f"in_channels {self.shape.channels} != z_channels {self.video_encoder.channels}"
            )
        self.text_encoder = TextEncoder(configuration)
        self.diffusion = Diffusion(configuration)
        self.samples = Samples(configuration, seed)
        self.network = SatDiT(self.shape)

    def micro_batch(self, number: int, first: int, batches: Batches, draws: Draws):
        """Return latents, noise, the plan of noising, embedded text and draws of a micro-batch."""
        samples = [self.samples.sample(first + offset) for offset in range(batches.micro)]
        latents = np.stack([self.video_encoder.encode(clip) for clip, _ in samples])
        text = self.text_encoder.encode([caption for _, caption in samples], draws)
        indices = self.diffusion.time_steps(
            draws, len(samples), batches.stratum(number), batches.whole
        )
        plan = self.diffusion.plan(indices)
        times = sinusoids(plan.pop("time"), self.shape.width)
        noise = draws.normal("noise", latents.shape)
        scales = {
            name: torch.tensor(values.astype(np.float32).reshape(-1, 1, 1, 1, 1))
            for name, values in plan.items()
        }
        tensors = (torch.tensor(array) for array in (latents, noise, times, text))
        return (*tensors, scales, draws)

    def loss(self, latents, noise, times, text, scales, draws):
        """Return the weighted error of the denoised latents."""
        noised = latents * scales["signal"] + noise * scales["noise"]
        predicted = self.network(noised, times, text, draws)
        denoised = noised * scales["skip"] + predicted * scales["out"]
        error = denoised - latents
        return (error * error * scales["weight"]).mean()
