"""One mapping of a YAML file, and its fields read by type; every complaint names file and key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pytest_lmsv import data
from pytest_lmsv.mutation.pointer import did_you_mean, kind, show
from pytest_lmsv.problems import InputProblem

_NAME = re.compile(r"[a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A mapping of a file: where it stands, and what it holds."""

    file: Path
    at: str
    value: dict[str, Any]

    @classmethod
    def read(cls, file: Path) -> Entry:
        """The whole of a YAML *file*, which must be a mapping."""
        return cls.of(file, "", data.read_yaml(file))

    @classmethod
    def of(cls, file: Path, at: str, value: Any) -> Entry:
        """*value* found at *at* in *file*; InputProblem where it is no mapping with text keys."""
        where = f"{file}: {at}" if at else f"{file}"
        if not isinstance(value, dict):
            raise InputProblem(f"{where}: expected 'key: value' lines, found {_short(value)}")
        for key in value:
            if not isinstance(key, str):
                raise InputProblem(f"{where}: the key {key!r} is not text; put it in quotes")
        return cls(file, at, value)

    def fail(self, key: str, what: str) -> NoReturn:
        """Raise the InputProblem ``file: key: what``."""
        raise InputProblem(f"{self.file}: {self._name(key)}: {what}")

    def only(self, *known: str) -> None:
        """Refuse a key that is not *known*."""
        for key in self.value:
            if key not in known:
                self.fail(key, f"unknown key{did_you_mean(key, known)}; known: {', '.join(known)}")

    def get(self, key: str, default: Any = None) -> Any:
        """The plain value of *key*."""
        return self.value.get(key, default)

    def required(self, key: str) -> Any:
        """The plain value of *key*, which must be there."""
        if key not in self.value:
            self.fail(key, "is missing; add it")
        return self.value[key]

    def text(self, key: str) -> str:
        """A text that must be there."""
        value = self.required(key)
        if not isinstance(value, str) or not value:
            self.fail(key, f"expected text, found {_short(value)}; correct it")
        return value

    def name_of(self, key: str) -> str:
        """A model's name: small letters, digits, points, dashes and underlines."""
        value = self.text(key)
        if not _NAME.fullmatch(value):
            self.fail(key, f"found {value!r}; use small letters, digits and . _ - only")
        return value

    def names(self, key: str) -> list[str]:
        """A list of names; absent is empty."""
        found = self.list_of(key, str)
        for value in found:
            if not _NAME.fullmatch(value):
                self.fail(key, f"found {value!r}; use small letters, digits and . _ - only")
        return found

    def choice(self, key: str, allowed: Sequence[str]) -> str:
        """One of the *allowed* words."""
        value = self.required(key)
        if value not in allowed:
            self.fail(key, f"expected {' or '.join(allowed)}, found {_short(value)}; choose one")
        return str(value)

    def size(self, key: str, default: int) -> int:
        """A whole number of 1 or more."""
        value = self.value.get(key, default)
        if type(value) is not int or value < 1:
            self.fail(key, f"expected a whole number of 1 or more, found {_short(value)}")
        return value

    def flag(self, key: str) -> bool:
        """true or false; absent is false."""
        value = self.value.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, f"expected true or false, found {_short(value)}; correct it")
        return value

    def list_of(self, key: str, item: type) -> list[Any]:
        """A list of one type; absent is empty."""
        value = self.value.get(key, [])
        if not isinstance(value, list) or not all(type(found) is item for found in value):
            wanted = "texts in quotes" if item is str else "entries"
            self.fail(key, f"expected a list of {wanted}, found {_short(value)}; correct it")
        return value

    def texts(self, key: str, known: Sequence[str] | None = None) -> dict[str, str]:
        """A mapping of texts, its keys among the *known* ones; absent is empty."""
        part = Entry.of(self.file, self._name(key), self.value.get(key, {}))
        if known is not None:
            part.only(*known)
        return {name: part.text(name) for name in part.value}

    def parts(self, key: str, known: Sequence[str]) -> list[tuple[str, Entry]]:
        """The mappings inside the mapping *key*, by name among the *known* ones."""
        part = Entry.of(self.file, self._name(key), self.value.get(key, {}))
        part.only(*known)
        return [
            (name, Entry.of(self.file, part._name(name), value))
            for name, value in part.value.items()
        ]

    def _name(self, key: str) -> str:
        return f"{self.at}: {key}" if self.at else key


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return f"{'an' if isinstance(value, dict) else 'a'} {kind(value)}"
    try:
        return show(value)
    except (TypeError, ValueError):
        return repr(value)
