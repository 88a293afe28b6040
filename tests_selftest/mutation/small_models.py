"""Small models written for a test: folders as mm_configs holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_lmsv import catalog
from pytest_lmsv.problems import InputProblem

MODEL: dict[str, Any] = {
    "name": "tiny",
    "aliases": ["wee"],
    "kind": "training",
    "entry": {"cpu": "cpu/pretrain_tiny.py", "npu": "pretrain_tiny.py"},
    "patch_points": {"pretrain_tiny.py": "tiny:generate"},
    "layouts": {"cpu": {"devices": 1}, "npu": {"devices": 8, "tp": 4, "accumulation": 4}},
    "stack_overrides": {"pta": {}, "msa": {"/args/bf16": False}},
    "mindspeed_mm": ["2.2.0", "2.3.0"],
}
DOCUMENTS: dict[str, Any] = {
    "model": {
        "predictor": {"num_layers": 2, "num_heads": 4, "hidden_size": 64, "dropout": 0.0},
        "norm": {"type": "qk_ln", "eps": 1e-5, "affine": True},
        "scale": [1.0, 1.0, 1.0],
        "text_length": 8,
        "split": None,
        "frames": 17,
    },
    "data": {"text": {"max_length": 8}, "num_frames": 9, "batches": [4, 8]},
    "args": {"lr": 1e-5, "min-lr": 1e-6, "clip-grad": 1.0, "bf16": True, "seed": 42},
}
SPACE: dict[str, Any] = {
    "keys": [
        {"path": "/model/predictor/num_layers", "values": [1, 2, 3, 4], "fresh_weights": True},
        {"path": "/model/predictor/num_heads", "values": [2, 3, 4, 8, 16], "fresh_weights": True},
        {
            "path": "/model/predictor/hidden_size",
            "values": [32, 48, 64, 80, 96],
            "fresh_weights": True,
        },
        {"path": "/model/predictor/dropout", "values": [0.0, 0.1, 0.2, 0.3]},
        {"path": "/model/norm/type", "values": ["qk_ln", "ada_norm", "none"]},
        {"path": "/model/norm/eps", "values": [1e-5, 1e-6, 1e-4]},
        {"path": "/model/norm/affine", "values": [False]},
        {"path": "/model/scale", "values": [[1.0, 2.0, 1.0], [2.0, 1.0, 1.0]]},
        {
            "path": "/model/text_length",
            "values": [4, 8, 12, 16],
            "sets": ["/data/text/max_length"],
        },
        {"path": "/model/frames", "live": "no reader in the training path"},
        {"path": "/data/num_frames", "values": {"cpu": [5, 9, 13], "npu": [17, 25]}},
        {"path": "/data/batches/1", "values": [2, 4, 6]},
        {"path": "/args/lr", "values": [1e-5, 2e-5, 1e-4, 1e-7]},
        {"path": "/args/clip-grad", "values": [0.5, 1.0, 2.0]},
    ],
    "constraints": [
        {
            "rule": "divisible",
            "path": "/model/predictor/hidden_size",
            "by": "/model/predictor/num_heads",
        },
        {"rule": "equal", "paths": ["/model/text_length", "/data/text/max_length"]},
        {"rule": "at_most", "path": "/data/batches/1", "limit": 8},
        "min_lr_at_most_lr",
    ],
}


def write(
    folder: Path,
    *,
    model: dict[str, Any] | None = None,
    documents: dict[str, Any] | None = None,
    space: dict[str, Any] | None = None,
    devices: tuple[str, ...] = ("cpu", "npu"),
) -> Path:
    """Write one model into *folder* (a mm_configs) and return its own folder."""
    content = {**MODEL, **(model or {})}
    place = folder / str(content["name"])
    for device in devices:
        (place / device).mkdir(parents=True, exist_ok=True)
        for name, document in {**DOCUMENTS, **(documents or {})}.items():
            (place / device / f"{name}.json").write_text(json.dumps(document, indent=1))
    (place / "model.yaml").write_text(yaml.safe_dump(content))
    (place / "space.yaml").write_text(yaml.safe_dump({**SPACE, **(space or {})}))
    return place


def complaint(folder: Path) -> str:
    """The one line that loading *folder* ends with."""
    with pytest.raises(InputProblem) as caught:
        catalog.load([folder])
    text = str(caught.value)
    assert "\n" not in text
    return text
