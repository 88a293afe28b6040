"""Noise runs: the same work from weights moved by one unit in the last place (docs/drift.md).

They come after the run itself, in its process: what they change measures how far rounding alone
may take a sound stack. They print nothing, and whatever happens to them the run itself stands.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from lmsv_record import RECORD, number

from cpu import weights
from cpu.configuration import Configuration
from cpu.workers import Workers


def asked() -> int:
    """Return how many noise runs this run is to make."""
    return int(os.environ.get("LMSV_NOISE") or 0)


def measure(run: Callable[[int], dict[str, Any]]) -> None:
    """Finish the record, then make the noise runs: ``run(1)``, ``run(2)`` ...; store them."""
    if not asked():
        return
    RECORD.finish()
    runs, problem = [], None
    try:
        runs = [run(each) for each in range(1, asked() + 1)]
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    RECORD.write_noise({"runs": runs, "error": problem})


def training(
    configuration: Configuration, model, *, steps: int, seed: int, workers: Workers, noise: int
) -> dict[str, Any]:
    """Train *model* and return its curve, as numbers that JSON can hold."""
    from cpu.training import train

    curve: dict[str, Any] = {"losses": [], "grad_norms": [], "parameter_norms": []}

    def on_step(step: int, loss: float, norm: float, each, **others: Any) -> None:
        curve["losses"].append((step, number(loss)))
        curve["grad_norms"].append((step, number(norm)))
        if each is not None:
            norms = {name: number(value) for name, value in each.items()}
            curve["parameter_norms"].append((step, norms))

    train(
        configuration,
        model.network,
        model.micro_batch,
        model.loss,
        steps=steps,
        seed=seed,
        workers=workers,
        on_start=lambda digests: None,
        on_step=on_step,
        noise=noise,
    )
    return curve


def videos(pipeline, seed: int, made: Sequence[np.ndarray], noise: int) -> dict[str, Any]:
    """Make the videos again and return how far each is from the one *made*, relative."""
    weights.fill(pipeline, seed, noise)
    outputs = []
    for place, before in enumerate(made):
        again = pipeline.generate(place, lambda step: None)
        gap = np.linalg.norm(again.astype(np.float64) - before) / np.linalg.norm(before)
        outputs.append(
            {"name": f"video_{place}.npy", "kind": "video", "difference": number(float(gap))}
        )
    return {"outputs": outputs}


def answer(model, seed: int, made, noise: int) -> dict[str, Any]:
    """Answer again and return how far tokens and log probabilities are from those *made*."""
    weights.fill(model.network, seed, noise)
    again = model.answer()
    pairs = list(zip_longest(made.ids, again.ids))
    wrong = [place for place, (a, b) in enumerate(pairs, start=1) if a != b]
    sure = wrong[0] - 1 if wrong else len(pairs)
    gaps = [abs(a - b) for a, b in zip(made.logprobs[:sure], again.logprobs[:sure], strict=True)]
    return {
        "outputs": [
            {
                "name": "answer_0.json",
                "kind": "text",
                "difference": len(wrong),
                "place": wrong[0] if wrong else None,
                "logprob": number(max(gaps, default=0.0)),
            }
        ]
    }
