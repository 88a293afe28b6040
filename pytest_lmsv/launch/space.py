"""Room on a disk: what an environment takes, and whether there is enough for one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pytest_lmsv.launch.pins import Pins
from pytest_lmsv.problems import EnvironmentProblem


def check(pins: Pins, folder: Path) -> None:
    """EnvironmentProblem before anything is downloaded if *folder*'s disk is too full."""
    free = shutil.disk_usage(folder).free / 1024**2
    if free < pins.installed_mb + pins.download_mb:
        raise problem(pins, folder)


def problem(pins: Pins, folder: Path) -> EnvironmentProblem:
    need = pins.installed_mb + pins.download_mb
    free = shutil.disk_usage(folder).free / 1024**2
    return EnvironmentProblem(
        f"about {need} MB needed in {folder}, {free:.0f} MB free there: "
        "make room, or set lmsv_env_dir to a folder on another disk",
        "no_space",
    )


def used_mb(folder: Path) -> float:
    """What the files under *folder* take on disk."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{root}/{name}").st_blocks * 512
            except FileNotFoundError:
                continue
    return total / 1024**2
