"""``--lmsv-save-weights``: which weights a run writes, and which of them are kept.

An iteration's weights are 11 to 15 GB a side (facts: task6 6.5), so that the space is asked for
before the run, and what the verdict does not need is removed after it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Verdict

SaveWeights = Literal["never", "abnormal", "always"]
CHOICES: tuple[SaveWeights, ...] = ("never", "abnormal", "always")
SIDE_GB = 15.0


def save_path(policy: SaveWeights, folder: Path) -> str:
    """SAVE_PATH of a run, "" where it is to write no weights."""
    return "" if policy == "never" else str(folder)


def check_space(policy: SaveWeights, folder: Path, *, sides: int, side_gb: float = SIDE_GB) -> None:
    """Raise EnvironmentProblem ``no_space`` where the next iteration's weights would not fit."""
    if policy == "never":
        return
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1024**3
    needed = sides * side_gb
    if free < needed:
        raise EnvironmentProblem(
            f"{place}: {free:.1f} GB free, {needed:.0f} GB are needed for the weights of one "
            "iteration; free some, or give --lmsv-save-weights never",
            "no_space",
        )


def abnormal(verdicts: Iterable[Verdict], *, failed: bool) -> bool:
    """Whether an iteration is one whose weights ``abnormal`` keeps: a side failed, or an NG."""
    return failed or any(verdict.result == "NG" for verdict in verdicts)


def settle(policy: SaveWeights, folders: Iterable[Path], *, is_abnormal: bool) -> tuple[Path, ...]:
    """Remove what the policy does not keep, after the verdict; the folders that stay.

    Only what lies in *folders* (``weights/{pta,msa}`` of the iteration) is touched, and no link is
    followed out of them.
    """
    kept = []
    for folder in folders:
        if folder.is_symlink() or not folder.is_dir():
            continue
        if policy == "always" or (policy == "abnormal" and is_abnormal):
            if any(folder.iterdir()):
                kept.append(folder)
        else:
            shutil.rmtree(folder)
    return tuple(kept)


def size_gb(folder: Path) -> float:
    """What *folder* holds, in GB = 1024 ** 3 bytes, for the report."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) / 1024**3
