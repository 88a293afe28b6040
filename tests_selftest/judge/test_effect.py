"""Did a mutation arrive, and were both sides the same experiment?"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_lmsv.judge.effect import has_effect, not_reached
from pytest_lmsv.judge.fairness import unequal_weights
from pytest_lmsv.records import Completion, Edit, Metrics, Parameter, RunError, RunRecord

EDIT = Edit("/args/lr", 1e-5, 2e-5)


def completion(
    echo: dict[str, Any] | None = None,
    parameters: dict[str, Parameter] | None = None,
    samples: dict[str, str] | None = None,
) -> Completion:
    return Completion(
        0, 1, "id", 5, None, None, None, {}, {}, parameters or {}, echo or {}, samples or {}
    )


def run(*completions: Completion, **metrics: Any) -> RunRecord:
    return RunRecord("pta", 1, "ok", True, Metrics(**metrics), completions=completions)


def weight(*shape: int, dtype: str = "float32", digest: str = "sha256:1") -> Parameter:
    return Parameter(dtype, shape, digest)


@pytest.mark.parametrize(
    ("mutated", "effect"),
    [
        (run(), False),
        (run(completion({"/args/lr": 1e-5})), False),
        (run(completion({"/args/lr": 2e-5})), True),
        (run(completion({"/args/other": 2e-5})), False),
        (run(completion(samples={"video_0.npy": "sha256:2"})), True),
        (run(losses=((1, 0.5),)), True),
        (run(grad_norms=((1, 0.5),)), True),
        (run(memory_mb=7.0, step_time_ms=((1, 9.0),)), False),  # never by time or memory
    ],
)
def test_effect_is_seen_in_echo_and_curves(mutated: RunRecord, effect: bool) -> None:
    assert has_effect([EDIT], mutated, run()) is effect


def test_a_changed_parameter_count_is_an_effect() -> None:
    unmutated = run(completion(parameters={"w": weight(2, 3)}))
    assert has_effect([EDIT], run(completion(parameters={"w": weight(2, 4)})), unmutated)
    assert not has_effect([EDIT], run(completion(parameters={"w": weight(3, 2)})), unmutated)


def test_true_is_not_one() -> None:
    edit = Edit("/model/x", 0, True)
    assert not has_effect([edit], run(completion({"/model/x": 1})), run())


def test_an_edit_that_shows_on_one_side_only_was_lost() -> None:
    arrived = run(completion({"/args/lr": 2e-5}))
    assert not_reached([EDIT], arrived, run(completion({"/args/lr": 1e-5}))) == (EDIT,)
    assert not_reached([EDIT], arrived, run(completion())) == (EDIT,)
    assert not_reached([EDIT], arrived, arrived) == ()
    assert not_reached([EDIT], run(completion()), run(completion())) == ()


def test_a_failed_compare_side_says_nothing_about_edits() -> None:
    failed = RunRecord("msa", 1, "error", False, Metrics(), RunError("E", "", "unknown"))
    assert not_reached([EDIT], run(completion({"/args/lr": 2e-5})), failed) == ()


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ({"w": weight(2)}, None),
        ({"w": weight(2, digest="sha256:2")}, "other values"),
        ({"w": weight(2, dtype="float16")}, "float16"),
        ({"w": weight(2), "v": weight(1)}, "one side only"),
    ],
)
def test_unequal_weights_are_named(theirs: dict[str, Parameter], words: str | None) -> None:
    found = unequal_weights(
        run(completion(parameters={"w": weight(2)})), run(completion(parameters=theirs))
    )
    assert (found is None) if words is None else (found is not None and words in found)


def test_a_missing_record_of_one_side_is_said() -> None:
    found = unequal_weights(run(completion(parameters={"w": weight(2)})), run())
    assert found is not None
    assert "only one side" in found
