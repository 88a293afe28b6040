"""Makes the videos of many configurations in one process, without a launcher.

``videos.py FILE FOLDER``: for each JSON line of FILE (``{"documents": {...}, "steps": 5, "seed":
43}``) one line out: ``{"video": "<n>.npy" in FOLDER, "parameter_count", "parameters", "echo"}`` or
``{"error"}``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cpu import stack

stack.boot()

import numpy as np  # noqa: E402

from cpu import weights  # noqa: E402
from cpu.configuration import Configuration  # noqa: E402
from cpu.opensora import OpenSora  # noqa: E402


def made(line: dict[str, Any], path: Path) -> dict[str, Any]:
    """Make the first video of one configuration; return what a mutation of it may show in."""
    configuration = Configuration(line["documents"])
    pipeline = OpenSora(configuration, line["seed"], line["steps"])
    held = weights.fill(pipeline, line["seed"])
    np.save(path, pipeline.generate(0, lambda step: None))
    return {
        "video": path.name,
        "parameter_count": sum(parameter.numel() for parameter in pipeline.parameters()),
        "parameters": {name: each["digest"] for name, each in held.items()},
        "echo": configuration.echo,
    }


jobs = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
for number, text in enumerate(jobs):
    try:
        answer = made(json.loads(text), Path(sys.argv[2]) / f"{number}.npy")
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
