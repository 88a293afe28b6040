"""What the toy launchers start on each machine: one rank that behaves as its documents say.

It speaks the launch contract of DESIGN 6.3 and nothing else. ``/model/on`` of the model document:
``"<stack><rank>": "<behaviour>"``.
"""

import json
import os
import sys
import time
from pathlib import Path

STACK, RANK, RANKS = sys.argv[1], int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
RUN = Path(os.environ["LMSV_RUN_DIR"])
MODEL = json.loads(Path(os.environ["MM_MODEL"]).read_text())
LR = float(Path(os.environ["LMSV_ARGS"]).read_text().split("\n")[1])
STEPS = int(os.environ["TRAIN_ITERS"])
LINE = (
    " [2026-01-01 00:00:00] iteration {0:8d}/{1:8d} | consumed samples: {0:12d} | elapsed time per "
    "iteration (ms): 10.0 | learning rate: 1.000000E-05 | global batch size:     1 | loss: {2:.6E} "
    "| loss scale: 1.0 | grad norm: 1.000 | number of skipped iterations:   0 | number of nan "
    "iterations:   0 |"
)


def main() -> None:
    """Train, or do what was asked."""
    behaviour = MODEL.get("on", {}).get(STACK + str(RANK), "")
    (RUN / "record").mkdir()
    (RUN / "samples").mkdir()
    (RUN / "msrun_log").mkdir()
    (RUN / "msrun_log" / f"worker_{RANK}.log").write_text(f"worker {RANK} starts\n")
    kept = {name: text for name, text in os.environ.items() if name.isupper()}
    (RUN / "samples" / f"environment_{RANK}.json").write_text(json.dumps(kept))
    if os.environ.get("SAVE_PATH"):
        Path(os.environ["SAVE_PATH"]).mkdir(parents=True)
        (Path(os.environ["SAVE_PATH"]) / f"part_{RANK}").write_text("weights")
    if behaviour == "raise":
        time.sleep(0.3)
        raise RuntimeError("planted on this machine")
    if behaviour == "idle":
        return
    if behaviour == "killed once" and not Path("/tmp/killed").exists():
        Path("/tmp/killed").touch()
        time.sleep(2)
        os.kill(os.getpid(), 9)
    if behaviour == "peer lost":
        time.sleep(0.6)
        print("RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer")
        sys.exit(1)
    if behaviour == "stay":
        (RUN / "record" / "stays").touch()
        time.sleep(600)
    if behaviour == "script":
        os.chdir(str(RUN))
        os.execvp("bash", ["bash", "-c", MODEL["script"]])
    if behaviour == "serve":  # as rank 0 of torchrun: whoever holds the port makes it fail
        import socket

        server = socket.socket()
        try:
            server.bind((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        except OSError as error:
            what = "The server socket has failed to listen on any local network address."
            port = "port: " + os.environ["MASTER_PORT"]
            sys.exit(f"torch.distributed.DistNetworkError: {what} {port}, code: -98, name: "
                     f"EADDRINUSE, message: {error}")  # fmt: skip
    if behaviour == "flood":
        line = "x" * 999 + "\n"
        for _ in range(MODEL["megabytes"]):
            sys.stdout.write(line * 1049)
        sys.stdout.flush()
    if behaviour == "hostile":
        (RUN / "record" / "rank_7.json").symlink_to("/etc/passwd")
        (RUN / "msrun_log" / "worker_9.log").symlink_to("/etc/passwd")
        (RUN / "samples" / "a\nb").write_text("x")
        (RUN / "samples" / "out").symlink_to("/etc")
        os.mkfifo(str(RUN / "samples" / "pipe"))
    for step in range(1, STEPS + 1):
        time.sleep(float(MODEL.get("seconds", 0)))
        if RANK == RANKS - 1:
            print(LINE.format(step, STEPS, (MODEL["width"] + LR * 1e5) / step), flush=True)
    record = {
        "schema": 1,
        "complete": True,
        "rank": RANK,
        "world_size": RANKS,
        "run_id": os.environ["LMSV_RUN_ID"],
        "steps": STEPS,
        "memory_mb": 100.0 + RANK,
        "memory_kind": "rss",
        "versions": {},
        "documents": {},
        "parameters": {},
        "echo": {"/model/width": MODEL["width"]},
    }
    (RUN / "record" / f"rank_{RANK}.json").write_text(json.dumps(record))


main()
