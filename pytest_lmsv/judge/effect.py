"""Did a mutation arrive? (DESIGN 5.3, no effect.)"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pytest_lmsv.records import Edit, RunRecord


def echoed(run: RunRecord) -> Mapping[str, Any]:
    """Return the configuration values that *run* says it read: in its log, and over all ranks."""
    values: dict[str, Any] = dict(run.echo)
    for completion in run.completions:
        values.update(completion.echo)
    return values


def has_effect(edits: Iterable[Edit], mutated: RunRecord, unmutated: RunRecord) -> bool:
    """Return whether *edits* show in the echo, parameter count, losses, grad norms or samples.

    Time and memory never count: they differ from run to run by themselves.
    """
    seen = echoed(mutated)
    if any(edit.path in seen and _same(seen[edit.path], edit.new) for edit in edits):
        return True
    counts = parameter_count(mutated), parameter_count(unmutated)
    return (
        (None not in counts and counts[0] != counts[1])
        or not _equal_curves(mutated.metrics.losses, unmutated.metrics.losses)
        or not _equal_curves(mutated.metrics.grad_norms, unmutated.metrics.grad_norms)
        or samples(mutated) != samples(unmutated)
    )


def not_reached(edits: Iterable[Edit], baseline: RunRecord, compare: RunRecord) -> tuple[Edit, ...]:
    """Return the edits that show in the baseline's echo and not in the compare side's.

    A compare side that failed left no echo, and says nothing about the edits.
    """
    if compare.outcome != "ok":
        return ()
    ours, theirs = echoed(baseline), echoed(compare)
    return tuple(
        edit
        for edit in edits
        if edit.path in ours
        and _same(ours[edit.path], edit.new)
        and not (edit.path in theirs and _same(theirs[edit.path], edit.new))
    )


def samples(run: RunRecord) -> Mapping[str, str]:
    """Return the digests of what *run*, an inference, made."""
    return {
        name: text for completion in run.completions for name, text in completion.samples.items()
    }


def parameter_count(run: RunRecord) -> int | None:
    """Return the number of parameters over all ranks, None where no record names any."""
    if not any(completion.parameters for completion in run.completions):
        return None
    return sum(
        math.prod(parameter.shape)
        for completion in run.completions
        for parameter in completion.parameters.values()
    )


def _same(found: Any, wanted: Any) -> bool:
    # 1 and 1.0 are one value to both stacks; True and 1 are not.
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)


def _equal_curves(left: Sequence[tuple[int, float]], right: Sequence[tuple[int, float]]) -> bool:
    if len(left) != len(right):
        return False
    return all(
        a[0] == b[0] and (a[1] == b[1] or (math.isnan(a[1]) and math.isnan(b[1])))
        for a, b in zip(left, right, strict=True)
    )
