"""Were the two runs the same experiment? (DESIGN 5.6.)"""

from __future__ import annotations

from pytest_lmsv.records import RunRecord


def unequal_weights(baseline: RunRecord, compare: RunRecord) -> str | None:
    """Return one sentence about the first initial parameter that differs, None where none does.

    A rank that left a record on the baseline side only can't be compared: that is said as well.
    """
    if compare.outcome != "ok":
        return None  # a failed run leaves no record, and is judged as what it is
    theirs = {completion.rank: completion for completion in compare.completions}
    for ours in baseline.completions:
        other = theirs.get(ours.rank)
        if other is None:
            return f"rank {ours.rank}: only one side left a completion record"
        if not (ours.parameters and other.parameters):
            continue
        missing = sorted(ours.parameters.keys() ^ other.parameters.keys())
        if missing:
            return f"rank {ours.rank}: parameter {missing[0]} exists on one side only"
        for name, parameter in ours.parameters.items():
            found = other.parameters[name]
            if parameter.dtype != found.dtype:
                return (
                    f"rank {ours.rank}: parameter {name} starts as {parameter.dtype} on one side "
                    f"and as {found.dtype} on the other"
                )
            if parameter.digest != found.digest:
                return f"rank {ours.rank}: parameter {name} starts with other values on each side"
    return None
