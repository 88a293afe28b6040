"""Records many configurations in one process, without a launcher: what the limits are measured by.

``record.py LAUNCHERS FILE``: for each JSON line of FILE (``{"documents", "model", "folder",
"steps", "seed"}``, and ``"scaled": {module: factor}`` or ``"halved": [module]`` for a fault planted
here) the recording is written to ``folder/record``, and one line printed: ``{}`` or ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

import_module("cpu.stack").boot()

recording, weights, training, workers, configurations = (
    import_module(f"cpu.{name}")
    for name in ("recording", "weights", "training", "workers", "configuration")
)
TRAINED = {"cogvideox": "CogVideoX", "internvl3": "InternVL3"}


def plant(network: Any, scaled: dict[str, float], halved: list[str]) -> None:
    """Make modules give *factor* times their result, or let half of the gradient through."""

    def hook(factor: float) -> Any:
        return lambda module, given, made: made * factor

    def half(module: Any, given: Any, made: Any) -> Any:
        return made * 0.5 + made.detach() * 0.5

    modules = dict(network.named_modules())
    for name in halved:
        modules[name].register_forward_hook(half)
    for name, factor in scaled.items():
        modules[name].register_forward_hook(hook(factor))


def run(line: dict[str, Any]) -> None:
    """Run one configuration and record it."""
    os.environ["LMSV_RUN_DIR"] = line["folder"]
    os.environ["LMSV_LOCATE"] = ",".join(map(str, line.get("record", [1])))
    configuration = configurations.Configuration(line["documents"])
    seed, steps, model = line["seed"], line["steps"], line["model"]
    planted = line.get("scaled", {}), line.get("halved", [])
    module = import_module(f"cpu.{model}")
    if model in TRAINED:
        made = getattr(module, TRAINED[model])(configuration, seed)
        plant(made.network, *planted)
        training.train(
            configuration,
            made.network,
            made.micro_batch,
            made.loss,
            steps=steps,
            seed=seed,
            workers=workers.Workers(),
            on_start=lambda digests: None,
            on_step=lambda **figures: None,
            recorder=recording.from_environment(),
        )
        return
    asked = module.QwenVL(configuration, steps) if model == "qwenvl" else None
    network = asked.network if asked else module.OpenSora(configuration, seed, steps)
    weights.fill(network, seed)
    plant(network, *planted)
    with recording.whole(network, 0):
        asked.answer() if asked else network.generate(0, lambda step: None)


for text in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines():
    try:
        run(json.loads(text))
        print("{}", flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
