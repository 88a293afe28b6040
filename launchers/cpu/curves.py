"""Trains many configurations in one process, without a launcher, and prints their curves.

``curves.py FILE``: for each JSON line of FILE (``{"documents": {...}, "steps": 5, "seed": 43}``,
and ``"network": "cpu.module:Class"`` where it is not CogVideoX)
one line out: ``{"losses", "grad_norms", "parameter_norms", "noise", "parameter_count",
"parameters", "echo"}`` or ``{"error"}``; with ``"noise": N`` that many noise runs' curves.
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

from cpu import noise, weights  # noqa: E402
from cpu.configuration import Configuration  # noqa: E402
from cpu.workers import Workers  # noqa: E402


def curves(line: dict[str, Any]) -> dict[str, Any]:
    """Train one configuration; return what a mutation of it may show in."""
    configuration = Configuration(line["documents"])
    noise_runs = line.get("noise", 0)
    module, name = line.get("network", "cpu.cogvideox:CogVideoX").split(":")
    model = getattr(import_module(module), name)(configuration, line["seed"])
    held = weights.fill(model.network, line["seed"])
    parts = [
        noise.training(
            configuration,
            model,
            steps=line["steps"],
            seed=line["seed"],
            workers=Workers(),
            noise=number,
        )
        for number in range(noise_runs + 1)
    ]
    whole = parts[0]
    count = sum(parameter.numel() for parameter in model.network.parameters())
    return {
        "losses": [loss for _, loss in whole["losses"]],
        "grad_norms": [norm for _, norm in whole["grad_norms"]],
        "parameter_norms": whole["parameter_norms"],
        "noise": parts[1:],
        "parameter_count": count,
        "parameters": {name: each["digest"] for name, each in held.items()},
        "echo": configuration.echo,
    }


for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    try:
        answer = curves(json.loads(text))
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
