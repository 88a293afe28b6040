"""What an operation of ``operations.ini`` may call besides ``torch`` and ``F``: loops over a step.

Each is written once for both stacks; ``torch`` is whatever the sweep made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def steps(optimizer: Callable[..., Any], start: Any, gradients: Any, **options: Any) -> Any:
    """The parameter after one optimizer step for each gradient, from *start*."""
    import torch

    parameter = torch.nn.Parameter(start * 1.0)
    rule = optimizer([parameter], **options)
    for gradient in gradients:
        parameter.grad = gradient
        rule.step()
        parameter.grad = None
    return parameter.detach()


def clipped(start: Any, gradient: Any, limit: float) -> Any:
    """The total norm that ``clip_grad_norm_`` returns, and the clipped gradient."""
    import torch

    parameter = torch.nn.Parameter(start * 1.0)
    parameter.grad = gradient * 1.0
    norm = torch.nn.utils.clip_grad_norm_([parameter], limit)
    return norm, parameter.grad


def frozen(tensor: Any) -> Any:
    """Twice the tensor, computed where no gradient is recorded."""
    import torch

    with torch.no_grad():
        return tensor * 2


def zeroed(optimizer: Callable[..., Any], start: Any) -> Any:
    """1 where ``zero_grad`` leaves no gradient behind, else the gradient that is left."""
    import torch

    parameter = torch.nn.Parameter(start * 1.0)
    parameter.grad = start * 1.0
    optimizer([parameter], lr=0.1).zero_grad()
    return torch.ones(1) if parameter.grad is None else parameter.grad


def conv(module: Callable[..., Any], x: Any, weight: Any, bias: Any, **options: Any) -> Any:
    """A convolution module with the given weights, applied to *x*."""
    import torch

    layer = module(weight.shape[1], weight.shape[0], tuple(weight.shape[2:]), **options)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer(x)


def restored(x: Any, weight: Any, bias: Any) -> Any:
    """A small network after a round trip of its state: its result, and its parameters' sizes."""
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(8, 5), torch.nn.LayerNorm(5))
    state = dict(network.state_dict())
    state["0.weight"], state["0.bias"] = weight, bias
    network.load_state_dict(state)
    return network(x), *(p.numel() for _, p in network.named_parameters())


def hooked(x: Any, weight: Any) -> Any:
    """What a forward hook sees of a layer, beside the layer's result."""
    import torch

    seen = []
    layer = torch.nn.Linear(8, 5, bias=False)
    with torch.no_grad():
        layer.weight.copy_(weight)
    layer.register_forward_hook(lambda module, given, result: seen.append(result))
    return layer(x) * 2, seen[0]


def recomputed(x: Any) -> Any:
    """A function under activation checkpointing."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda y: (y * 2).sin(), x, use_reentrant=False)


def attention_of(x: Any, weight: Any, output: Any) -> Any:
    """Self-attention by torch's own module, with the given weights."""
    import torch

    layer = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    with torch.no_grad():
        layer.in_proj_weight.copy_(weight)
        layer.out_proj.weight.copy_(output)
    return layer(x, x, x, need_weights=False)[0]


def repeats(draw: Callable[..., Any]) -> Any:
    """Whether the same seed gives the same random numbers."""
    import torch

    torch.manual_seed(1)
    first = draw(64)
    torch.manual_seed(1)
    return (first == draw(64)).all()


def counted(tied: bool) -> int:
    """How many numbers the parameters of a small network hold, with its weights tied or not."""
    import torch

    network = torch.nn.ModuleDict({"a": torch.nn.Embedding(6, 4), "b": torch.nn.Linear(4, 6)})
    if tied:
        network["b"].weight = network["a"].weight
    return sum(parameter.numel() for parameter in network.parameters())


def grouped_steps(weight: Any, bias: Any, gradients: Any) -> Any:
    """Both parameters after AdamW steps in two groups, with and without weight decay."""
    import torch

    first, second = torch.nn.Parameter(weight * 1.0), torch.nn.Parameter(bias * 1.0)
    groups = [{"params": [first], "weight_decay": 0.1}, {"params": [second], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, foreach=False)
    for step, gradient in enumerate(gradients):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (step + 1)
        first.grad, second.grad = weight * gradient, gradient * 1.0
        optimizer.step()
    return first.detach(), second.detach()


PIECES = {
    piece.__name__: piece
    for piece in (
        *(steps, grouped_steps, clipped, zeroed, frozen, recomputed, conv, attention_of),
        *(restored, hooked, counted, repeats),
    )
}
