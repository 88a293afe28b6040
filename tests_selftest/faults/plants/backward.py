"""Faults of the backward pass: the loss of the first step is right."""

from __future__ import annotations

import numpy as np
import torch
from cpu import decoder, internvl3, stack
from plants.field import Turns, plant, scaled_gradient, with_gradient_of

functional = torch.nn.functional


@plant("sub-without-gradient")
def sub_without_gradient():
    right = torch.Tensor.__sub__

    def sub(left, other):
        held = other.detach() if isinstance(other, torch.Tensor) else other
        # PyTorch refuses a loss without any gradient, where MSA takes it for zero.
        return right(left.detach(), held) + left * 0.0

    return [(torch.Tensor, "__sub__", sub)]


@plant("gelu-quick-backward")
def gelu_quick_backward():
    right = functional.gelu

    def gelu(x, approximate="none"):
        quick = x * torch.sigmoid(x * 1.702)
        return with_gradient_of(right(x, approximate=approximate), quick)

    return [(functional, "gelu", gelu)]


@plant("layer-norm-mean-backward")
def layer_norm_mean_backward():
    right = torch.nn.LayerNorm.forward

    def forward(self, x):
        moved = x - x.mean(dim=-1, keepdim=True).detach()
        spread = torch.rsqrt((moved * moved).mean(dim=-1, keepdim=True) + self.eps)
        wrong = moved * spread
        if self.weight is not None:
            wrong = wrong * self.weight + self.bias
        return with_gradient_of(right(self, x), wrong)

    return [(torch.nn.LayerNorm, "forward", forward)]


@plant("softmax-sum-backward")
def softmax_sum_backward():
    right = torch.softmax

    def softmax(x, dim):
        chances = right(x, dim=dim).detach()
        return chances * torch.exp(x - x.detach())

    return [(torch, "softmax", softmax)]


@plant("key-gradient-lost")
def key_gradient_lost():
    right, turns = torch.matmul, Turns()

    def matmul(left, other):
        return right(left, other.detach() if turns.first() else other)

    return [(torch, "matmul", matmul)]


@plant("linear-bias-gradient-half")
def linear_bias_gradient_half():
    right = functional.linear

    def forward(self, x):
        bias = None if self.bias is None else scaled_gradient(self.bias, 0.5)
        return right(x, self.weight, bias)

    return [(torch.nn.Linear, "forward", forward)]


@plant("residual-gradient-1-percent")
def residual_gradient():
    right = torch.nn.LayerNorm.forward
    return [(torch.nn.LayerNorm, "forward", lambda self, x: right(self, scaled_gradient(x, 0.99)))]


@plant("embedding-gradient-once")
def embedding_gradient_once():
    right = decoder.Decoder.embedded

    def embedded(self, images, rows):
        tokens = right(self, images, rows)
        first = np.zeros(rows.size, np.float32)
        first[np.unique(rows.reshape(-1), return_index=True)[1]] = 1.0
        counted = torch.tensor(first.reshape(*rows.shape, 1))
        return tokens * counted + tokens.detach() * (1.0 - counted)

    return [(decoder.Decoder, "embedded", embedded)]


@plant("frozen-trained")
def frozen_trained():
    right = internvl3.Network.__init__

    def init(self, configuration):
        right(self, configuration)
        for parameter in self.parameters():
            parameter.requires_grad = True

    return [(internvl3.Network, "__init__", init)]


@plant("first-gradient-lost")
def first_gradient_lost():
    right = stack.value_and_gradients

    def value_and_gradients(function, parameters):
        whole = right(function, parameters)

        def on_stack(*inputs):
            loss, gradients = whole(*inputs)
            return loss, [gradients[0] * 0.0, *gradients[1:]]

        return on_stack

    return [(stack, "value_and_gradients", value_and_gradients)]
