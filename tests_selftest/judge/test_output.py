"""The verdict of what an inference made: text token by token, videos by difference and PSNR."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge.output import Sample, Text, Unreadable, Video, differences, is_finite, output
from pytest_lmsv.judge.verdicts import Tolerances, verdicts
from pytest_lmsv.records import Metrics, RunRecord, Verdict

NAN, INF = math.nan, math.inf


def video(*values: float, shape: tuple[int, ...] | None = None) -> Video:
    return Video(shape or (len(values),), array("d", values))


def judged(ours: Sample, theirs: Sample, tolerance: float = 0.01, psnr: float = 40.0) -> Verdict:
    return output(differences({"it": ours}, {"it": theirs}), tolerance, psnr)


def test_equal_tokens_are_ok() -> None:
    verdict = judged(Text((1, 2, 3), "abc"), Text((1, 2, 3), "abc"))
    assert (verdict.name, verdict.result, verdict.difference) == ("output", "OK", 0.0)
    assert verdict.reason == "it: 3 tokens are equal"


@pytest.mark.parametrize(
    ("theirs", "wrong", "reason"),
    [
        ((1, 9, 3), 1, "first differing token is 2 of 3: PTA has token 2, MSA token 9"),
        ((9, 9, 9), 3, "first differing token is 1 of 3: PTA has token 1, MSA token 9"),
        ((1, 2), 1, "first differing token is 3 of 3: PTA has token 3, MSA no token"),
        ((1, 2, 3, 4), 1, "first differing token is 4 of 4: PTA has no token, MSA token 4"),
    ],
)
def test_the_first_differing_token_is_named(
    theirs: tuple[int, ...], wrong: int, reason: str
) -> None:
    verdict = judged(Text((1, 2, 3)), Text(theirs), tolerance=10.0)
    assert (verdict.result, verdict.difference, verdict.unit) == ("NG", wrong, "tokens")
    assert verdict.reason == f"it: {reason}"


@pytest.mark.parametrize(
    ("theirs", "tolerance", "psnr", "result"),
    [
        ((1.0, -1.0, 1.0, -1.0), 0.01, 40.0, "OK"),
        ((1.0, -1.0, 1.0, -1.0), 0.0, 1000.0, "OK"),  # equal is within any limit
        ((1.009, -1.009, 1.009, -1.009), 0.01, 40.0, "OK"),  # 0.9 %, 46.9 dB
        ((1.011, -1.011, 1.011, -1.011), 0.01, 40.0, "NG"),  # 1.1 %, 45.2 dB
        ((1.009, -1.009, 1.009, -1.009), 0.01, 47.0, "NG"),  # too little PSNR
        ((1.0, -1.0, 1.0, NAN), 0.01, 40.0, "NG"),
        ((1.0, -1.0, 1.0, INF), 0.01, 40.0, "NG"),
    ],
)
def test_videos_are_within_both_limits_or_ng(
    theirs: tuple[float, ...], tolerance: float, psnr: float, result: str
) -> None:
    assert judged(video(1.0, -1.0, 1.0, -1.0), video(*theirs), tolerance, psnr).result == result


def test_the_figures_of_two_videos() -> None:
    (found,) = differences({"it": video(3.0, -1.0)}, {"it": video(3.0, -0.6)})
    assert found.difference == pytest.approx(0.4 / 10**0.5)
    assert found.psnr_db == pytest.approx(20 * math.log10(4.0 / (0.08**0.5)))


def test_what_is_missing_or_of_another_shape_is_ng() -> None:
    ours, theirs = video(1.0, 2.0), video(1.0, 2.0, shape=(2, 1))
    assert judged(ours, theirs).reason == "it: PTA made (2,), MSA (2, 1)"
    assert judged(ours, theirs).result == "NG"
    found = output(differences({"a": ours, "b": ours}, {"a": ours}), 0.01, 40.0)
    assert (found.result, found.reason) == ("NG", "b: MSA did not make it")


def test_the_worst_sample_decides() -> None:
    ours: dict[str, Sample] = {
        "1.json": Text((1,)),
        "2.npy": video(1.0, 2.0),
        "3.npy": video(1.0, 2.0),
    }
    theirs: dict[str, Sample] = {**ours, "3.npy": video(1.0, 3.0)}
    assert output(differences(ours, theirs), 0.01, 40.0).reason.startswith("3.npy: relative")
    ours["3.npy"] = Unreadable("no")
    assert output(differences(ours, theirs), 0.01, 40.0).result == "N/A"
    theirs["1.json"] = Text((2,))  # wrong for sure goes before what can't be told
    assert output(differences(ours, theirs), 0.01, 40.0).result == "NG"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Unreadable("cut"), video(1.0)),
        (Unreadable("cut"), Unreadable("cut")),
        (video(NAN, 1.0), video(1.0, 1.0)),
    ],
)
def test_what_can_not_be_compared_is_never_ok(ours: Sample, theirs: Sample) -> None:
    verdict = judged(ours, theirs)
    assert verdict.result == "N/A"
    assert verdict.reason


@pytest.mark.parametrize("theirs", [Unreadable("cut"), Text((1,))])
def test_a_sample_that_only_the_compare_side_spoiled_is_ng(theirs: Sample) -> None:
    verdict = judged(video(1.0), theirs)
    assert verdict.result == "NG"
    assert "MSA: " in verdict.reason


def test_a_video_with_a_number_that_is_none_is_not_finite() -> None:
    assert is_finite(video(1.0, -1.0))
    assert is_finite(Text((1,)))
    assert is_finite(Unreadable("cut"))
    assert not is_finite(video(1.0, NAN))
    assert not is_finite(video(-INF, 1.0))


def test_a_training_has_no_output_and_an_inference_without_samples_no_verdict() -> None:
    run = RunRecord("pta", 1, "ok", True, Metrics())
    training = verdicts(run, run, "training", Tolerances())[3]
    assert (training.result, training.reason) == ("N/A", "a training makes no output")
    inference = verdicts(run, run, "inference", Tolerances())[3]
    assert (inference.result, inference.reason) == ("N/A", "no samples to compare")
    failed = RunRecord("msa", 1, "error", False, Metrics())
    assert verdicts(run, failed, "inference", Tolerances())[3].result == "N/A"


numbers = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(
    pairs=st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    tolerance=st.floats(0, 10),
    psnr=st.floats(0, 200),
)
def test_ok_is_only_said_of_finite_videos(
    pairs: list[tuple[float, float]], tolerance: float, psnr: float
) -> None:
    ours, theirs = zip(*pairs, strict=True)
    verdict = judged(video(*ours), video(*theirs), tolerance, psnr)
    if verdict.result == "OK":
        assert all(map(math.isfinite, (*ours, *theirs)))
        assert verdict.difference is not None
        assert verdict.difference < tolerance or ours == theirs
    assert verdict.reason
