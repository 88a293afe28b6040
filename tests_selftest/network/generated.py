"""Makes OpenSora's videos in a stack's environment, for the tests beside this file."""

from __future__ import annotations

import json
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
OPENSORA = catalog.load([data.mm_configs()])["opensora"]
DIFFERENCES = """
import json, sys
from pathlib import Path
import numpy as np

first = np.load(sys.argv[1]).astype(float)
for path in sys.argv[2:]:
    other = np.load(path).astype(float)
    same = first.shape == other.shape
    print(float(np.linalg.norm(first - other) / np.linalg.norm(first)) if same else "inf")
"""


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The unmutated documents of cpu with *changes*, by JSON Pointer."""
    documents = OPENSORA.documents("cpu")
    for path, value in changes.items():
        pointer.put(documents, path, value)
    return documents


def launched(
    environment: StackEnvironment, folder: Path, changes: Mapping[str, Any], **variables: str
) -> subprocess.CompletedProcess[str]:
    """One run of *changes* by the launcher, in *folder*; record and samples lie there then."""
    folder.mkdir()
    documents = changed(changes)
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
        ["bash", LAUNCHERS / f"{environment.stack}_opensora.sh"],
        env={**environment.variables(), **contract, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def videos(
    environment: StackEnvironment,
    folder: Path,
    configurations: Iterable[Mapping[str, Any]],
    *,
    steps: int = 5,
    seed: int = 43,
) -> list[dict[str, Any]]:
    """What each of *configurations* makes, all in one process; videos are in *folder*."""
    jobs = [{"documents": each, "steps": steps, "seed": seed} for each in configurations]
    folder.mkdir(exist_ok=True)
    file = folder / "jobs.jsonl"
    file.write_text("\n".join(map(json.dumps, jobs)), encoding="utf-8")
    done = environment.run(
        [LAUNCHERS / "cpu" / "videos.py", file, folder],
        env={"LMSV_STACK": environment.stack, "LMSV_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(jobs)
    for line in lines:
        if "video" in line:
            line["path"] = folder / line["video"]
    return lines


def differences(environment: StackEnvironment, first: Path, others: Iterable[Path]) -> list[float]:
    """The relative difference of each of *others* from *first*; infinite where the shapes differ.

    *environment* is one with NumPy.
    """
    done = environment.run(["-c", DIFFERENCES, first, *others])
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]
