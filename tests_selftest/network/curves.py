"""Trains many configurations in one process, in a stack's environment, and prints their curves.

One JSON line in (``{"documents": {...}, "steps": 5, "seed": 43}``), one out: ``{"losses",
"grad_norms", "parameter_count", "echo"}`` or ``{"error"}``. The folder of the launchers comes first
on the command line.
"""

from __future__ import annotations

import json
import sys

sys.path.insert(0, sys.argv[1])

from cpu import stack

stack.boot()

from cpu.cogvideox import CogVideoX  # noqa: E402
from cpu.configuration import Configuration  # noqa: E402
from cpu.training import train  # noqa: E402
from cpu.workers import Workers  # noqa: E402


def curves(line: dict) -> dict:
    """Train one configuration; return what a mutation of it may show in."""
    configuration = Configuration(line["documents"])
    losses: list[float] = []
    norms: list[float] = []
    shapes: dict = {}

    def on_step(step, loss, norm, each, line) -> None:
        losses.append(loss)
        norms.append(norm)

    model = CogVideoX(configuration, line["seed"])
    train(
        configuration,
        model.network,
        model.micro_batch,
        model.loss,
        steps=line["steps"],
        seed=line["seed"],
        workers=Workers(),
        on_start=shapes.update,
        on_step=on_step,
    )
    count = sum(parameter.numel() for parameter in model.network.parameters())
    return {
        "losses": losses,
        "grad_norms": norms,
        "parameter_count": count,
        "parameters": {name: held["shape"] for name, held in shapes.items()},
        "echo": configuration.echo,
    }


for text in sys.stdin:
    try:
        answer = curves(json.loads(text))
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
