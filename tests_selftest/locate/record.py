"""Records many configurations in one process, without a launcher: what the limits are measured by.

``record.py LAUNCHERS FILE``: for each JSON line of FILE (``{"documents", "model", "folder", "steps",
"seed"}``, and ``"scaled": {module: factor}`` for a fault planted here) the recording is written to
``folder/record``, and one line printed: ``{}`` or ``{"error"}``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from cpu import stack

stack.boot()

from cpu import recording, weights  # noqa: E402
from cpu.configuration import Configuration  # noqa: E402
from cpu.training import train  # noqa: E402
from cpu.workers import Workers  # noqa: E402


def plant(network: Any, scaled: dict[str, float]) -> None:
    """Make each named module give *factor* times its result."""

    def hook(factor: float) -> Any:
        return lambda module, given, made: made * factor

    modules = dict(network.named_modules())
    for name, factor in scaled.items():
        modules[name].register_forward_hook(hook(factor))


def run(line: dict[str, Any]) -> None:
    """Run one configuration and record it."""
    os.environ["LMSV_RUN_DIR"] = line["folder"]
    os.environ["LMSV_LOCATE"] = ",".join(map(str, line.get("record", [1])))
    configuration = Configuration(line["documents"])
    seed, steps = line["seed"], line["steps"]
    scaled = line.get("scaled", {})
    if line["model"] in ("cogvideox", "internvl3"):
        from cpu.cogvideox import CogVideoX
        from cpu.internvl3 import InternVL3

        made = {"cogvideox": CogVideoX, "internvl3": InternVL3}[line["model"]](configuration, seed)
        plant(made.network, scaled)
        train(
            configuration,
            made.network,
            made.micro_batch,
            made.loss,
            steps=steps,
            seed=seed,
            workers=Workers(),
            on_start=lambda digests: None,
            on_step=lambda **figures: None,
            recorder=recording.from_environment(),
        )
    elif line["model"] == "qwenvl":
        from cpu.qwenvl import QwenVL

        asked = QwenVL(configuration, steps)
        weights.fill(asked.network, seed)
        plant(asked.network, scaled)
        with recording.whole(asked.network, 0):
            asked.answer()
    else:
        from cpu.opensora import OpenSora

        pipeline = OpenSora(configuration, seed, steps)
        weights.fill(pipeline, seed)
        plant(pipeline, scaled)
        with recording.whole(pipeline, 0):
            pipeline.generate(0, lambda step: None)


for text in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines():
    try:
        run(json.loads(text))
        print("{}", flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
