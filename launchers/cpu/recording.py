"""What every module of a network gives, and every gradient: what ``lmsv locate`` compares.

``LMSV_LOCATE`` names the training steps to look at (``1,4``); an inference is recorded whole. Each
step is one line of ``record/modules_<rank>.jsonl``: calls of modules in the order in which their
forward ends (children before parents; the k-th call of one module is ``name#k``), with figures of
each tensor that goes in and of the first that comes out, and norms of weights and gradients.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

WRITTEN: set[Path] = set()
"""Files that this process began; what an earlier run left there is not this run's."""
MOST_INPUTS = 8
MOST_CALLS = 50_000
ROOT = "<network>"


def from_environment() -> Recorder | None:
    """Return what records this run, None where nobody asked for it."""
    steps = os.environ.get("LMSV_LOCATE", "")
    if not steps:
        return None
    folder = Path(os.environ.get("LMSV_RUN_DIR", ".")) / "record"
    return Recorder(folder, {int(step) for step in steps.split(",")})


@contextmanager
def whole(network, rank: int) -> Iterator[None]:
    """Record all that *network* does in this block, where that was asked for."""
    recorder = from_environment()
    if recorder is None:
        yield
        return
    recorder.begin(min(recorder.steps), network)
    recorder.active = True
    yield
    recorder.end(rank)


class Recorder:
    """Hooks the modules of one network while a step that was asked for runs."""

    def __init__(self, folder: Path, steps: set[int]) -> None:
        self._folder = folder
        self.steps = steps
        self.active = False
        """Whether calls of modules count now."""
        self._handles: list[Any] = []
        self._step: int | None = None
        self._facts: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    def observed(self, function):
        """Return *function*; module calls count only while it runs.

        A recomputed module runs again in the backward pass, when its function has ended.
        """

        def watched(*arguments):
            self.active = True
            try:
                return function(*arguments)
            finally:
                self.active = False

        return watched

    @property
    def recording(self) -> bool:
        """Whether this step is one to record."""
        return self._step is not None

    def begin(self, step: int, network) -> None:
        """Hook *network* if *step* is one to record."""
        if step not in self.steps:
            return
        self._step, self._counts = step, {}
        weights = {name: figures(array(p)) for name, p in network.named_parameters()}
        self._facts = {"step": step, "calls": [], "weights": weights}
        for name, module in network.named_modules():
            self._handles.append(
                module.register_forward_hook(self._hook(name or ROOT), with_kwargs=True)
            )

    def end(self, rank: int, **figures: Any) -> None:
        """Write the line of the step, with what else is known of it (``gradients``, ``loss``)."""
        if self._step is None:
            return
        for handle in self._handles:
            handle.remove()
        self._handles, self._step = [], None
        self._folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps(plain({**self._facts, **figures}))
        path = self._folder / f"modules_{rank}.jsonl"
        with path.open("a" if path in WRITTEN else "w", encoding="utf-8") as file:
            file.write(line + "\n")
        WRITTEN.add(path)

    def _hook(self, name: str):
        def record(module, arguments, keywords, result) -> None:
            calls = self._facts["calls"]
            if not self.active or len(calls) >= MOST_CALLS:
                return
            made = next(tensors(result), None)
            if made is None:
                return
            self._counts[name] = count = self._counts.get(name, 0) + 1
            given = [figures(array(t)) for t in tensors([arguments, keywords])]
            calls.append(
                {
                    "name": name if count == 1 else f"{name}#{count}",
                    "type": type(module).__name__,
                    "inputs": given[:MOST_INPUTS],
                    "output": figures(array(made)),
                }
            )

        return record


def tensors(value: Any):
    """Yield the tensors and arrays in *value*, in order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield value


def array(tensor: Any) -> np.ndarray:
    """Return the numbers of *tensor* at double precision."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
        if "bfloat16" in str(tensor.dtype):
            tensor = tensor.float()
        tensor = tensor.numpy()
    return np.asarray(tensor).astype(np.float64)


def norm(values: np.ndarray) -> float:
    """Return the Euclidean norm."""
    return float(np.sqrt((values * values).sum()))


def figures(values: np.ndarray) -> dict[str, Any]:
    """Return what is compared of an array.

    ``mixed`` is its product with fixed pseudo-random weights of spread one: unlike the others it
    changes when values trade places.
    """
    flat = values.reshape(-1)
    if not flat.size:
        return {"shape": list(values.shape)}
    weights = np.sqrt(2.0) * np.sin(12.9898 * np.arange(1, flat.size + 1) ** 1.5)
    return {
        "shape": list(values.shape),
        "mean": float(flat.mean()),
        "spread": float(flat.std()),
        "largest": float(np.abs(flat).max()),
        "norm": norm(flat),
        "mixed": float((flat * weights).sum()),
    }


def plain(value: Any) -> Any:
    """Return *value* for JSON: NaN and infinities by name (DESIGN 6.2)."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
