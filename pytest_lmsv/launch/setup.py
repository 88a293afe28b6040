"""`lmsv setup cpu`: makes the two CPU environments ahead of time."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pytest_lmsv.launch import environments


def main(argv: Sequence[str]) -> int:
    """Make the environments that are not there yet; EnvironmentProblem where one can't be made."""
    parser = argparse.ArgumentParser(
        prog="lmsv setup", description="Make the environments of PTA and MSA for the cpu device."
    )
    parser.add_argument("device", choices=["cpu"])
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="take packages from this folder")
    parser.add_argument("--index-url", metavar="URL", help="take packages from this index")
    parser.add_argument("--python", type=Path, metavar="PATH", help="the Python to make them with")
    parser.add_argument("--env-dir", type=Path, metavar="DIR", help="where to make them")
    given = parser.parse_args(argv)
    environments.setup(
        folder=given.env_dir,
        wheels=given.wheels,
        index_url=given.index_url,
        python=given.python,
    )
    return 0
