"""MindSpeed-MM's ``cogvideo_diffusion``: v-prediction over a zero terminal SNR schedule.

Everything but the network is NumPy at float64, the same for both stacks.
"""

from __future__ import annotations

import numpy as np

from cpu.configuration import Configuration
from cpu.randomness import Draws

TABLE = 1000
FIRST_BETA, LAST_BETA = 0.00085, 0.012


def signal_levels(count: int, shift_scale: float) -> np.ndarray:
    """Return *count* square roots of cumulated alphas, from almost all signal to none."""
    if count > TABLE:
        raise ValueError(f"num_idx {count} is larger than the {TABLE} time steps of the schedule")
    betas = np.linspace(FIRST_BETA**0.5, LAST_BETA**0.5, TABLE) ** 2
    cumulated = np.cumprod(1.0 - betas)
    cumulated = cumulated / (shift_scale + (1.0 - shift_scale) * cumulated)
    if count < TABLE:
        cumulated = cumulated[np.linspace(TABLE - 1, 0, count).round().astype(int)[::-1]]
    roots = np.sqrt(cumulated)
    return (roots - roots[-1]) * roots[0] / (roots[0] - roots[-1])


class Diffusion:
    """Draws time steps, noises latents, and weighs the network's error."""

    def __init__(self, configuration: Configuration) -> None:
        def read(key, *default):
            return configuration.read(f"/model/diffusion/{key}", *default)

        shift = "discretization_config/shift_scale"
        self.uniform = bool(read("sigma_sampler_config/uniform_sampling", False))
        self.count = int(read("sigma_sampler_config/num_idx"))
        self.levels = signal_levels(self.count, float(read(f"sigma_sampler_config/{shift}", 1.0)))
        self.quantize = bool(read("denoiser_config/quantize_c_noise", False))
        self.denoiser_levels = signal_levels(
            int(read("denoiser_config/num_idx")), float(read(f"denoiser_config/{shift}", 1.0))
        )

    def time_steps(self, draws: Draws, samples: int, stratum: int, strata: int) -> np.ndarray:
        """Return one index for each sample.

        With uniform sampling the range is cut into *strata*, one for each sample of the global
        batch, and the first sample here belongs to *stratum*. MindSpeed-MM cuts by data-parallel
        rank, which is the same where each rank holds one sample.
        """
        part = draws.uniform("time_steps", (samples,))
        if not self.uniform:
            return np.floor(part * self.count).astype(np.int64)
        if self.count < strata:
            raise ValueError(f"num_idx {self.count} can't be cut into {strata} intervals")
        interval = self.count // strata
        first = (stratum + np.arange(samples)) * interval
        return (first + np.floor(part * interval)).astype(np.int64)

    def plan(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Return what noising and weighing need for each of *indices* (float64 vectors)."""
        level = self.levels[indices]
        nearest = np.abs(self.denoiser_levels[None, :] - level[:, None]).argmin(axis=1)
        quantized = self.denoiser_levels[nearest]
        spread = np.sqrt(1.0 - quantized**2)
        time = indices
        if self.quantize:
            # As there: the time step is taken for a signal level, and the nearest one's index used.
            time = np.abs(self.denoiser_levels[None, :] - indices[:, None]).argmin(axis=1)
        return {
            "signal": level,
            "noise": np.sqrt(1.0 - level**2),
            "skip": quantized,
            "out": -spread,
            "weight": 1.0 / (1.0 - level**2),
            "time": time.astype(np.float64),
        }
