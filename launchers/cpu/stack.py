"""The few calls that differ between the stacks; everything else is one PyTorch source.

``boot()`` comes before the first import of torch. On MSA it installs the adapter, whose
``loss.backward()`` does nothing: gradients come from a function transformation instead.
"""

from __future__ import annotations

import os

NAME = os.environ.get("LMSV_STACK", "pta")


def boot() -> list[str]:
    """Make ``import torch`` mean the stack of ``LMSV_STACK``; return the adapter's fixes in use."""
    if NAME not in {"pta", "msa"}:
        raise ValueError(f"LMSV_STACK is pta or msa, found {NAME!r}")
    if NAME == "msa":
        from cpu import adapter

        return list(adapter.install())
    return []


def value_and_gradients(function, parameters):
    """Return a function that gives the loss and one gradient for each of *parameters*."""
    if NAME == "msa":
        import mindspore

        transformed = mindspore.value_and_grad(function, None, tuple(parameters))

        def on_msa(*inputs):
            loss, gradients = transformed(*inputs)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                gradient._device = parameter._device  # what the transformation returns has none
            return loss, list(gradients)

        return on_msa

    import torch

    def on_pta(*inputs):
        loss = function(*inputs)
        # A parameter that the configuration leaves unused has a zero gradient, as on MSA.
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        filled = [
            torch.zeros_like(parameter) if gradient is None else gradient
            for parameter, gradient in zip(parameters, gradients, strict=True)
        ]
        return loss.detach(), filled

    return on_pta


def assign(parameter, values) -> None:
    """Give *parameter* the numbers of the tensor *values* (same shape and type)."""
    import torch

    with torch.no_grad():
        parameter.copy_(values)


def versions() -> dict[str, str]:
    """Return the versions of what computes on this stack."""
    import platform

    import numpy

    found = {"python": platform.python_version(), "numpy": numpy.__version__}
    if NAME == "msa":
        import importlib.metadata

        import mindspore

        found["mindspore"] = mindspore.__version__
        found["mindnlp"] = importlib.metadata.version("mindnlp")
    else:
        import torch

        found["torch"] = torch.__version__
    return found
