"""MindSpeed-MM's ``rflow``: sampling along a rectified flow with classifier-free guidance.

Times and their steps are NumPy at float64, the same for both stacks.
"""

from __future__ import annotations

import numpy as np
import torch

from cpu.configuration import Configuration

SAMPLE_METHODS = ("uniform", "logit-normal")
BASE_RESOLUTION = 512 * 512
VAE_FRAMES, VAE_LATENTS = 17, 5


def shifted(times: np.ndarray, frames: int, height: int, width: int) -> np.ndarray:
    """Return *times* in [0, 1] moved towards 1 the more, the larger the video is.

    The published shift ``r t / (1 + (r - 1) t)``; r is the root of the area in units of 512 x 512
    times the root of the number of latent frames, which it counts in whole groups of 17.
    """
    latent_frames = 1 if frames == 1 else frames // VAE_FRAMES * VAE_LATENTS
    if latent_frames == 0:
        raise ValueError(
            f"use_timestep_transform needs 1 frame or at least {VAE_FRAMES}, found {frames}"
        )
    ratio = np.sqrt(height * width / BASE_RESOLUTION) * np.sqrt(latent_frames)
    return ratio * times / (1.0 + (ratio - 1.0) * times)


class RectifiedFlow:
    """Steps from noise at time ``num_train_steps`` to a sample at time 0."""

    def __init__(self, configuration: Configuration, steps: int) -> None:
        def read(key, *default):
            return configuration.read(f"/model/diffusion/{key}", *default)

        self.steps = steps
        self.range = float(read("num_train_steps", 1000))
        self.guidance = float(read("cfg_scale", 4.0))
        self.transform = bool(read("use_timestep_transform", True))
        method = read("sample_method", "logit-normal")
        if method not in SAMPLE_METHODS:
            raise ValueError(f"sample_method must be uniform or logit-normal, found {method!r}")

    def times(self, frames: int, height: int, width: int) -> np.ndarray:
        """Return the falling times at which the network is asked, in [0, ``num_train_steps``]."""
        times = 1.0 - np.arange(self.steps) / self.steps
        if self.transform:
            times = shifted(times, frames, height, width)
        return times * self.range

    def guided(self, predicted):
        """Return the velocity of a batch whose second half is predicted without the prompt."""
        velocity, _ = torch.chunk(predicted, 2, dim=1)  # the other channels are a variance
        with_prompt, without = torch.chunk(velocity, 2, dim=0)
        return without + (with_prompt - without) * self.guidance

    def sample(self, latents, times: np.ndarray, predict, on_step):
        """Return *latents* after all steps; ``predict(latents, time)`` is asked at each."""
        ends = [*times[1:], 0.0]
        for number, (time, end) in enumerate(zip(times, ends, strict=True), start=1):
            predicted = predict(torch.cat([latents, latents], dim=0), time)
            latents = latents + self.guided(predicted) * float((time - end) / self.range)
            on_step(number)
        return latents
