"""What msprobe's comparison says, by its numbers alone.

Its ``Result`` column says "pass" of rows that it could not match and of gradients that are wrong by
half, so it is never read; rows without a partner are counted.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_lmsv.judge.locating import Location

NAMES = ("NPU Name", "Bench Name")
ERRORS = ("NormRelativeErr", "MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr")
LIMIT = 0.02
"""bf16 keeps 8 bits, 0.4 % of a value; over layers of it two sound stacks stay below 2 %."""
SHOWN = 3
_ENTRY = re.compile(
    r"^(?:Module|Cell)\.(?P<name>.+?)\.(?P<type>[^.]+)\.(?P<way>forward|backward|parameters_grad)"
    r"(?:\.(?P<call>\d+))?(?:\.(?P<part>.+))?$"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor of both sides; ``relative`` is that of its norm, None without a partner."""

    module: str
    type: str
    way: str
    """``forward``, ``backward`` or ``parameters_grad``."""
    part: str
    relative: float | None
    baseline: str = ""
    compare: str = ""


def rows(text: str) -> tuple[Row, ...]:
    """Return the rows of module entries in msprobe's CSV, in its order."""
    found = []
    for line in csv.DictReader(io.StringIO(text)):
        target, bench = (str(line.get(name) or "").strip() for name in NAMES)
        matched = _is_name(target) and _is_name(bench)
        entry = _ENTRY.match(target if _is_name(target) else bench)
        if entry is None:
            continue
        call = entry["call"] or "0"
        name = entry["name"] if call == "0" else f"{entry['name']}#{int(call) + 1}"
        found.append(
            Row(
                name,
                entry["type"],
                entry["way"],
                entry["part"] or "",
                _relative(line) if matched else None,
                str(line.get("Bench l2norm") or line.get("Bench L2norm") or ""),
                str(line.get("NPU l2norm") or line.get("NPU L2norm") or ""),
            )
        )
    return tuple(found)


def _is_name(text: str) -> bool:
    return text not in ("", "N/A", "None", "nan")


def _relative(line: Mapping[str, Any]) -> float | None:
    """The relative difference of the norms: ``"1.0000%"``; the other columns where it has none."""
    for name in ERRORS:
        text = str(line.get(name) or "").strip()
        if text in ("", "N/A", "None", "nan", "unsupported"):
            continue
        if text.lower() in ("diff", "nan", "inf"):
            return math.inf
        try:
            value = float(text.rstrip("%"))
        except ValueError:
            continue
        return abs(value) / 100 if text.endswith("%") else abs(value)
    return None


def located(found: Sequence[Row], step: int, limit: float = LIMIT) -> Location:
    """Return the first module of the forward whose output differs; else the first wrong gradient.

    msprobe writes entries as they end: children before parents, the backward pass in its order.
    """
    outputs = [r for r in found if r.way == "forward" and r.part.startswith("output")]
    gradients = [r for r in found if r.way == "parameters_grad"]
    flows = [r for r in found if r.way == "backward" and r.part.startswith("output")]
    alone = tuple(
        f"{row.module}.{row.way}" + (f".{row.part}" if row.part else "")
        for row in found
        if row.relative is None
    )
    common: dict[str, Any] = {
        "step": step,
        "unmatched": alone,
        "compared": len(found) - len(alone),
        "steps": (step,),
    }
    if found and len(alone) == len(found):
        return Location(
            "nothing",
            sentence=f"step {step}: none of {len(found)} rows has a partner on the other side: "
            "nothing was compared",
            **common,
        )
    for rows_, kind, text in (
        (outputs, "module", "first differing module"),
        (gradients, "gradient", "all forwards agree; first wrong gradient in backward order"),
        (flows, "gradient", "forwards and weight gradients agree; first wrong gradient"),
    ):
        judged = [row for row in rows_ if row.relative is not None]
        wrong = [n for n, row in enumerate(judged) if not (row.relative or 0.0) <= limit]
        if not wrong:
            continue
        first = judged[wrong[0]]
        name = f"{first.module}.{first.part}" if kind == "gradient" else first.module
        given = [
            row
            for row in found
            if row.way == "forward"
            and row.module == first.module
            and row.part.startswith("input")
            and row.relative is not None
            and not row.relative <= limit
        ]
        before = "; it was given other values already" if kind == "module" and given else ""
        return Location(
            "between" if before else kind,  # type: ignore[arg-type]
            name=name,
            measure="norm",
            baseline=first.baseline,
            compare=first.compare,
            relative=first.relative or 0.0,
            sentence=f"step {step}: {text}: {name} ({first.type}){before} (norm {first.baseline} "
            f"against {first.compare}, relative {first.relative:.1e}); {len(alone)} of "
            f"{len(found)} rows without a partner were not compared",
            right=tuple(row.module for row in judged[max(0, wrong[0] - SHOWN) : wrong[0]]),
            then=tuple(judged[n].module for n in wrong[1 : 1 + SHOWN]),
            differing=len(wrong),
            **common,
        )
    return Location(
        "nothing",
        sentence=f"step {step}: {common['compared']} rows agree within {limit:.0%}; {len(alone)} "
        "rows without a partner were not compared",
        **common,
    )


def as_pytorch(dump: Any) -> Any:
    """Return *dump* (dump.json) as PyTorch would have written it, so that both sides match.

    Type names of mindtorch become torch's; requires_grad, which mindtorch tells otherwise, is made
    equal, as msprobe calls every row an error where it differs.
    """
    return {**_renamed(dump), "framework": "pytorch"}


def _renamed(value: Any) -> Any:
    if isinstance(value, list):
        return [_renamed(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _renamed(item) for key, item in value.items()}
    if "dtype" in plain and "shape" in plain:
        kind = str(plain["dtype"]).replace("mindspore.", "torch.")
        if "." not in kind:
            kind = f"torch.{kind.lower()}"
        plain.update(type="torch.Tensor", dtype=kind, requires_grad=True)
    return plain
