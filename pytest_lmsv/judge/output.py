"""Did both sides of an inference make the same? The verdict ``output``.

Text is equal token by token or it is not. Videos are compared by the norm of their difference and
by PSNR, as their numbers are never quite equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pytest_lmsv.records import SampleDifference, Verdict


@dataclass(frozen=True)
class Text:
    """Generated tokens, and the text that they are."""

    token_ids: tuple[int, ...]
    text: str = ""
    logprobs: tuple[float, ...] = ()
    """Of each token when it was chosen; empty where they were not recorded."""


@dataclass(frozen=True)
class Video:
    """The numbers of a video, flat, and their shape."""

    shape: tuple[int, ...]
    values: Sequence[float]


@dataclass(frozen=True)
class Unreadable:
    """A sample that can't be compared, and why."""

    reason: str


Sample = Text | Video | Unreadable


def is_finite(sample: Sample) -> bool:
    """Return whether *sample* has only finite numbers; a baseline with others is invalid."""
    return not isinstance(sample, Video) or all(map(math.isfinite, sample.values))


def differences(
    baseline: Mapping[str, Sample],
    compare: Mapping[str, Sample],
    labels: tuple[str, str] = ("PTA", "MSA"),
) -> tuple[SampleDifference, ...]:
    """Return how each sample that either side made differs, by name."""
    found = []
    for name in sorted({*baseline, *compare}):
        ours, theirs = baseline.get(name), compare.get(name)
        if ours is None or theirs is None:
            label = labels[0] if ours is None else labels[1]
            found.append(SampleDifference(name, None, math.inf, reason=f"{label} did not make it"))
        elif isinstance(ours, Text) and isinstance(theirs, Text):
            found.append(_texts(name, ours, theirs, labels))
        elif isinstance(ours, Video) and isinstance(theirs, Video):
            found.append(_videos(name, ours, theirs, labels))
        elif isinstance(ours, Unreadable):
            found.append(SampleDifference(name, None, reason=ours.reason))
        else:  # the baseline made a sound sample, the compare side none
            reason = theirs.reason if isinstance(theirs, Unreadable) else "not of one kind"
            found.append(SampleDifference(name, None, math.inf, reason=f"{labels[1]}: {reason}"))
    return tuple(found)


def _texts(name: str, ours: Text, theirs: Text, labels: tuple[str, str]) -> SampleDifference:
    pairs = list(enumerate(zip_longest(ours.token_ids, theirs.token_ids), start=1))
    wrong = [(place, pair) for place, pair in pairs if pair[0] != pair[1]]
    sure = _logprob_gap(ours, theirs, wrong[0][0] - 1 if wrong else len(pairs))
    if not wrong:
        reason = f"{len(pairs)} tokens are equal"
        return SampleDifference(name, "text", 0.0, reason=reason, logprob=sure)
    place, pair = wrong[0]
    shown = ["no token" if token is None else f"token {token}" for token in pair]
    reason = (
        f"first differing token is {place} of {len(pairs)}: {labels[0]} has {shown[0]}, "
        f"{labels[1]} {shown[1]}"
    )
    return SampleDifference(
        name, "text", float(len(wrong)), reason=reason, place=place, logprob=sure
    )


def _logprob_gap(ours: Text, theirs: Text, count: int) -> float | None:
    """Return the largest difference of the log probabilities of the first *count* tokens.

    None where neither side recorded any; infinite where only one did, or has no finite number.
    """
    if not ours.logprobs and not theirs.logprobs:
        return None
    pairs = list(zip_longest(ours.logprobs[:count], theirs.logprobs[:count]))
    if any(a is None or b is None for a, b in pairs):
        return math.inf
    gaps = [abs(a - b) for a, b in pairs if a != b]
    return max((gap if math.isfinite(gap) else math.inf for gap in gaps), default=0.0)


def _videos(name: str, ours: Video, theirs: Video, labels: tuple[str, str]) -> SampleDifference:
    if ours.shape != theirs.shape:
        reason = f"{labels[0]} made {ours.shape}, {labels[1]} {theirs.shape}"
        return SampleDifference(name, "video", math.inf, -math.inf, reason)
    size = math.fsum(value * value for value in ours.values)
    if not math.isfinite(size):
        return SampleDifference(name, None, reason=f"{labels[0]}'s video is not finite")
    gaps = (a - b for a, b in zip(ours.values, theirs.values, strict=True))
    error = math.fsum(gap * gap for gap in gaps)
    if not math.isfinite(error):
        reason = f"{labels[1]}'s video is not finite, {labels[0]}'s is"
        return SampleDifference(name, "video", math.inf, -math.inf, reason)
    if error == 0.0:
        return SampleDifference(name, "video", 0.0, math.inf, "equal")
    # The range of what the baseline shows; a plain picture has none, and -1 to 1 is meant.
    span = (max(ours.values) - min(ours.values)) or 2.0
    psnr = 20.0 * math.log10(span) - 10.0 * math.log10(error / len(ours.values))
    relative = math.sqrt(error / size) if size else math.inf
    reason = f"relative difference {relative:.2g}, PSNR {psnr:.1f} dB"
    return SampleDifference(name, "video", relative, psnr, reason)


def output(found: Sequence[SampleDifference], tolerance: float, psnr_db: float) -> Verdict:
    """Return whether the samples are the same: text exactly, videos within both limits.

    *tolerance*: a video's relative difference from which on it is NG; *psnr_db*: the least PSNR.
    """
    if not found:
        return Verdict("output", "N/A", None, None, None, "relative", "no samples to compare")
    worst = max(found, key=lambda each: _badness(each, tolerance, psnr_db))
    named = f"{worst.name}: {worst.reason}"
    unit = "tokens" if worst.kind == "text" else "relative"
    if worst.difference is None:
        return Verdict("output", "N/A", None, None, None, unit, named)
    wrong = _badness(worst, tolerance, psnr_db)[0] == 2
    difference = worst.difference if math.isfinite(worst.difference) else None
    return Verdict("output", "NG" if wrong else "OK", None, None, difference, unit, named)


def _badness(found: SampleDifference, tolerance: float, psnr_db: float) -> tuple[int, float]:
    """Return a sort key: 2 for what is wrong, 1 for what can't be told, 0 for what is right."""
    if found.difference is None:
        return 1, 0.0
    if found.kind == "video":
        assert found.psnr_db is not None
        wrong = not (found.difference < tolerance and found.psnr_db >= psnr_db)
        wrong = wrong and found.difference > 0.0
    else:
        wrong = found.difference > 0.0
    return (2 if wrong else 0), found.difference
