"""The house of DESIGN 3: who may import whom, and who may import pytest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pytest_lmsv

ROOT = Path(pytest_lmsv.__file__).parent
FLOORS = {
    "plugin": 7,
    "cli": 7,
    "fixtures": 6,
    "report": 6,
    "session": 5,
    "sources": 5,
    "machines": 5,
    "usage": 5,
    "hookspecs": 6,
    "campaign": 5,
    "doctor": 5,
    "score": 5,
    "cluster": 4,
    "launch": 3,
    "judge": 2,
    "mutation": 2,
    "logs": 2,
    "catalog": 2,
    "settings": 2,
    "options": 1,
    "option_values": 1,
    "task6_config": 2,
    "records": 1,
    "problems": 1,
    "data": 1,
    "files": 1,
    "wording": 1,
}
MAY_IMPORT_PYTEST = {
    "plugin",
    "session",
    "sources",
    "machines",
    "usage",
    "fixtures",
    "hookspecs",
    "report",
    "__init__",
}
MODULES = sorted(path for path in ROOT.rglob("*.py") if "_data" not in path.parts)


def room(path: Path) -> str:
    """The part of the house that *path* belongs to: its package, or its own name."""
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_never_point_upward(path: Path) -> None:
    here = room(path)
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "pytest_lmsv" and len(parts) > 1 and parts[1] in FLOORS and here in FLOORS:
            assert parts[1] == here or FLOORS[parts[1]] <= FLOORS[here], f"{here} imports {name}"
        if parts[0] in {"pytest", "_pytest"}:
            assert here in MAY_IMPORT_PYTEST, f"{path} imports {name}"
            assert parts[0] != "_pytest", f"{path} imports a private module: {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_belongs_to_a_known_room(path: Path) -> None:
    assert room(path) in FLOORS or room(path) == "__init__"
