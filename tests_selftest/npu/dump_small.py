"""Trains a small network for two steps under the wrapper's msprobe: ``dump_small.py LAUNCHERS``.

``SCALED`` makes one module give so many times its result.
"""

from __future__ import annotations

import os
import sys
from typing import Any

sys.path.insert(0, sys.argv[1])

import npu_msprobe  # type: ignore[import-not-found,unused-ignore]
import torch  # type: ignore[import-not-found,unused-ignore]
from torch import nn  # type: ignore[import-not-found,unused-ignore]

FACTOR = float(os.environ.get("SCALED", "1"))


class Widen(nn.Linear):  # type: ignore[misc,unused-ignore]
    """A layer that may be wrong."""

    factor = 1.0

    def forward(self, x: Any) -> Any:
        """Return *factor* times what a layer gives."""
        return super().forward(x) * self.factor


class Block(nn.Module):  # type: ignore[misc,unused-ignore]
    """A residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.widen, self.narrow = nn.LayerNorm(8), Widen(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        """Return the sum."""
        return x + self.narrow(torch.relu(self.widen(self.norm(x))))


torch.manual_seed(1)
network = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 1))
network[2].widen.factor = FACTOR
rule = torch.optim.SGD(network.parameters(), lr=0.1)


def train_step() -> None:
    """One step."""
    rule.zero_grad()
    network(torch.randn(3, 4)).pow(2).mean().backward()
    rule.step()


npu_msprobe.NETWORKS[:] = [network]
step = npu_msprobe.wrapped(train_step, [number - 1 for number in npu_msprobe.steps()])
for _ in range(3):
    step()
