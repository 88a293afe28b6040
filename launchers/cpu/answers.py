"""Lets Qwen2.5-VL answer with many configurations in one process, without a launcher.

``answers.py FILE``: for each JSON line of FILE (``{"documents": {...}, "steps": 5, "seed": 43}``)
one line out: ``{"token_ids", "logprobs", "parameter_count", "parameters", "echo"}`` or
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

from cpu import weights  # noqa: E402
from cpu.configuration import Configuration  # noqa: E402
from cpu.qwenvl import QwenVL  # noqa: E402


def answers(line: dict[str, Any]) -> dict[str, Any]:
    """Let one configuration answer; return what a mutation of it may show in."""
    configuration = Configuration(line["documents"])
    model = QwenVL(configuration, line["steps"])
    digests = weights.fill(model.network, line["seed"])
    found = model.answer()
    return {
        "token_ids": found.ids,
        "logprobs": found.logprobs,
        "parameter_count": sum(each.numel() for each in model.network.parameters()),
        "parameters": {name: held["digest"] for name, held in digests.items()},
        "echo": configuration.echo,
    }


for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    try:
        answer = answers(json.loads(text))
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
