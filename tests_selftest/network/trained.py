"""Runs the cpu networks in a stack's environment, for the tests beside this file."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_lmsv import catalog, data
from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.apply import arguments

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

LAUNCHERS = data.launchers()
MODELS = catalog.load([data.mm_configs()])
COGVIDEOX = MODELS["cogvideox"]
NETWORKS = {"internvl3": "cpu.internvl3:InternVL3"}
SECTIONS = "/model/text_decoder/mrope_section"
HEADS = (
    ("/model/text_decoder/hidden_size", 96, [4, 4, 4]),
    ("/model/text_decoder/num_attention_heads", 8, [1, 1, 2]),
    ("/model/text_decoder/num_attention_heads", 2, [4, 6, 6]),
)
"""Sizes of Qwen2.5-VL's heads, and the sections that fit them."""
WIDTHS = (
    "/model/image_encoder/vision_projector/hidden_size",
    "/model/image_encoder/vision_encoder/llm_hidden_size",
)


def changed(changes: Mapping[str, Any], model: str = "cogvideox") -> dict[str, Any]:
    """The unmutated documents of *model* on cpu with *changes*, by JSON Pointer."""
    documents = MODELS[model].documents("cpu")
    for path, value in changes.items():
        pointer.put(documents, path, value)
    return documents


def mended(key: Any, value: Any, model: str) -> dict[str, Any]:
    """The edit with what it sets, and what else the rules then want."""
    changes = dict.fromkeys((key.path, *key.sets), value)
    if key.path.endswith("/pipeline_num_layers"):
        changes[key.path.replace("pipeline_num_layers", "num_layers")] = sum(value)
    if key.path.endswith("/num_layers"):
        changes[key.path.replace("num_layers", "pipeline_num_layers")] = [value]
    for path, number, sections in HEADS if model == "qwenvl" else ():
        if changes.get(path) == number or changes.get(SECTIONS) == sections:
            changes |= {path: number, SECTIONS: sections}
            changes |= {other: number for other in WIDTHS if path.endswith("/hidden_size")}
    return changes


def curves(
    environment: StackEnvironment,
    folder: Path,
    configurations: Iterable[Mapping[str, Any]],
    *,
    steps: int = 5,
    seed: int = 43,
    model: str = "cogvideox",
    noise: int = 0,
) -> list[dict[str, Any]]:
    """What each of *configurations* gives when trained, all in one process of *environment*.

    *noise*: how many noise runs follow each.
    """
    job: dict[str, Any] = {"steps": steps, "seed": seed, "noise": noise}
    if model in NETWORKS:
        job["network"] = NETWORKS[model]
    jobs = [{"documents": each, **job} for each in configurations]
    return in_one_process(environment, folder, "curves.py", jobs)


def answers(
    environment: StackEnvironment,
    folder: Path,
    configurations: Iterable[Mapping[str, Any]],
    *,
    steps: int = 5,
    seed: int = 43,
) -> list[dict[str, Any]]:
    """What Qwen2.5-VL answers with each of *configurations*, all in one process."""
    jobs = [{"documents": each, "steps": steps, "seed": seed} for each in configurations]
    return in_one_process(environment, folder, "answers.py", jobs)


def in_one_process(
    environment: StackEnvironment, folder: Path, program: str, jobs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What *program* of launchers/cpu prints for each of *jobs*, one line each."""
    file = folder / "jobs.jsonl"
    file.write_text("\n".join(map(json.dumps, jobs)), encoding="utf-8")
    done = environment.run(
        [LAUNCHERS / "cpu" / program, file],
        env={"LMSV_STACK": environment.stack, "LMSV_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(jobs)
    return lines


def free_port() -> str:
    """A port that nobody has, below those that the system gives away by itself."""
    start = 20000 + os.getpid() * 7 % 10000
    for port in itertools.chain(range(start, 30000), range(20000, start)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return str(port)
    raise AssertionError("no free port")


def launched(
    environment: StackEnvironment,
    folder: Path,
    changes: Mapping[str, Any],
    model: str = "cogvideox",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """One run of *changes* by the launcher, in *folder*; its record lies there afterwards."""
    folder.mkdir()
    documents = changed(changes, model)
    for name in ("model", "data"):
        (folder / f"{name}.json").write_text(json.dumps(documents[name]), encoding="utf-8")
    tokens = "\n".join(arguments(documents["args"]))
    (folder / "args.txt").write_text(f"{tokens}\n", encoding="utf-8")
    contract = {
        "LMSV_DEVICE": "cpu",
        "LMSV_RUN_ID": folder.name,
        "LMSV_RUN_DIR": str(folder),
        "LMSV_ENV": str(environment.path),
        "MM_MODEL": str(folder / "model.json"),
        "MM_DATA": str(folder / "data.json"),
        "LMSV_ARGS": str(folder / "args.txt"),
    }
    return subprocess.run(
        ["bash", LAUNCHERS / f"{environment.stack}_{model}.sh"],
        env={**environment.variables(), **contract, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def steps(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    """The step records that a run left in *folder*."""
    text = (folder / "record" / f"steps_{rank}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def completion(folder: Path, rank: int = 0) -> dict[str, Any]:
    """The completion record that a run left in *folder*."""
    text = (folder / "record" / f"rank_{rank}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def relative(one: Iterable[float], other: Iterable[float]) -> float:
    """The greatest relative difference of two curves of the same length."""
    return max(abs(a - b) / max(abs(a), 1e-30) for a, b in zip(one, other, strict=True))
