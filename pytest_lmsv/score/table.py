"""A score as a table for people and as an object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from statistics import median
from typing import Any

from pytest_lmsv.score.marks import Mark, Score
from pytest_lmsv.score.rules import DRIFT
from pytest_lmsv.wording import finite

INTERVAL = "95 % interval of Clopper and Pearson"


def text(score: Score) -> str:
    """Return the tables in Markdown, which reads as plain text too."""
    return "\n".join(_lines(score))


def _lines(score: Score) -> Iterator[str]:
    models = list(dict.fromkeys(mark.model for mark in (*score.cells, *score.clean)))
    names = [rule.name for rule in score.rules]
    if score.counted():
        yield "Caught (a fault in a model counts once; - : the rule says nothing of such models)"
        yield ""
        yield f"| model | faults | {' | '.join(names)} |"
        yield f"|---|---|{'---|' * len(names)}"
        for model in (*models, None):
            marks = score.counted(model)
            if not marks:
                continue
            cells = [_caught(score, name, model, len(marks)) for name in names]
            yield f"| {model or 'all'} | {len(marks)} | {' | '.join(cells)} |"
        yield ""
    if score.clean:
        yield "False alarms on clean pairs (- : the rule says nothing of such models)"
        yield ""
        yield f"| model | pairs | {' | '.join(names)} |"
        yield f"|---|---|{'---|' * len(names)}"
        for model in (*models, None):
            count = len(score.clean_pairs(model))
            if not count:
                continue
            cells = [_accused(score, name, model, count) for name in names]
            yield f"| {model or 'all'} | {count} | {' | '.join(cells)} |"
        yield ""
        ratios = [p.ratio for mark in score.clean for p in mark.pairs if p.ratio is not None]
        if ratios:
            yield f"Largest difference of a clean pair: {max(ratios):.2g} of its limit."
    yield f"Intervals: {INTERVAL}."
    by_keys = [mark for mark in score.counted() if mark.by_keys]
    if by_keys:
        early = sum(mark.first <= 5 for mark in by_keys)
        yield (
            f"{len(by_keys)} of the faults show only under mutated keys; these were planted in the "
            f"first iterations that can show them: {early} of them within the first 5, the median "
            f"at iteration {median(mark.first for mark in by_keys):g}."
        )
    missed = score.missed(DRIFT)
    yield f"Missed by {DRIFT}: {len(missed)}."
    for mark in missed:
        ratios = [pair.ratio for pair in mark.pairs if pair.ratio is not None]
        shown = f"at most {max(ratios):.2g} of a limit" if ratios else "no valid pair"
        yield f"- {mark.model}, {mark.fault}: {shown} in {len(mark.pairs)} configurations"
    odd = [mark for mark in score.cells if mark.equivalent and mark.caught_by(DRIFT)]
    for mark in odd:
        yield f"- {mark.model}, {mark.fault}: called equivalent, but {mark.pairs[0].reason}"
    failed = [mark for mark in score.cells if any(pair.error for pair in mark.pairs)]
    for mark in failed:
        error = next(pair.error for pair in mark.pairs if pair.error)
        yield f"- {mark.model}, {mark.fault}: MSA failed: {error}"
    if score.invalid:
        yield f"{score.invalid} pairs left out: PTA's run was not valid."
    yield f"{score.seconds:.0f} s."


def _caught(score: Score, rule: str, model: str | None, row: int) -> str:
    """Return the cell of *rule*; *row* is what the row counts, named where the rule's differs."""
    caught, count, low, high = score.share(rule, model)
    if not count:
        return "-"
    shown = f"{caught}{_of(count, row)} ({caught / count:.0%})"
    return shown if model is not None else f"{shown}, {low:.1%} to {high:.1%}"


def _accused(score: Score, rule: str, model: str | None, row: int) -> str:
    accused, count, _, high = score.alarms(rule, model)
    if not count:
        return "-"
    shown = f"{accused}{_of(count, row)}"
    return shown if model is not None else f"{shown}, at most {high:.1%}"


def _of(count: int, row: int) -> str:
    return "" if count == row else f" of {count}"


def to_json(score: Score) -> dict[str, Any]:
    """Return all of *score* (schema 1); an infinite ratio is the text ``Infinity``."""
    return {
        "schema": 1,
        "settings": score.settings,
        "seconds": round(score.seconds, 1),
        "invalid": score.invalid,
        "rules": {
            rule.name: {
                "caught": _count(score.share(rule.name)),
                "false_alarms": _count(score.alarms(rule.name)),
                "missed": [
                    {"model": mark.model, "fault": mark.fault} for mark in score.missed(rule.name)
                ],
            }
            for rule in score.rules
        },
        "faults": [_mark(mark) for mark in score.cells],
        "clean": [_mark(mark) for mark in score.clean],
    }


def _count(share: tuple[int, int, float, float]) -> dict[str, Any]:
    count, of, low, high = share
    return {"count": count, "of": of, "low": low, "high": high, "interval": INTERVAL}


def _mark(mark: Mark) -> dict[str, Any]:
    held = asdict(mark)
    for pair in held["pairs"]:
        if pair["ratio"] is not None:
            pair["ratio"] = finite(pair["ratio"])
    return held
