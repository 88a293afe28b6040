"""What is kept of a failed run on npu, so that a finding can be shown and repeated by hand.

CANN's own logs lie in the run folder already (ASCEND_PROCESS_LOG_PATH); they are moved beside the
state of the NPUs, the versions, and the command with its variables.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.launch import ascend, npus

OF_THE_CONTRACT = (
    "ASCEND_", "DATASET_", "GLOO_", "HCCL_", "LMSV_", "LOAD_PATH", "MASTER_", "MINDSPEED_", "MM_",
    "MSA_", "NNODES", "NODE_RANK", "NPUS_PER_NODE", "PTA_", "SAVE_PATH", "TRAIN_ITERS",
    "WORKSPACE_ROOT",
)  # fmt: skip


def keep(
    folder: Path,
    *,
    launcher: Sequence[str],
    variables: Mapping[str, str],
    versions: Mapping[str, str],
    snapshot: npus.Snapshot | None,
    root: Path = ascend.ASCEND,
) -> tuple[Path, ...]:
    """Write the evidence of one run into *folder*; the files that are there now.

    *snapshot* is one of :func:`npus.look` right after the run; CANN's logs are taken from where
    *variables* say that they went, if that is not in *folder* already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "by_hand.sh", by_hand(launcher, variables))
    driver = snapshot.driver if snapshot else None
    own = {"cann": ascend.cann_version(root), "driver": driver}
    write_json(folder / "versions.json", {**versions, **own})
    if snapshot is not None:
        write_whole(folder / "npu-smi.txt", snapshot.text)
    logs = Path(variables.get("ASCEND_PROCESS_LOG_PATH", ""))
    if logs.is_absolute() and logs.is_dir() and folder not in (logs, *logs.parents):
        shutil.move(str(logs), str(folder / "ascend_log"))
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))


def by_hand(launcher: Sequence[str], variables: Mapping[str, str]) -> str:
    """A script that starts *launcher* again with the *variables* of the launch contract."""
    lines = ["#!/usr/bin/env bash", "# Repeats one run by hand, without pytest (DESIGN 6.3)."]
    lines += [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(variables.items())
        if name.startswith(OF_THE_CONTRACT)
    ]
    return "\n".join([*lines, shlex.join(launcher)]) + "\n"
