"""The values that travel between the parts of the plugin: frozen, without behaviour.

Units everywhere: milliseconds for steps, seconds for runs and generations, MB = 1024 * 1024 bytes,
relative differences as plain fractions (0.05 is 5 %).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Stack = Literal["pta", "msa"]
Device = Literal["cpu", "npu"]
Kind = Literal["training", "inference"]
Outcome = Literal["ok", "error", "timeout"]
Result = Literal["OK", "NG", "N/A"]

Documents = Mapping[str, Any]
"""The three documents of a configuration: ``model``, ``data`` and ``args``."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a configuration: ``path`` is a JSON Pointer that begins with the document."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Mutation:
    """The edits of one attempt, and what they were drawn from."""

    model: str
    iteration: int
    attempt: int
    seed: int
    edits: tuple[Edit, ...]
    drawn_by: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of one run. A missing figure stays missing: None or an empty curve."""

    losses: Sequence[tuple[int, float]] = ()
    """A loss that vanished beside NaN iterations or a NaN grad norm is NaN here (DESIGN 5.1)."""
    grad_norms: Sequence[tuple[int, float]] = ()
    step_time_ms: Sequence[tuple[int, float]] = ()
    memory_mb: float | None = None
    generation_s: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each figure came from, as ``{"memory_mb": "rss, completion records"}``."""


@dataclass(frozen=True, slots=True)
class RunError:
    """The root error of a run (DESIGN 5.2)."""

    type: str
    message: str
    category: str
    rank: int | None = None
    line: str = ""
    line_number: int | None = None
    phase: Literal["run", "teardown"] = "run"
    known_bug: str | None = None
    log: str = ""
    """The file that ``line_number`` counts in."""
    chain: tuple[str, ...] = ()
    """Later exceptions of the chain and the stack's own error block, as printed."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something the log reading decided and a person may want to know (DESIGN 6.2)."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """Type and digest of one initial parameter of one rank."""

    dtype: str
    shape: tuple[int, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Completion:
    """``record/rank_<k>.json``: what the entry wrapper of one rank wrote when its work was done."""

    rank: int
    world_size: int
    run_id: str
    steps: int | None
    memory_mb: float | None
    memory_kind: str | None
    generation_s: float | None
    versions: Mapping[str, str]
    documents: Mapping[str, str]
    """Digest of each document that the run was given."""
    parameters: Mapping[str, Parameter]
    echo: Mapping[str, Any]
    """Configuration values that the run read, by JSON Pointer."""
    samples: Mapping[str, str] = field(default_factory=dict)
    """Digest of each file that an inference made."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One launch of one stack for one attempt, as it ended."""

    stack: Stack
    nodes: int
    outcome: Outcome
    complete: bool | None
    metrics: Metrics
    error: RunError | None = None
    teardown_error: RunError | None = None
    notes: tuple[Note, ...] = ()
    exit_status: int | None = None
    timed_out: bool = False
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    logs: tuple[str, ...] = ()
    completions: tuple[Completion, ...] = ()
    echo: Mapping[str, Any] = field(default_factory=dict)
    """Configuration values that its log shows, by JSON Pointer (npu)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """OK, NG or N/A of one quantity, with both values and their difference (DESIGN 5.4)."""

    name: str
    result: Result
    baseline: float | None
    compare: float | None
    difference: float | None
    """Relative for accuracy; in ``unit`` (MB, ms, tokens) for the others."""
    unit: str
    reason: str


@dataclass(frozen=True, slots=True)
class SampleDifference:
    """How one thing that both sides of an inference made differs."""

    name: str
    kind: Literal["text", "video"] | None
    """None where it can't be compared: ``reason`` says why."""
    difference: float | None = None
    """Video: norm of the difference relative to the baseline's. Text: number of tokens."""
    psnr_db: float | None = None
    """Video: peak signal to noise ratio by the baseline's range; infinite where equal."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One mutation that was tried and did not fill its iteration."""

    number: int
    verdict: Literal["invalid", "no effect", "environment"]
    reason: str
    folder: str


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """All of one iteration, as it is stored and shown."""

    model: str
    iteration: int
    mutation: Mutation | None
    attempts: tuple[Attempt, ...]
    baseline_run: RunRecord | None
    compare_run: RunRecord | None
    verdicts: tuple[Verdict, ...]
    status: str
    """``DONE``: both runs ended and were judged. ``ENVIRONMENT``: could not be tested."""
    reason: str = ""
    findings: tuple[str, ...] = ()
    """One sentence for each finding: an MSA error, an NG, a mutation that did not reach MSA."""
    failing: tuple[str, ...] = ()
    """Those of the findings that fail its test: the gate's."""
    kind: Kind = "training"
    samples: tuple[SampleDifference, ...] = ()
    """Of an inference whose two runs were ok: how what they made differs."""
