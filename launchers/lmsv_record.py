"""The completion record of one rank: what a run's work was, written when it is done (DESIGN 6.3).

The entry wrapper begins and finishes it. The cpu networks tell it what they know (steps, weights,
configuration read); for MindSpeed-MM's own scripts that is done by patch points.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import resource
from pathlib import Path
from typing import Any

MB = 1024 * 1024
DOCUMENTS = {"model": "MM_MODEL", "data": "MM_DATA", "args": "LMSV_ARGS"}


def number(value: float) -> Any:
    """Return *value* at nine digits; NaN and infinities by the names of DESIGN 6.2."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(f"{value:.9g}")


def status_kb(field: str) -> int | None:
    """Return a memory field of this process (KB); None where the system does not tell."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


class Record:
    """Collects what one rank has to say, and writes ``record/`` of the run folder."""

    def __init__(self) -> None:
        self.folder = Path(os.environ.get("LMSV_RUN_DIR", ".")) / "record"
        self.rank = int(os.environ.get("RANK", os.environ.get("RANK_ID", "0")))
        self.world_size = int(os.environ.get("WORLD_SIZE", os.environ.get("RANK_SIZE", "1")))
        self.facts: dict[str, Any] = {"memory_mb": None, "memory_kind": None, "generation_s": None}
        self.facts.update(steps=None, versions={}, parameters={}, echo={})
        self._steps = 0
        self._baseline_kb: int | None = None
        self._finished = False

    def discard(self) -> None:
        """Remove what an earlier run of this rank left here: it is not this run's."""
        (self.folder / f"rank_{self.rank}.json").unlink(missing_ok=True)
        (self.folder / f"steps_{self.rank}.jsonl").unlink(missing_ok=True)
        (self.folder / f"noise_{self.rank}.json").unlink(missing_ok=True)

    def imports_done(self) -> None:
        """Measure peak resident memory from here on, above what is resident now."""
        with contextlib.suppress(OSError):  # where it is forbidden the peak may lie before this
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._baseline_kb = status_kb("VmRSS")

    def begin(self, **facts: Any) -> None:
        """Note what is known before the work: versions, parameters, echo, rank, world_size."""
        self.rank = facts.pop("rank", self.rank)
        self.world_size = facts.pop("world_size", self.world_size)
        self.facts.update(facts)
        self.discard()
        self.folder.mkdir(parents=True, exist_ok=True)

    def step(self, step: int, loss: float, norm: float, each: dict[str, float] | None) -> None:
        """Write one step at full precision, with each parameter's gradient norm where given."""
        line: dict[str, Any] = {"step": step, "loss": number(loss), "grad_norm": number(norm)}
        if each is not None:
            line["parameter_grad_norms"] = {name: number(value) for name, value in each.items()}
        with (self.folder / f"steps_{self.rank}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._steps = step
        self.facts["steps"] = step

    def finish(self) -> None:
        """Write the record whole: its presence says that the work was complete.

        What comes after it, as noise runs, is no part of it.
        """
        if self._finished:
            return
        self._finished = True
        peak = status_kb("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if self.facts["memory_mb"] is None and self._baseline_kb is not None:
            used = max(0, peak - self._baseline_kb)
            self.facts.update(memory_mb=round(used * 1024 / MB, 3), memory_kind="rss")
        count = sum(math.prod(each["shape"]) for each in self.facts["parameters"].values())
        content = {
            "schema": 1,
            "complete": True,
            "rank": self.rank,
            "world_size": self.world_size,
            "run_id": os.environ.get("LMSV_RUN_ID", ""),
            "stack": os.environ.get("LMSV_STACK", ""),
            "device": os.environ.get("LMSV_DEVICE", ""),
            **self.facts,
            "documents": documents(),
            "samples": digests(self.folder.parent / "samples") if self.rank == 0 else {},
            "parameter_count": count,
        }
        self._write(f"rank_{self.rank}.json", content)

    def write_noise(self, content: dict[str, Any]) -> None:
        """Write what the noise runs were: ``{"runs": [curve, ...], "error": text or null}``."""
        named = {"schema": 1, "run_id": os.environ.get("LMSV_RUN_ID", ""), "rank": self.rank}
        self._write(f"noise_{self.rank}.json", {**named, **content})

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        aside = path.with_suffix(f".{os.getpid()}")
        with aside.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)


def documents() -> dict[str, str]:
    """Return the digest of each document that the run was given."""
    found = {name: os.environ.get(variable) for name, variable in DOCUMENTS.items()}
    return {
        name: digest(Path(path)) for name, path in found.items() if path and Path(path).is_file()
    }


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file in *folder*: what an inference made."""
    paths = sorted(folder.rglob("*")) if folder.is_dir() else []
    return {str(path.relative_to(folder)): digest(path) for path in paths if path.is_file()}


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, read in pieces: a video may be large."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(MB):
            found.update(piece)
    return f"sha256:{found.hexdigest()}"


RECORD = Record()
