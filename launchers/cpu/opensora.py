"""OpenSora 1.2 on cpu: prompts to videos, by the network, the flow and the decoder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from cpu.configuration import Configuration
from cpu.flow import RectifiedFlow
from cpu.positions import sinusoids
from cpu.prompts import PromptEncoder, prompts
from cpu.randomness import Draws
from cpu.stdit3 import FREQUENCIES, Shape, STDiT3
from cpu.video_decoder import VideoDecoder


class OpenSora(nn.Module):
    """The pipeline; its parameters are those of ``predictor`` and ``ae``."""

    def __init__(self, configuration: Configuration, seed: int, steps: int) -> None:
        super().__init__()
        self.seed = seed
        self.flow = RectifiedFlow(configuration, steps)
        self.encoder = PromptEncoder(configuration)
        shape = Shape(configuration)
        if shape.text_length != self.encoder.length:
            raise ValueError(
                f"predictor model_max_length {shape.text_length} != tokenizer model_max_length "
                f"{self.encoder.length}"
            )
        self.predictor = STDiT3(shape)
        self.ae = VideoDecoder(configuration)
        if self.ae.channels != shape.channels:
            raise ValueError(f"in_channels {shape.channels} != {self.ae.channels} of ae/shift")
        size = configuration.read("/model/pipeline_config/input_size")
        self.frames, self.height, self.width = (int(number) for number in size)
        interval = int(configuration.read("/model/frame_interval"))
        self.fps = int(configuration.read("/model/fps")) // interval
        self.prompts = prompts(configuration)

    def generate(self, number: int, on_step: Callable[[int], None]) -> np.ndarray:
        """Return the video of a prompt, float32 [frames, height, width, 3], about -1 to 1."""
        size = self.ae.latent_size(self.frames, self.height, self.width)
        draws = Draws(self.seed, 0, number, 0)
        latents = torch.tensor(draws.normal("latents", (1, self.ae.channels, *size)))
        embedded, counted = self.encoder.encode(self.prompts[number])
        fps = torch.tensor(sinusoids(np.array([self.fps] * 2), FREQUENCIES))
        with torch.no_grad():
            text, bias = self.predictor.text(torch.tensor(embedded[None]), torch.tensor(counted))

            def predict(both, time: float):
                times = torch.tensor(sinusoids(np.array([time] * 2), FREQUENCIES))
                return self.predictor(both, times, fps, text, bias, (self.height, self.width))

            times = self.flow.times(self.frames, self.height, self.width)
            latents = self.flow.sample(latents, times, predict, on_step)
            video = self.ae(latents[0], self.frames)
        return np.ascontiguousarray(video.detach().numpy())
