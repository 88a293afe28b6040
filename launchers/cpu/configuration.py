"""The configuration of a run, which remembers what was read from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REQUIRED = object()


class Configuration:
    """The documents ``model``, ``data`` and ``args``, read by JSON Pointer.

    ``echo`` holds each value that was really read (a default where the key is absent): what the
    completion record shows, and what proves that a mutation reached the run.
    """

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self.echo: dict[str, Any] = {}

    @classmethod
    def from_files(cls, *, args: Mapping[str, Any], **paths: str) -> Configuration:
        """Read the JSON documents in *paths* (document name to file) beside parsed *args*."""
        documents: dict[str, Any] = {"args": dict(args)}
        for name, path in paths.items():
            try:
                documents[name] = json.loads(Path(path).read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"--mm-{name}: {path} is not JSON: {error}") from error
        return cls(documents)

    def read(self, pointer: str, default: Any = REQUIRED) -> Any:
        """Return the value at *pointer*; KeyError where it is absent and has no *default*."""
        value: Any = self._documents
        for token in pointer.strip("/").split("/"):
            if isinstance(value, list) and token.isdigit() and int(token) < len(value):
                value = value[int(token)]
                continue
            if not isinstance(value, Mapping) or token not in value:
                if default is REQUIRED:
                    raise KeyError(f"the configuration has no {pointer}")
                value = default
                break
            value = value[token]
        self.echo[pointer] = value
        return value
