"""Trains many configurations in one process, without a launcher, and prints their curves.

``curves.py FILE``: for each JSON line of FILE (``{"documents": {...}, "steps": 5, "seed": 43}``,
and ``"network": "cpu.module:Class"`` where it is not CogVideoX)
one line out: ``{"losses", "grad_norms", "parameter_count", "parameters", "echo"}`` or
``{"error"}``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cpu import stack

stack.boot()

from cpu.configuration import Configuration  # noqa: E402
from cpu.training import train  # noqa: E402
from cpu.workers import Workers  # noqa: E402


def curves(line: dict[str, Any]) -> dict[str, Any]:
    """Train one configuration; return what a mutation of it may show in."""
    configuration = Configuration(line["documents"])
    losses: list[float] = []
    norms: list[float] = []
    digests: dict[str, Any] = {}

    def on_step(loss: float, norm: float, **others: Any) -> None:
        losses.append(loss)
        norms.append(norm)

    module, name = line.get("network", "cpu.cogvideox:CogVideoX").split(":")
    model = getattr(import_module(module), name)(configuration, line["seed"])
    train(
        configuration,
        model.network,
        model.micro_batch,
        model.loss,
        steps=line["steps"],
        seed=line["seed"],
        workers=Workers(),
        on_start=digests.update,
        on_step=on_step,
    )
    count = sum(parameter.numel() for parameter in model.network.parameters())
    return {
        "losses": losses,
        "grad_norms": norms,
        "parameter_count": count,
        "parameters": {name: held["digest"] for name, held in digests.items()},
        "echo": configuration.echo,
    }


for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    try:
        answer = curves(json.loads(text))
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
