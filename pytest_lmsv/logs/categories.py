"""What an error's text means: categories of DESIGN 5.3, fatal messages, echoes and symptoms.

The texts live in ``patterns.yaml``; they are read only when a log holds something like an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.problems import InputProblem

CATEGORIES = frozenset(
    {
        *("port_in_use", "lost_node", "no_space", "device_busy"),
        *("missing_module", "file_missing", "weights"),
        *("hccl_comm", "killed", "hang"),
        *("out_of_memory", "device_exception", "aclnn_param", "op_compile", "numeric_nan"),
        *("config_assertion", "segfault", "incomplete", "other_python", "unknown"),
    }
)
OWN = Path(__file__).with_name("patterns.yaml")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of a file of patterns."""

    match: re.Pattern[str]
    example: str
    category: str = "unknown"
    type: str = ""
    find: str = ""
    unless: str = ""
    weak: bool = False
    cause: bool = False
    reason: str = ""

    @property
    def kind(self) -> str:
        return "cause" if self.cause else "weak" if self.weak else "plain"


@dataclass(frozen=True, slots=True)
class Patterns:
    """All patterns, the user's first."""

    categories: tuple[Pattern, ...]
    fatal: tuple[Pattern, ...]
    echoes: tuple[Pattern, ...]
    symptoms: tuple[Pattern, ...]
    benign: tuple[Pattern, ...]

    def category(self, line: str, around: Sequence[str] = ()) -> str | None:
        """The category of an error whose own text is *line*, printed with the lines *around*."""
        steps = (
            ("cause", (line, *around)),
            ("plain", (line,)),
            ("plain", around),
            ("weak", (line,)),
            ("weak", around),
        )
        for kind, texts in steps:
            for pattern in self.categories:
                if pattern.kind == kind and any(pattern.match.search(text) for text in texts):
                    return pattern.category
        return None

    def fatal_message(self, text: str) -> Pattern | None:
        for pattern in self.fatal:
            if pattern.find in text and pattern.match.search(text):
                return pattern
        return None

    def is_echo(self, text: str) -> bool:
        return any(pattern.match.search(text) for pattern in self.echoes)

    def benign_reason(self, *texts: str) -> str | None:
        found = (entry for entry in self.benign if any(map(entry.match.search, texts)))
        return next((entry.reason for entry in found), None)

    def is_symptom(self, text: str) -> bool:
        return any(pattern.match.search(text) for pattern in self.symptoms)


def needles(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """Literal parts of the fatal messages in the user's files, for the search through the log."""
    return tuple(
        pattern.find.encode() for path in paths for pattern in _read(path)["fatal"] if pattern.find
    )


@lru_cache(maxsize=8)
def load(paths: tuple[Path, ...] = ()) -> Patterns:
    """The patterns of *paths*, then those of this package.

    Raises InputProblem with file, entry and remedy where a file is not as it should be.
    """
    files = [_read(path) for path in (*paths, OWN)]
    joined = {key: tuple(entry for file in files for entry in file[key]) for key in _KEYS}
    return Patterns(**joined)


_KEYS: Mapping[str, frozenset[str]] = {
    "categories": frozenset({"category", "match", "example", "weak", "cause"}),
    "fatal": frozenset({"category", "match", "example", "type", "find", "unless"}),
    "echoes": frozenset({"match", "example"}),
    "symptoms": frozenset({"match", "example"}),
    "benign": frozenset({"match", "example", "reason"}),
}


def _read(path: Path) -> dict[str, list[Pattern]]:
    loaded = data.read_yaml(path)
    if not isinstance(loaded, dict):
        raise InputProblem(f"{path}: expected lists named {', '.join(_KEYS)}, found no mapping")
    unknown = sorted(set(map(str, loaded)) - set(_KEYS))
    if unknown:
        raise InputProblem(f"{path}: unknown list {unknown[0]!r}; known: {', '.join(_KEYS)}")
    return {
        key: [
            _entry(path, key, number, entry) for number, entry in enumerate(loaded.get(key) or [])
        ]
        for key in _KEYS
    }


def _entry(path: Path, key: str, number: int, entry: Any) -> Pattern:
    where = f"{path}: {key}[{number}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("match"), str):
        raise InputProblem(f"{where}: an entry needs `match`, a regular expression")
    unknown = sorted(set(map(str, entry)) - _KEYS[key])
    if unknown:
        raise InputProblem(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(_KEYS[key])}")
    try:
        match = re.compile(entry["match"])
    except re.error as error:
        raise InputProblem(f"{where}: `match` is no regular expression: {error}") from None
    category = entry.get("category", "unknown")
    if key in {"categories", "fatal"} and category not in CATEGORIES:
        known = ", ".join(sorted(CATEGORIES))
        raise InputProblem(f"{where}: unknown category {category!r}; known: {known}")
    if key == "fatal" and len(str(entry.get("find", ""))) < 4:
        raise InputProblem(f"{where}: `find` must be a literal part of the line, 4 letters or more")
    example = str(entry.get("example", ""))
    if not match.search(example):
        raise InputProblem(f"{where}: `match` does not match its own `example`: {example!r}")
    return Pattern(
        match=match,
        example=example,
        category=str(category),
        type=str(entry.get("type", "")),
        find=str(entry.get("find", "")),
        unless=str(entry.get("unless", "")),
        weak=bool(entry.get("weak", False)),
        cause=bool(entry.get("cause", False)),
        reason=str(entry.get("reason", "")),
    )
