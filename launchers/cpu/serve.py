"""Runs many configurations in one process of a stack: one JSON line in, one JSON line out.

``serve.py [--plants FOLDER] [--requests FILE --answers FILE]``: a request is ``{"model":
"cogvideox", "documents": {...}, "steps": 5, "seed": 43}``; with ``"noise": N`` it is the
N-th noise run instead. The answer of a training is ``{"losses", "grad_norms", "parameter_norms"}``,
of an inference ``{"token_ids", "logprobs"}`` or ``{"video": base64 of float32, "shape"}``, each
with ``"seconds"``; or ``{"error"}``. Requests come from stdin, or from a file where a
launcher started several workers; then each worker writes ``FILE.<rank>``.

``--plants`` names the folder of a Python package ``plants``; ``plants.planted(name)`` is entered
around a request with ``"fault": name``. That is the only way to a wrong result on purpose, and no
launcher takes it.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from lmsv_record import number

from cpu import scheduler

TRAINED = {"cogvideox": "cpu.cogvideox:CogVideoX", "internvl3": "cpu.internvl3:InternVL3"}


def trained(request: dict[str, Any], configuration, group) -> dict[str, Any]:
    """Train; return the curve that a record of the run would hold."""
    from cpu import noise

    module, name = TRAINED[request["model"]].split(":")
    seed = request["seed"]
    model = getattr(import_module(module), name)(configuration, seed)
    moved = request.get("noise", 0)
    return noise.training(
        configuration, model, steps=request["steps"], seed=seed, workers=group, noise=moved
    )


def answered(request: dict[str, Any], configuration, group) -> dict[str, Any]:
    """Let Qwen2.5-VL answer."""
    from cpu import weights
    from cpu.qwenvl import QwenVL

    model = QwenVL(configuration, request["steps"])
    weights.fill(model.network, request["seed"], request.get("noise", 0))
    found = model.answer()
    return {"token_ids": found.ids, "logprobs": [number(value) for value in found.logprobs]}


def filmed(request: dict[str, Any], configuration, group) -> dict[str, Any]:
    """Let OpenSora make its first video."""
    from cpu import weights
    from cpu.opensora import OpenSora

    pipeline = OpenSora(configuration, request["seed"], request["steps"])
    weights.fill(pipeline, request["seed"], request.get("noise", 0))
    video = pipeline.generate(0, lambda step: None)
    packed = base64.b64encode(video.astype("<f4").tobytes()).decode("ascii")
    return {"video": packed, "shape": list(video.shape)}


WAYS = {"cogvideox": trained, "internvl3": trained, "qwenvl": answered, "opensora": filmed}


def answer(request: dict[str, Any], group) -> dict[str, Any]:
    """Run one request, with its fault planted where it names one."""
    from cpu.configuration import Configuration

    begun = time.perf_counter()
    fault = request.get("fault")
    planted = import_module("plants").planted(fault) if fault else contextlib.nullcontext()
    with planted:
        found = WAYS[request["model"]](request, Configuration(request["documents"]), group)
    return {**found, "seconds": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plants")
    parser.add_argument("--requests")
    parser.add_argument("--answers")
    given = parser.parse_args()
    if scheduler.is_scheduler():
        scheduler.serve()
        return
    # What a stack prints must not come between the answers.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if given.plants:
        sys.path.insert(0, given.plants)
    from cpu import stack, workers

    stack.boot()
    group = workers.join()
    with contextlib.ExitStack() as files:
        lines = sys.stdin
        if given.requests:
            lines = files.enter_context(Path(given.requests).open(encoding="utf-8"))
            place = Path(f"{given.answers}.{group.rank}")
            out = files.enter_context(place.open("w", encoding="utf-8"))
        print(json.dumps({"ready": stack.versions()}), file=out, flush=True)
        for text in lines:
            try:
                found = answer(json.loads(text), group)
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {error}"[:500]}
            print(json.dumps(found), file=out, flush=True)
    group.close()


if __name__ == "__main__":
    main()
