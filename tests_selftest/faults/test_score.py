"""The score as arithmetic: rules, shares, intervals, tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lmsv import catalog, data
from pytest_lmsv.judge.curves import FLOAT32
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Kind
from pytest_lmsv.score import caught, marks, plan, rules, table
from pytest_lmsv.score.bank import Fault
from pytest_lmsv.score.intervals import clopper_pearson
from pytest_lmsv.score.plan import Cell, Configuration, Plan
from pytest_lmsv.score.rules import Pair

LOSSES = (2.0, 1.5, 1.25)


def training(losses: tuple[Any, ...] = LOSSES, norm: float = 1.0, each: float = 0.5) -> Any:
    """What a training answers."""
    return {
        "losses": list(enumerate(losses, start=1)),
        "grad_norms": [[step, norm] for step in range(1, len(losses) + 1)],
        "parameter_norms": [[step, {"w": each}] for step in (1, len(losses))],
    }


def found(msa: Any, pta: Any = None) -> set[str]:
    """The rules that find *msa* different."""
    base = pta or training()
    pair = Pair(base, base, msa)
    return {rule.name for rule in rules.rules() if pair.kind in rule.kinds and rule.finds(pair)}


@pytest.mark.parametrize(
    ("msa", "by"),
    [
        (training(), set()),
        (training((2.0, 1.5, 1.25 * (1 + 1e-7))), set()),
        (training((2.0, 1.5, 1.25 * (1 + 1e-4))), {"drift"}),
        (training((2.0, 1.52, 1.25)), {"drift", "any step 1 %"}),
        (training((2.0, 1.6, 1.25)), {"drift", "any step 1 %", "any step 5 %"}),
        (training((2.0, 1.5, 1.4)), {"drift", "any step 1 %", "any step 5 %", "last loss 5 %"}),
        (training(norm=1.001), {"drift"}),
        (training(each=0.5001), {"drift"}),
        (training((2.0, "NaN", 1.25)), {"drift", "any step 1 %", "any step 5 %"}),
        (training((2.0, 1.5)), {"drift", "any step 1 %", "any step 5 %"}),
    ],
)
def test_each_rule_finds_what_it_says(msa: Any, by: set[str]) -> None:
    assert found(msa) == by


def test_an_inference_is_judged_by_its_output_and_by_drift() -> None:
    base = {"token_ids": [5, 6], "logprobs": [-1.0, -2.0]}
    assert found(base, base) == set()
    assert found({"token_ids": [5, 6], "logprobs": [-1.0, -2.1]}, base) == {"drift"}
    assert found({"token_ids": [5, 7], "logprobs": [-1.0, -2.0]}, base) == {"drift", "output"}


def test_a_baseline_that_ended_or_is_not_finite_says_nothing() -> None:
    assert rules.is_valid(training())
    assert not rules.is_valid({"error": "ValueError"})
    assert not rules.is_valid(training((2.0, "Infinity", 1.0)))


def a_configuration(iteration: int = 1) -> Configuration:
    return Configuration("cogvideox", 1, iteration, (), {})


def a_score(pairs: dict[str, Any], *, equivalent: str = "") -> marks.Score:
    """The score of one fault ``f``, and of one clean pair, where MSA answers *pairs*."""
    fault = Fault("f", "F.", "data", {"cogvideox": ()}, equivalent=equivalent)
    cell = Cell(fault, "cogvideox", (a_configuration(),), False)
    used = rules.rules()

    def pair_of(configuration: Configuration, name: str) -> Pair | None:
        msa = pairs[name]
        return None if msa is None else Pair(training(), training(), msa)

    found = marks.judge(Plan((cell,), (a_configuration(),)), pair_of, used, FLOAT32)
    kinds: dict[str, Kind] = {"cogvideox": "training"}
    return marks.Score(tuple(used), *found, {"kinds": kinds})


def a_mixed_score(*models: str) -> marks.Score:
    """The score of ``f``, which a training never shows and an inference always, and clean pairs."""
    fault = Fault("f", "F.", "data", dict.fromkeys(models, ()))
    each = [Configuration(model, 1, 1, (), {}) for model in models]
    cells = tuple(Cell(fault, one.model, (one,), False) for one in each)
    kinds: dict[str, Kind] = {"cogvideox": "training", "qwenvl": "inference"}
    right, wrong = ({"token_ids": [5, last], "logprobs": [-1.0, -2.0]} for last in (6, 7))

    def pair_of(configuration: Configuration, name: str) -> Pair:
        if kinds[configuration.model] == "training":
            return Pair(training(), training(), training())
        return Pair(right, right, wrong if name else right)

    used = rules.rules()
    found = marks.judge(Plan(cells, tuple(each)), pair_of, used, FLOAT32)
    return marks.Score(tuple(used), *found, {"kinds": kinds})


def test_a_fault_counts_as_caught_by_the_rules_that_find_it() -> None:
    score = a_score({"f": training((2.0, 1.52, 1.25)), "": training()})
    assert score.share("drift")[:2] == (1, 1)
    assert score.share("any step 1 %")[:2] == (1, 1)
    assert score.share("last loss 5 %")[:2] == (0, 1)
    assert score.alarms("drift")[:2] == (0, 1)
    assert "Missed by drift: 0." in table.text(score)
    held = json.loads(json.dumps(table.to_json(score), allow_nan=False))
    assert held["rules"]["last loss 5 %"]["missed"] == [{"model": "cogvideox", "fault": "f"}]


def test_a_miss_and_a_false_alarm_are_shown() -> None:
    score = a_score({"f": training(), "": training(norm=1.1)})
    text = table.text(score)
    assert score.alarms("drift")[:2] == (1, 1)
    assert "Missed by drift: 1." in text
    assert "- cogvideox, f: at most 0 of a limit in 1 configurations" in text


def test_each_rule_counts_only_the_models_of_its_kinds() -> None:
    score = a_mixed_score("cogvideox", "qwenvl")
    assert score.share("last loss 5 %")[:2] == (0, 1)
    assert score.share("output")[:2] == (1, 1)
    assert score.share("drift")[:2] == (1, 2)
    assert score.alarms("last loss 5 %")[:2] == (0, 1)
    assert score.alarms("drift")[:2] == (0, 2)
    rows = [line for line in table.text(score).splitlines() if line.startswith("|")]
    output = rows[0].split(" | ").index("output")
    assert [row.strip("| ").split(" | ")[output] for row in rows[2:5]] == [
        "-",
        "1 (100%)",
        "1 of 1 (100%), 2.5% to 100.0%",
    ]
    assert [row.strip("| ").split(" | ")[output] for row in rows[7:]] == [
        "-",
        "0",
        "0 of 1, at most 97.5%",
    ]


def test_a_rule_without_any_model_of_its_kinds_says_nothing() -> None:
    score = a_mixed_score("cogvideox")
    lines = table.text(score).splitlines()
    head = next(line for line in lines if line.startswith("| model")).split(" | ")
    alls = [line.split(" | ")[head.index("output")] for line in lines if line.startswith("| all")]
    assert alls == ["-", "-"]


def test_the_json_calls_no_fault_missed_by_a_rule_for_other_kinds() -> None:
    held = table.to_json(a_mixed_score("cogvideox", "qwenvl"))["rules"]
    trained = [{"model": "cogvideox", "fault": "f"}]
    assert held["last loss 5 %"]["missed"] == trained
    assert held["drift"]["missed"] == trained
    assert held["output"]["missed"] == []
    assert {name: rule["caught"]["of"] for name, rule in held.items()} == {
        "last loss 5 %": 1,
        "any step 5 %": 1,
        "any step 1 %": 1,
        "output": 1,
        "drift": 2,
    }
    assert held["output"]["false_alarms"]["of"] == 1


def test_an_equivalent_fault_is_not_counted_and_is_named_where_it_shows() -> None:
    score = a_score({"f": training(norm=1.1), "": training()}, equivalent="For a reason.")
    assert score.counted() == []
    assert "f: called equivalent, but grad norm of step 1" in table.text(score)


def test_a_run_that_fails_is_found_by_every_rule_and_named() -> None:
    score = a_score({"f": {"error": "ValueError: no"}, "": training()})
    assert score.share("last loss 5 %")[:2] == (1, 1)
    assert "MSA failed: ValueError: no" in table.text(score)


def test_a_configuration_that_pta_can_not_run_says_nothing() -> None:
    score = a_score({"f": None, "": training()})
    assert score.invalid == 1
    assert "f: no valid pair" in table.text(score)


def test_what_was_caught_is_stored_by_its_edits_and_read_again(tmp_path: Path) -> None:
    spec = catalog.load([data.mm_configs()])["cogvideox"]
    fault = Fault("f", "F.", "data", {"cogvideox": ()})
    planned = plan.make([spec], [fault], seed=43, configurations=1, clean=0)
    differing = Pair(training(), training(), training(norm=1.1))
    cells, _, _ = marks.judge(planned, lambda *_: differing, rules.rules())
    file = tmp_path / "caught.yaml"
    caught.write(file, marks.Score(tuple(rules.rules()), cells, (), 0))
    again = caught.plan(file, {"cogvideox": spec}, [fault])
    assert again.cells[0].configurations[0].documents == (
        planned.cells[0].configurations[0].documents
    )
    assert caught.plan(file, {"cogvideox": spec}, [fault], ["other"]).cells == ()
    with pytest.raises(InputProblem, match="entry 1: no such fault in the bank"):
        caught.plan(file, {"cogvideox": spec}, [])


def test_an_infinite_ratio_can_be_stored() -> None:
    score = a_score({"f": training((2.0, "NaN", 1.25)), "": training()})
    assert json.loads(json.dumps(table.to_json(score), allow_nan=False))


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        # Closed forms where nothing or everything hits, else published tables.
        (0, 300, 0.0, 1.0 - 0.025 ** (1 / 300)),
        (5, 10, 0.187086, 0.812914),
        (1, 20, 0.001265, 0.248733),
        (48, 48, 0.025 ** (1 / 48), 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_is_that_of_clopper_and_pearson(
    hits: int, trials: int, low: float, high: float
) -> None:
    assert clopper_pearson(hits, trials) == pytest.approx((low, high), abs=2e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_mirrors(counts: tuple[int, int]) -> None:
    hits, trials = counts
    low, high = clopper_pearson(hits, trials)
    assert 0.0 <= low <= hits / trials <= high <= 1.0
    other = clopper_pearson(trials - hits, trials)
    assert math.isclose(other[0], 1.0 - high, abs_tol=1e-9)
