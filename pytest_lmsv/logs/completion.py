"""Completion records and exact figures of steps, as the entry wrapper writes them (DESIGN 6.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_lmsv.records import Completion, Curve, Note, Parameter, SampleDifference


@dataclass(frozen=True)
class Exact:
    """The figures of the steps at full precision: each rank's, and those of the noise runs."""

    ranks: Mapping[int, Curve] = field(default_factory=dict)
    noise: tuple[Curve, ...] = ()

    @property
    def losses(self) -> dict[int, float]:
        """The losses over all ranks."""
        return {step: loss for curve in self.ranks.values() for step, loss in curve.losses}

    @property
    def grad_norms(self) -> dict[int, float]:
        """The grad norms over all ranks."""
        return {step: norm for curve in self.ranks.values() for step, norm in curve.grad_norms}

    @property
    def curves(self) -> tuple[Curve, ...]:
        """One curve for all ranks that agree; a rank of its own mind has its own."""
        found: list[Curve] = []
        for rank in sorted(self.ranks):
            if self.ranks[rank] not in found:
                found.append(self.ranks[rank])
        return tuple(found)


def read_record(
    record: Path | Sequence[Path] | None, run_id: str | None, notes: list[Note]
) -> tuple[tuple[Completion, ...], Exact]:
    """Completion records and exact figures of the steps of one run (DESIGN 6.3)."""
    if record is None:
        return (), Exact()
    folders = [record] if isinstance(record, Path) else list(record)
    completions: dict[int, Completion] = {}
    curves: dict[int, Curve] = {}
    noise: tuple[Curve, ...] = ()
    for folder in folders:
        for path in sorted(folder.glob("rank_*.json")):
            found = _completion(path, run_id, notes)
            if found is not None:
                completions[found.rank] = found
        for path in sorted(folder.glob("steps_*.jsonl")):
            curve = _curve(path)
            if curve.losses or curve.grad_norms:
                curves[int(path.stem.partition("_")[2])] = curve
        for path in sorted(folder.glob("noise_*.json")):
            noise = noise or _noise(path, run_id, notes)
    return tuple(completions[rank] for rank in sorted(completions)), Exact(curves, noise)


def belongs(written: str, run_id: str) -> bool:
    """Whether *written* is the id of run *run_id* or of its part on one of several machines."""
    return re.fullmatch(re.escape(run_id) + r"(\.n[0-9]+)?", written) is not None


def _completion(path: Path, run_id: str | None, notes: list[Note]) -> Completion | None:
    try:
        data = json.loads(path.read_bytes())
        if data.get("complete") is not True:
            return None
        if run_id is not None and not belongs(data["run_id"], run_id):
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


def _curve(path: Path) -> Curve:
    """Return the figures of the steps in *path*; a line that was still being written is left."""
    losses: dict[int, float] = {}
    norms: dict[int, float] = {}
    each: dict[int, Mapping[str, float]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            data = json.loads(line)
            step = int(data["step"])
            loss, norm = number(data.get("loss")), number(data.get("grad_norm"))
            parts = _norms(data.get("parameter_grad_norms") or {})
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if loss is not None:
            losses[step] = loss
        if norm is not None:
            norms[step] = norm
        if parts:
            each[step] = parts
    return Curve(tuple(losses.items()), tuple(norms.items()), tuple(each.items()))


def _norms(data: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in data.items()}


def _noise(path: Path, run_id: str | None, notes: list[Note]) -> tuple[Curve, ...]:
    """Return what the noise runs in *path* made; a failed one is a note."""
    try:
        data = json.loads(path.read_bytes())
        if run_id is not None and not belongs(data["run_id"], run_id):
            return ()
        if data.get("error"):
            notes.append(Note("noise", f"the noise run failed: {data['error']}"))
        return tuple(_noise_curve(run) for run in data["runs"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        notes.append(Note("noise", f"{path}: no figures of a noise run ({error!r})"))
        return ()


def _noise_curve(run: Mapping[str, Any]) -> Curve:
    return Curve(
        tuple((int(step), float(loss)) for step, loss in run.get("losses", ())),
        tuple((int(step), float(norm)) for step, norm in run.get("grad_norms", ())),
        tuple((int(step), _norms(each)) for step, each in run.get("parameter_norms", ())),
        tuple(
            SampleDifference(
                str(made["name"]),
                made["kind"],
                number(made["difference"]),
                place=made.get("place"),
                logprob=number(made.get("logprob")),
            )
            for made in run.get("outputs", ())
        ),
    )
