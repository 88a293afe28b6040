"""A small decoder of latent videos, with the geometry of OpenSora 1.2's VAE.

Time is compressed by 4 in groups of ``vae_micro_frame_size`` frames, space by 8. Within a group it
is causal: a latent frame sees the one before it.
"""

from __future__ import annotations

import torch
from torch import nn

from cpu.configuration import Configuration

TIME, SPACE = 4, 8
HIDDEN = 32
COLOURS = 3


def shifts(grid):
    """Return *grid* [frames, height, width, channels] with 8 neighbours beside each place.

    Outside the picture there is 0.
    """
    frames, height, width, channels = grid.shape
    row = torch.zeros(frames, 1, width, channels)
    tall = torch.cat([row, grid, row], dim=1)
    column = torch.zeros(frames, height + 2, 1, channels)
    whole = torch.cat([column, tall, column], dim=2)
    parts = [whole[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return torch.cat(parts, dim=-1)


class VideoDecoder(nn.Module):
    """Turns latents into pictures: first time, then space."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()

        def read(key, *default):
            return configuration.read(f"/model/ae/{key}", *default)

        self.shift = [float(value) for value in read("shift")]
        self.scale = [float(value) for value in read("scale")]
        group = read("vae_micro_frame_size", 17)
        self.group = None if group is None else int(group)
        self.channels = len(self.shift)
        if len(self.scale) != self.channels:
            raise ValueError(f"ae: {len(self.scale)} scales for {self.channels} shifts")
        self.time_in = nn.Linear(2 * self.channels, HIDDEN)
        self.time_out = nn.Linear(HIDDEN, TIME * self.channels)
        self.space_in = nn.Linear(9 * self.channels, HIDDEN)
        self.space_norm = nn.LayerNorm(HIDDEN)
        self.space_out = nn.Linear(HIDDEN, SPACE * SPACE * COLOURS)

    def groups(self, frames: int) -> list[int]:
        """Return how many frames each group has."""
        if self.group is None:
            return [frames]
        rest = frames % self.group
        return [self.group] * (frames // self.group) + ([rest] if rest else [])

    def latent_size(self, frames: int, height: int, width: int) -> tuple[int, int, int]:
        """Return frames, height and width of the latents of a video."""
        if height % SPACE or width % SPACE:
            raise ValueError(
                f"input_size must be divisible by {SPACE}, found height {height}, width {width}"
            )
        count = sum(-(-size // TIME) for size in self.groups(frames))
        return count, height // SPACE, width // SPACE

    def forward(self, latents, frames: int):
        """Return [frames, height, width, 3], about -1 to 1, of latents [channels, t, h, w]."""
        grid = latents.permute(1, 2, 3, 0)
        grid = grid * torch.tensor(self.scale) + torch.tensor(self.shift)
        parts, first = [], 0
        for size in self.groups(frames):
            count = -(-size // TIME)
            parts.append(self.in_time(grid[first : first + count], size))
            first += count
        return self.in_space(torch.cat(parts, dim=0))

    def in_time(self, grid, frames: int):
        """Return *frames* frames of one group; what is too much is cut off at its begin."""
        count, height, width, channels = grid.shape
        before = torch.zeros(1, height, width, channels)
        if count > 1:
            before = torch.cat([before, grid[:-1]], dim=0)
        wide = nn.functional.silu(self.time_in(torch.cat([grid, before], dim=-1)))
        each = self.time_out(wide).reshape(count, height, width, TIME, channels)
        whole = each.permute(0, 3, 1, 2, 4).reshape(count * TIME, height, width, channels)
        return whole[count * TIME - frames :]

    def in_space(self, grid):
        """Return the pictures of *grid*, each place a square of 8 x 8."""
        frames, height, width, _ = grid.shape
        wide = nn.functional.silu(self.space_norm(self.space_in(shifts(grid))))
        cells = self.space_out(wide).reshape(frames, height, width, SPACE, SPACE, COLOURS)
        cells = cells.permute(0, 1, 3, 2, 4, 5)
        return cells.reshape(frames, height * SPACE, width * SPACE, COLOURS)
