"""Figures in a line of a training log: step records, memory, and what wrappers print at the end.

Formats: Megatron's and MindSpeed-MM's `training_log` and `report_memory`, MindSpeed-MM's FSDP
engine, MindSpore's callbacks, MindFormers' and Hugging Face's trainers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

NUMBER = r"[-+]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][-+]?\d{1,5})?"
_FIGURE = re.compile(
    rf"\s*(?:tensor\()?(?P<value>{NUMBER}|[-+]?(?:nan|inf(?:inity)?)(?![a-z]))"
    rf"(?:\s*/\s*{NUMBER})?\)?\s*(?P<unit>[a-zA-Z]*)\s*\Z",
    re.IGNORECASE,
)
# The look-behind stands after the word: so the search runs on a literal.
RECORD = re.compile(
    r"iteration(?<!\witeration):?\s{0,12}(\d{1,12})\s{0,12}/\s{0,12}(\d{1,12})(?!\d)"
)
_ALLOCATED = re.compile(rf"max allocated:\s{{0,4}}({NUMBER})(?:\s{{0,4}}\||(?=\s{{0,4}}$))")
_MEMORY_KEY = re.compile(
    rf"max_memory_allocated\s?\(?(GB|MB)\)?\s?[:=]\s{{0,4}}({NUMBER})(?![\d.eE])"
)
_FOOTER = re.compile(
    r"\s{0,8}(?P<key>(?:lm )?loss|npu memory|max allocated|elapsed time per iteration)"
    rf"\s?(?:\((?P<unit>MB|GB|ms|s)\))?\s?:\s{{0,4}}(?P<value>{NUMBER}|nan|[-+]?inf)"
    r"\s?(?P<after>MB|GB|ms|s)?[\s|]{0,4}\Z",
    re.IGNORECASE,
)
_MINDSPORE = re.compile(
    r"epoch:\s?(?P<epoch>\d{1,9}),?\s{1,4}step:\s?(\d{1,9}),?\s{1,4}"
    rf"loss is:?\s({NUMBER}|nan|[-+]?inf)",
    re.IGNORECASE,
)
_MINDSPORE_TIME = re.compile(rf"per step time:\s?({NUMBER})\s?ms")
_MINDFORMERS = re.compile(
    r"Epoch:\[\s{0,9}(?P<epoch>\d{1,9})\s?/\s{0,9}\d{1,9}\],\s?"
    r"step:\[\s{0,9}(\d{1,9})\s?/\s{0,9}(\d{1,9})\],\s?(.{0,400})\Z",
    re.IGNORECASE,
)
_TRAINER = re.compile(rf"\s{{0,4}}\{{'loss': '?({NUMBER}|nan|inf)'?, (.{{0,400}})\}}")
_UNITS = {"": 1.0, "ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 0.001}

# Losses beside the main one; "loss scale" is none at all.
_AUXILIARY = re.compile(
    r"aux|balanc|z_?loss|mtp|valid|eval|test|moe|router|indexer|distill|regular", re.IGNORECASE
)


class StepRecord(NamedTuple):
    """What one line says of one step. ``time_ms`` in milliseconds; None where it says nothing.

    A named tuple: a long log makes millions.
    """

    step: int
    steps: int | None
    loss: float | None
    loss_key: str
    grad_norm: float | None
    time_ms: float | None
    skipped: int
    nan_iterations: int
    last_key: str
    closed: bool
    """Ends in the separator, as a whole record of Megatron does."""

    def fuller(self, other: StepRecord) -> bool:
        """Whether this says all that *other* says, and more: *other* was cut."""
        mine = (self.loss, self.time_ms, self.grad_norm)
        others = (other.loss, other.time_ms, other.grad_norm)
        agree = all(right in (None, left) for left, right in zip(mine, others, strict=True))
        return agree and (mine != others or (self.closed and not other.closed))

    def with_figures(self, step: int, figures: Mapping[str, float]) -> StepRecord:
        """The same record of another step with other figures; None where there is none."""
        return self._replace(
            step=step,
            loss=figures.get("loss"),
            grad_norm=figures.get("grad_norm"),
            time_ms=figures.get("time_ms"),
        )

    @property
    def nan_loss(self) -> bool:
        """The loss is missing because it was NaN (DESIGN 5.1): Megatron prints it only if > 0."""
        if self.loss is not None:
            return False
        if self.nan_iterations:
            return True
        norm = self.grad_norm
        return not self.skipped and norm is not None and not math.isfinite(norm)


def figure(text: str) -> tuple[float, str] | None:
    """Number and unit of a field such as ``1.5E+00``, ``nan``, ``384 ms`` or ``12.1/12.3``."""
    match = _FIGURE.match(text) if len(text) < 200 else None
    return (float(match["value"]), match["unit"].lower()) if match else None


def _number(text: str) -> float | None:
    """A field without a unit; the first of a pair."""
    try:
        return float(text)
    except ValueError:
        found = figure(text)
        return found[0] if found else None


def _milliseconds(key: str, text: str) -> float | None:
    try:
        number, unit = float(text), ""
    except ValueError:
        found = figure(text)
        if found is None:
            return None
        number, unit = found
    if key.endswith(("(s)", "(sec)")):
        unit = "s"
    elif key.endswith("(ms)"):
        unit = "ms"
    return number * _UNITS.get(unit, 1.0)


def _count(text: str) -> int:
    number = _number(text)
    return int(number) if number is not None and math.isfinite(number) else 0


def step_records(text: str, start: re.Match[str] | None = None) -> list[StepRecord]:
    """All step records in *text*, which may hold several glued to one another.

    *start*: the first match of RECORD, where it is known.
    """
    start = start or RECORD.search(text)
    records = []
    while start is not None:
        following = RECORD.search(text, start.end())
        end = len(text)
        if following:  # what precedes the next record belongs to neither
            end = max(text.rfind("|", start.end(), following.start()) + 1, start.end())
        record = _step_record(start, text[start.end() : end])
        if record is not None:
            records.append(record)
        start = following
    return records


def _step_record(start: re.Match[str], rest: str) -> StepRecord | None:
    loss: float | None = None
    loss_key = last_key = ""
    best = 9
    grad_norm: float | None = None
    time_ms: float | None = None
    skipped = nan_iterations = 0
    scale = False
    fields = rest.split("|")
    closed = len(fields) > 1 and not fields[-1].strip()
    for field in fields[1:]:
        raw_key, colon, value = field.rpartition(":")
        if not colon:
            continue
        meaning, last_key = meaning_of(raw_key)
        if meaning is None:
            continue
        if meaning == "time":
            time_ms = _milliseconds(last_key, value)
        elif meaning == "norm":
            grad_norm = _number(value)
        elif meaning == "skipped":
            skipped = _count(value)
        elif meaning == "nan":
            nan_iterations = _count(value)
        elif meaning == "scale":
            scale = True
        else:
            worth = int(meaning)
            number = _number(value) if worth < best else None
            if number is not None:
                loss, loss_key, best = number, last_key, worth
    if loss is None and time_ms is None and grad_norm is None and not scale:
        return None  # the FSDP engine's memory line, a progress message
    return StepRecord(
        int(start[1]), int(start[2]), loss, loss_key, grad_norm, time_ms,
        skipped, nan_iterations, last_key, closed,
    )  # fmt: skip


_MEANINGS = {
    "gradnorm": "norm",
    "grad_norm": "norm",
    "numberofskippediterations": "skipped",
    "numberofnaniterations": "nan",
    "lossscale": "scale",
}


@lru_cache(maxsize=512)
def meaning_of(raw_key: str) -> tuple[str | None, str]:
    """What a field is, and its key without blanks (a wrapped record loses those at line ends).

    A digit is a loss, the main one first.
    """
    key = "".join(raw_key.split())
    if key.startswith("elapsedtimeper"):
        return "time", key
    if key in _MEANINGS or not key.endswith("oss"):
        return _MEANINGS.get(key), key
    if key in {"loss", "lmloss"}:
        return ("0" if key == "loss" else "1"), key
    if key.lower() in {"totalloss", "total_loss", "trainloss", "train_loss", "trainingloss"}:
        return "2", key
    return (None if _AUXILIARY.search(key) else "3"), key


def other_step(text: str) -> tuple[int, StepRecord] | None:
    """Epoch and step, counted in the epoch, in the formats of MindSpore and MindFormers."""
    steps: int | None = None
    loss = time_ms = None
    if match := _MINDSPORE.search(text):
        loss = float(match[3])
    elif (match := _MINDFORMERS.search(text)) and "loss" in match[4]:
        steps = int(match[3])
        for field in match[4].split(","):
            key, _, value = field.partition(":")
            found = figure(value)
            if found and key.strip() == "loss":
                loss = found[0]
            elif found and key.strip() == "per_step_time":
                time_ms = _milliseconds(key, value)
    if match is None or loss is None:
        return None
    record = StepRecord(
        int(match[2]), steps, loss, "loss", None, time_ms, 0, 0, "loss", True
    )  # fmt: skip
    return int(match["epoch"]), record


def trainer_step(text: str, seen: dict[str, int]) -> StepRecord | None:
    """A step of Hugging Face's trainer, which prints no number: its place among those *seen*."""
    match = _TRAINER.match(text)
    if not match:
        return None
    values = dict(part.split(": ", 1) for part in match[2].split(", ") if ": " in part)
    figures = {key.strip("'"): _number(value.strip("'")) for key, value in values.items()}
    step = seen.setdefault(values.get("'epoch'", text), len(seen) + 1)
    return StepRecord(
        step, None, float(match[1]), "loss", figures.get("grad_norm"), None, 0, 0, "loss", True,
    )  # fmt: skip


