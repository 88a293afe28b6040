"""The verdict drift from the outside: gate, known bugs, JUnit, and judging again."""

from __future__ import annotations

from typing import Any

from tests_selftest.plugin.conftest import Toy, properties

WRONG = [{"exact": 1.001}]
KNOWN = """\
- id: toy-gradient
  title: a gradient of the toy is wrong
  models: [toy]
  stack: msa
  device: cpu
  verdict: drift
  limit: 60
  expected: true
"""


def test_a_wrong_gradient_fails_where_every_loss_is_right(toy: Toy) -> None:
    toy.behave(pta=[{"exact": 1.0}], msa=WRONG)
    result = toy.run("--junitxml=junit.xml", iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*drift NG: gradient of second of step 1 differs by 0.001, 50 x*"])
    (case,) = properties(toy.pytester.path / "junit.xml")
    assert (case["lmsv.accuracy"], case["lmsv.drift"]) == ("OK", "NG")
    assert (case["lmsv.drift.step"], case["lmsv.drift.gradient"]) == ("1", "second")
    assert case["lmsv.drift.ratio"] == "50"
    metrics = toy.stored("iters/toy/iter_1/metrics.json")
    assert metrics["analysis"]["drift_ok"] is False
    (curve,) = metrics["msa"]["curves"]
    assert curve["parameter_norms"][0] == [1, {"first": 0.6, "second": 0.8008}]


def test_it_is_shown_and_not_asserted_where_the_gate_leaves_it_out(toy: Toy) -> None:
    toy.behave(pta=[{"exact": 1.0}], msa=WRONG)
    toy.run("--lmsv-gate=accuracy", "--junitxml=junit.xml", iters=1).assert_outcomes(passed=1)
    (case,) = properties(toy.pytester.path / "junit.xml")
    assert case["lmsv.drift"] == "NG"
    assert case["lmsv.finding"].startswith("drift NG: gradient of second of step 1")


def test_a_noise_run_widens_the_limit_and_can_be_left_out(toy: Toy) -> None:
    toy.behave(pta=[{"exact": 1.0, "noise": 2e-4}], msa=WRONG)
    toy.run(iters=1).assert_outcomes(passed=1)
    assert [note["code"] for note in baseline(toy)["notes"]] == []
    toy.run("--lmsv-noise=0", iters=1).assert_outcomes(failed=1)
    assert baseline(toy)["notes"] == []
    toy.run("--lmsv-drift-factor=4", iters=1).assert_outcomes(failed=1)


def test_a_noise_run_that_left_nothing_is_noted(toy: Toy) -> None:
    toy.behave(pta=[{"exact": 1.0}], msa=[{"exact": 1.0}])
    toy.run(iters=1).assert_outcomes(passed=1)
    (note,) = baseline(toy)["notes"]
    assert note["text"] == "no figures of a noise run: drift has the limits without one"


def baseline(toy: Toy) -> dict[str, Any]:
    found: dict[str, Any] = toy.stored("iters/toy/iter_1/record.json")["baseline_run"]
    return found


def test_a_side_without_exact_figures_is_ng(toy: Toy) -> None:
    toy.behave(pta=[{"exact": 1.0}], msa=[{}])
    result = toy.run(iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*drift NG: MSA recorded no loss*"])


def test_a_known_drift_is_accepted_up_to_its_limit(toy: Toy) -> None:
    toy.add_known_bugs(KNOWN)
    toy.behave(pta=[{"exact": 1.0}], msa=WRONG)
    toy.run(iters=1).assert_outcomes(xfailed=1)
    toy.behave(pta=[{"exact": 1.0}], msa=[{"exact": 1.02}])
    toy.run(iters=1).assert_outcomes(failed=1)


def test_a_resumed_campaign_judges_stored_curves_again(toy: Toy) -> None:
    toy.behave(pta=[{"exact": 1.0}], msa=WRONG)
    toy.run(iters=1).assert_outcomes(failed=1)
    resume = f"--lmsv-resume={toy.campaign}"
    toy.run(resume, "--lmsv-drift-factor=600", iters=1).assert_outcomes(passed=1)
    toy.run(resume, "--lmsv-drift-factor=10", iters=1).assert_outcomes(failed=1)
    minima = "lmsv_drift_minima=first=1e-3 last=1e-3"
    toy.run(resume, "-o", minima, iters=1).assert_outcomes(passed=1)


def test_wrong_settings_end_the_session(toy: Toy) -> None:
    for word, line in (
        ("--lmsv-drift-factor=0", "*--lmsv-drift-factor: found *; give a number above 0"),
        ("--lmsv-noise=-1", "*--lmsv-noise: found *; give a whole number of at least 0"),
    ):
        result = toy.run(word)
        assert result.ret == 4
        result.stderr.fnmatch_lines([line])
    result = toy.run("-o", "lmsv_drift_minima=lost=1")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*lmsv_drift_minima: found *; give minima such as loss=2.5e-7*"])
