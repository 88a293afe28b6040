"""What is installed in an environment, read from its folders without starting anything."""

from __future__ import annotations

import os
import re
from pathlib import Path

# Both forms: name-version.dist-info and, of setup.py, name-version-py3.11.egg-info.
NAMED = re.compile(r"(.+?)-(\d[^-]*)(?:-py[\d.]+)?\.(?:dist|egg)-info")


def versions(environment: Path) -> dict[str, str]:
    """Version of each package by its normalized name, from the names of the dist-info folders."""
    found: dict[str, str] = {}
    for site in sorted(environment.glob("lib*/python3*/*-packages")):
        with os.scandir(site) as entries:
            for entry in entries:
                match = NAMED.fullmatch(entry.name)
                if match is not None:
                    found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found
