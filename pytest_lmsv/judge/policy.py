"""What a failed run means (DESIGN 5.3): try again, blame the environment, or take it as it is."""

from __future__ import annotations

from typing import Literal

from pytest_lmsv.records import RunError, RunRecord

Step = Literal["again", "environment", "final"]

ENVIRONMENT = frozenset({"port_in_use", "lost_node", "no_space", "device_busy"})
NO_RETRY_HELPS = frozenset({"missing_module", "file_missing", "weights"})
ON_FIRST_FAILURE = frozenset({"hccl_comm", "killed"})


def next_step(run: RunRecord, tries: int, resources_gone: str | None = None) -> Step:
    """Return what follows a failed *run*, the *tries*-th of its attempt.

    ``final``: on the baseline side the mutation is invalid, on the compare side it is a finding.
    *resources_gone* names a node, device or space that is no longer there; it is asked for only
    where a second failure may have been the environment's.
    """
    category = run.error.category if run.error else "unknown"
    if category in NO_RETRY_HELPS:
        return "environment"
    if category in ENVIRONMENT:
        return "again" if tries == 1 else "environment"
    if category in ON_FIRST_FAILURE or (category == "hang" and not steps_done(run)):
        if tries == 1:
            return "again"
        return "environment" if resources_gone else "final"
    return "final"


def steps_done(run: RunRecord) -> int:
    """Return how many steps *run* printed a record of."""
    return len(run.metrics.step_time_ms) or len(run.metrics.losses)


def sentence(error: RunError | None) -> str:
    """Return *error* as one sentence: type, message, category and rank."""
    if error is None:
        return "no reason found in its logs"
    place = f", rank {error.rank}" if error.rank is not None else ""
    if error.node:
        place += f", on {error.node}"
    text = f"{error.type}: {error.message}" if error.message else error.type
    return f"{' '.join(text.split())} ({error.category}{place})"