def mean_step_time(text: str) -> float | None:
    """MindSpore's mean time of the steps of an epoch, ms."""
    match = _MINDSPORE_TIME.search(text)
    return float(match[1]) if match else None


def peak_memory(text: str) -> float | None:
    """The highest allocated (never reserved) memory that *text* reports, MB."""
    values = []
    if "memory (MB)" in text:
        values = [float(match[1]) for match in _ALLOCATED.finditer(text)]
    values += [
        float(match[2]) * (1024.0 if match[1] == "GB" else 1.0)
        for match in _MEMORY_KEY.finditer(text)
    ]
    values = [value for value in values if value > 0 and math.isfinite(value)]
    return max(values) if values else None


@dataclass(frozen=True, slots=True)
class Footer:
    """A figure on a line of its own, as wrappers print it when the work is over."""

    what: Literal["loss", "memory", "peak", "time"]
    value: float


def footer(text: str) -> Footer | None:
    """The figure of a wrapper's summary line (memory in MB, time in ms)."""
    match = _FOOTER.match(text) if len(text) < 200 else None
    if not match:
        return None
    key = match["key"].lower()
    value = float(match["value"])
    unit = (match["unit"] or match["after"] or "").lower()
    if key.endswith("loss"):
        return Footer("loss", value) if not unit else None
    if key.startswith("elapsed"):
        return Footer("time", value * _UNITS.get(unit, 1.0))
    if value <= 0 or unit in {"ms", "s"}:  # no run uses no memory: a figure that nobody measured
        return None
    value *= 1024.0 if unit == "gb" else 1.0
    return Footer("peak" if key == "max allocated" else "memory", value)
