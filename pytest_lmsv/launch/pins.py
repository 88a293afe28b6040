"""What the two CPU environments consist of: versions, Pythons and measured sizes.

Why these: docs/environments.md. Change a version here and the environment is built anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_lmsv.records import Stack

PythonVersion = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pins:
    """The packages of one stack's environment; sizes in MB = 1024 * 1024 bytes."""

    packages: Mapping[str, str]
    """Installed in one pip command, with their dependencies."""
    alone: Mapping[str, str]
    """Installed after them, without dependencies."""
    pythons: tuple[tuple[PythonVersion, ...], ...]
    """Versions that all packages have wheels for, in groups by preference."""
    download_mb: int
    installed_mb: int
    variants: Mapping[str, str] = field(default_factory=dict)
    """A package's build that is tried before the plain one, as ``{"torch": "cpu"}``."""
    variant_index: str | None = None
    """Where that build is looked for if pip's own index has none."""

    def versions(self) -> dict[str, str]:
        return {**self.packages, **self.alone}


PINS: Mapping[Stack, Pins] = {
    "pta": Pins(
        packages={"torch": "2.13.0", "numpy": "1.26.4"},
        alone={},
        # numpy 1.26.4 has wheels up to 3.12; the first group also suits MSA.
        pythons=(((3, 11), (3, 10)), ((3, 12),)),
        download_mb=210,
        installed_mb=975,
        variants={"torch": "cpu"},
        variant_index="https://download.pytorch.org/whl/cpu",
    ),
    "msa": Pins(
        # numpy and ml-dtypes in mindspore's own command: alone, ml-dtypes upgrades numpy to 2.x.
        packages={
            "mindspore": "2.7.1",
            "numpy": "1.26.4",
            "ml-dtypes": "0.5.4",
            "typing-extensions": "4.16.0",
        },
        # Its declared dependencies need torch and mindspore<=2.7.0; mindtorch needs none of them.
        alone={"mindnlp": "0.5.1"},
        pythons=(((3, 11), (3, 10)),),
        download_mb=860,
        installed_mb=2815,
    ),
}


def pinned(stack: Stack) -> Mapping[str, str]:
    """The versions that an environment of ours holds, by package, without starting anything."""
    return PINS[stack].versions()
