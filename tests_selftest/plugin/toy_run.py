"""What the toy launchers start: a run of a second at most that behaves as behaviour.json says.

It speaks the launch contract of DESIGN 6.3 (documents, records, log lines) and nothing else: the
plugin's tests need many runs with chosen ends, not a network.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

STACK = sys.argv[1]
RUN = Path(os.environ["LMSV_RUN_DIR"])
MODEL = json.loads(Path(os.environ["MM_MODEL"]).read_text("utf-8"))
ARGS = Path(os.environ["LMSV_ARGS"]).read_text("utf-8").split("\n")
STEPS = int(os.environ["TRAIN_ITERS"])


def behaviour() -> dict[str, object]:
    """The wanted behaviour of this stack: the first rule whose conditions fit the documents."""
    rules = json.loads(Path(os.environ["TOY_BEHAVIOUR"]).read_text("utf-8"))
    for rule in rules.get(STACK, []):
        if all(MODEL.get(key) == value for key, value in rule.get("when", {}).items()):
            once = rule.get("once")
            if once and Path(once).exists():
                continue
            if once:
                Path(once).touch()
            return dict(rule)
    return {}


def main() -> None:
    rule = behaviour()
    loss = float(ARGS[ARGS.index("--lr") + 1]) * 1e5 + MODEL["width"]
    loss *= float(str(rule.get("loss_factor", 1.0)))
    records = RUN / "record"
    records.mkdir()
    if rule.get("pid_file"):
        Path(str(rule["pid_file"])).write_text(str(os.getpid()), encoding="utf-8")
    for step in range(1, STEPS + 1):
        if rule.get("error_at") == step:
            raise RuntimeError(str(rule["error"]))
        if rule.get("kill_at") == step:
            os.kill(os.getpid(), signal.SIGKILL)
        if rule.get("hang_at") == step:
            time.sleep(600)
        time.sleep(float(str(rule.get("seconds", 0))))
        hidden = rule.get("silent") or rule.get("nan_at") == step
        shown = "" if hidden else f" loss: {loss / step:.6E} |"
        nans = int(rule.get("nan_at") == step)
        print(
            f" [2026-01-01 00:00:00] iteration {step:8d}/{STEPS:8d} | consumed samples: {step:12d} "
            f"| elapsed time per iteration (ms): {rule.get('ms', 10.0)} | learning rate: "
            f"1.000000E-05 | global batch size:     1 |{shown} loss scale: 1.0 | grad norm: 1.000 "
            f"| number of skipped iterations:   0 | number of nan iterations: {nans:3d} |",
            flush=True,
        )
        if rule.get("exact"):
            gradients = {"first": 0.6, "second": 0.8 * float(str(rule["exact"]))}
            line = {"step": step, "loss": loss / step, "grad_norm": 1.0}
            if step in (1, STEPS):
                line["parameter_grad_norms"] = gradients
            with (records / "steps_0.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    weights = f"{MODEL['width']}{rule.get('weights', '')}".encode()
    record = {
        "schema": 1,
        "complete": True,
        "rank": 0,
        "world_size": 1,
        "run_id": os.environ["LMSV_RUN_ID"],
        "stack": STACK,
        "device": "cpu",
        "steps": STEPS,
        "memory_mb": rule.get("memory", 100.0),
        "memory_kind": "rss",
        "generation_s": None,
        "versions": {},
        "documents": {},
        "parameters": {
            "weight": {
                "dtype": "float32",
                "shape": [MODEL["width"]],
                "digest": "sha256:" + hashlib.sha256(weights).hexdigest(),
            }
        },
        "parameter_count": MODEL["width"],
        "echo": {} if rule.get("deaf") else {"/model/width": MODEL["width"]},
    }
    (records / "rank_0.json").write_text(json.dumps(record), encoding="utf-8")
    if rule.get("noise") and os.environ.get("LMSV_NOISE") == "1":
        lines = (records / "steps_0.jsonl").read_text("utf-8").splitlines()
        steps = [json.loads(text) for text in lines]
        factor = 1.0 + float(str(rule["noise"]))
        curve = {
            "losses": [(each["step"], each["loss"]) for each in steps],
            "grad_norms": [(each["step"], each["grad_norm"]) for each in steps],
            "parameter_norms": [
                (each["step"], {k: v * factor for k, v in each["parameter_grad_norms"].items()})
                for each in steps
                if "parameter_grad_norms" in each
            ],
        }
        noise = {"run_id": record["run_id"], "runs": [curve], "error": None}
        (records / "noise_0.json").write_text(json.dumps(noise), encoding="utf-8")


main()
