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
    place: int | None = None
    """Text: the first token that differs, counted from 1."""
    logprob: float | None = None
    """Text: largest difference of the log probabilities of the tokens before that place."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The exact figures of one run, from ``record/``: what the verdict drift compares."""

    losses: tuple[tuple[int, float], ...] = ()
    grad_norms: tuple[tuple[int, float], ...] = ()
    parameter_norms: tuple[tuple[int, Mapping[str, float]], ...] = ()
    """Each parameter's gradient norm at the first and the last step, in the network's order."""
    outputs: tuple[SampleDifference, ...] = ()
    """Of a noise run of an inference: how what it made differs from what the reference run made."""


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
    node: str = ""
    """Of a run over several machines: the one that failed first."""


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
class NodeRun:
    """How a run over several machines ended on one of them."""

    name: str
    rank: int
    reason: str
    """``exit`` where its launcher ended by itself; ``interrupted`` where we ended it."""
    exit_status: int | None
    seconds: float
    is_cause: bool = False
    """Whether it failed first, and so made the run fail."""
    why: str = ""
    """What happened, where it was lost."""


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
    curves: tuple[Curve, ...] | None = None
    """Its exact figures, one curve for all ranks that agree; None where nobody looked for any."""
    noise: tuple[Curve, ...] = ()
    """What the noise runs after it made."""
    per_node: tuple[NodeRun, ...] = ()
    """Of a run over several machines, in the order of their ranks."""


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
    ratio: float | None = None
    """Drift: the largest difference in units of its limit."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What the verdict ``drift`` found: the first place that differs, and the largest ratio."""

    result: Result
    ratio: float | None
    """The largest difference in units of its limit, over all that was compared; above 1 is NG.
    Infinite for a missing value or a NaN."""
    step: int | None
    """The first step that differs by more than its limit; else the one with that ratio."""
    quantity: str
    """``loss``, ``grad norm``, ``gradient of NAME`` or ``output NAME`` of that step."""
    baseline: float | None
    compare: float | None
    difference: float | None
    """Relative; of log probabilities absolute."""
    limit: float | None
    reason: str
    gradient: str = ""
    """The first wrong gradient in backward order, where one is wrong."""
    gradient_step: int | None = None
    floor: str = ""
    """``measured``, ``constants``, or why nothing could be compared."""


@dataclass(frozen=True, slots=True)
class Steady:
    """What sound runs on npu differ by, all relative: the unmutated configuration and history."""

    bias: Curve = Curve()
    """Signed differences of the compare side that are always there, taken off before judging."""
    floor: Curve = Curve()
    """What moved weights make, as running maxima."""
    spread: Curve = Curve()
    """Largest distance from the bias."""
    pairs: int = 0
    """How many pairs of runs the bias is the mean of."""
    verdicts: tuple[Verdict, ...] = ()
    """Of the unmutated configuration, shown and not asserted."""
    reason: str = ""
    """What could not be measured, and why."""


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
    drift: Drift | None = None
    steady: Steady | None = None
    """On npu: what drift was judged by."""
