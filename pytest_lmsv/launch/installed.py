"""What is installed in an environment, read from its folders without starting anything."""

from __future__ import annotations

import os
import re
from pathlib import Path


def versions(environment: Path) -> dict[str, str]:
    """Version of each package by its normalized name, from the names of the dist-info folders."""
    found: dict[str, str] = {}
    for site in sorted(environment.glob("lib*/python3*/*-packages")):
        with os.scandir(site) as entries:
            for entry in entries:
                if entry.name.endswith(".dist-info"):
                    name, _, version = entry.name.removesuffix(".dist-info").rpartition("-")
                    found[re.sub(r"[-_.]+", "-", name).lower()] = version
    return found
