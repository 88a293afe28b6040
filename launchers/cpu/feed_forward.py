"""The feed-forward layer, with the activations that MindSpeed-MM's satdit knows."""

from __future__ import annotations

import torch
from torch import nn

ACTIVATIONS = ("gelu", "gelu-approximate", "geglu", "geglu-approximate")


class FeedForward(nn.Module):
    """Two linear layers, four times the width between them, and the *activation* named."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation_fn {activation!r} is none of {', '.join(ACTIVATIONS)}")
        self.activation = activation
        self.widen = nn.Linear(width, (8 if activation == "geglu" else 4) * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, tokens):
        wide = self.widen(tokens)
        if self.activation == "geglu":
            left, right = torch.chunk(wide, 2, dim=-1)
            wide = left * nn.functional.gelu(right)
        elif self.activation == "geglu-approximate":
            wide = wide * torch.sigmoid(wide * 1.702)
        elif self.activation == "gelu-approximate":
            wide = nn.functional.gelu(wide, approximate="tanh")
        else:
            wide = nn.functional.gelu(wide)
        return self.narrow(wide)
