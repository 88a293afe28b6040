"""Completion records and exact figures of steps, as the entry wrapper writes them (DESIGN 6.3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv.records import Completion, Note, Parameter

Exact = tuple[Mapping[int, float], Mapping[int, float]]


def read_record(
    record: Path | Sequence[Path] | None, run_id: str | None, notes: list[Note]
) -> tuple[tuple[Completion, ...], Exact]:
    """Completion records and exact figures of the steps of one run (DESIGN 6.3)."""
    if record is None:
        return (), ({}, {})
    folders = [record] if isinstance(record, Path) else list(record)
    completions: dict[int, Completion] = {}
    losses: dict[int, float] = {}
    norms: dict[int, float] = {}
    for folder in folders:
        for path in sorted(folder.glob("rank_*.json")):
            found = _completion(path, run_id, notes)
            if found is not None:
                completions[found.rank] = found
        for path in sorted(folder.glob("steps_*.jsonl")):
            _exact(path, losses, norms)
    return tuple(completions[rank] for rank in sorted(completions)), (losses, norms)


def _completion(path: Path, run_id: str | None, notes: list[Note]) -> Completion | None:
    try:
        data = json.loads(path.read_bytes())
        if data.get("complete") is not True:
            return None
        if run_id is not None and data["run_id"] != run_id:
            notes.append(Note("left_out", f"{path}: written by run {data['run_id']}"))
            return None
        return Completion(
            rank=int(data["rank"]),
            world_size=int(data["world_size"]),
            run_id=str(data["run_id"]),
            steps=data.get("steps"),
            memory_mb=number(data.get("memory_mb")),
            memory_kind=data.get("memory_kind"),
            generation_s=number(data.get("generation_s")),
            versions=data.get("versions") or {},
            documents=data.get("documents") or {},
            parameters={
                name: Parameter(entry["dtype"], tuple(entry["shape"]), entry["digest"])
                for name, entry in (data.get("parameters") or {}).items()
            },
            echo=data.get("echo") or {},
            samples=data.get("samples") or {},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        notes.append(Note("left_out", f"{path}: not a completion record ({error!r})"))
        return None


def number(value: Any) -> float | None:
    """A figure of a record: a number, or NaN and infinities as strings (DESIGN 6.2)."""
    if value is None or isinstance(value, bool):
        return None
    return float(value)


def _exact(path: Path, losses: dict[int, float], norms: dict[int, float]) -> None:
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            data = json.loads(line)
            step = int(data["step"])
            loss, norm = number(data.get("loss")), number(data.get("grad_norm"))
        except (ValueError, KeyError, TypeError):
            continue  # the line that was being written when the run ended
        if loss is not None:
            losses[step] = loss
        if norm is not None:
            norms[step] = norm
