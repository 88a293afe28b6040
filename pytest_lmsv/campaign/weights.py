"""The room that saved weights take: 11 to 15 GB a side on npu (facts: task6 6.5)."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_lmsv.problems import EnvironmentProblem

SIDE_GB = 15.0


def check_space(folder: Path, *, sides: int, side_gb: float = SIDE_GB) -> None:
    """Raise EnvironmentProblem ``no_space`` where the next iteration's weights would not fit."""
    place = folder
    while not place.exists():
        place = place.parent
    free, needed = shutil.disk_usage(place).free / 1024**3, sides * side_gb
    if free < needed:
        raise EnvironmentProblem(
            f"{place}: {free:.1f} GB free, {needed:.0f} GB are needed for the weights of one "
            "iteration; free some, or give --lmsv-save-weights never",
            "no_space",
        )


def size_gb(folder: Path) -> float:
    """What *folder* holds, in GB = 1024 ** 3 bytes, for the report."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) / 1024**3
