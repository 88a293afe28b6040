"""The two sides of an iteration and how they are called (DESIGN 2)."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_lmsv.records import Stack


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its stack, its label in texts, and its name in files and folders."""

    role: str
    stack: Stack
    label: str
    slug: str


def sides(compare: str) -> tuple[Side, Side]:
    """Return the baseline side and the compare side of *compare*, as ``pta_msa``."""
    if compare == "pta_msa":
        return (
            Side("baseline", "pta", "PTA", "pta"),
            Side("compare", "msa", "MSA", "msa"),
        )
    stack: Stack = "pta" if compare == "pta_pta" else "msa"
    name = stack.upper()
    return (
        Side("baseline", stack, f"{name}-BASELINE", f"{stack}_baseline"),
        Side("compare", stack, f"{name}-REPLAY", f"{stack}_replay"),
    )
