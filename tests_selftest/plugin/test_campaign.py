"""A campaign from the outside: outcomes of tests, folders, JUnit, and what is retried."""

from __future__ import annotations

import csv
import fcntl
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests_selftest.plugin.conftest import Toy, properties


def test_equal_stacks_pass_and_leave_a_campaign(toy: Toy) -> None:
    result = toy.run("--junitxml=junit.xml")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    for number in (1, 2):
        folder = toy.campaign / "iters" / "toy" / f"iter_{number}"
        status = toy.stored(f"iters/toy/iter_{number}/status.json")
        assert status["components"] == {
            "MUTATE": "PASS",
            "PTA_VERIFY": "PASS",
            "MSA_VERIFY": "PASS",
            "ANALYSIS": "PASS",
        }
        metrics = toy.stored(f"iters/toy/iter_{number}/metrics.json")
        assert metrics["pta"]["loss"] == metrics["msa"]["loss"] > 0
        assert metrics["analysis"]["loss_diff"] == 0
        for name in ("mutation.json", "report.md", f"runtime_logs/pta_verify_iter{number}.log"):
            assert (folder / name).is_file()
        assert (folder / "record" / "msa" / "rank_0.json").is_file()
        assert not (folder / "FAILED_FLAG").exists()
    first, second = properties(toy.pytester.path / "junit.xml")
    assert list(first) == list(second)
    assert first["lmsv.accuracy"] == "OK"
    assert (first["lmsv.iteration"], second["lmsv.iteration"]) == ("1", "2")
    for name in ("campaign.json", "final_report.json", "data/summary.json", "analysis/report.html"):
        assert (toy.campaign / name).is_file(), name
    rows = list(csv.DictReader((toy.campaign / "data" / "iteration_metrics.csv").open()))
    assert [row["iteration"] for row in rows] == ["1", "2"]


def test_a_wrong_loss_fails_with_a_sentence_and_the_way_to_repeat_it(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.2}])
    result = toy.run("--junitxml=junit.xml", iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*accuracy NG: MSA's loss * differs from PTA's * by 20.00 % (loss of step 2)*"]
    )
    mutation = toy.campaign / "iters" / "toy" / "iter_1" / "mutation.json"
    result.stdout.fnmatch_lines([f"*repeat: pytest --lmsv-replay={mutation} --lmsv-steps=2"])
    assert "Traceback" not in result.stdout.str()
    (case,) = properties(toy.pytester.path / "junit.xml")
    assert (case["lmsv.accuracy"], case["lmsv.accuracy.diff"][:3]) == ("NG", "0.2")
    assert (toy.campaign / "iters" / "toy" / "iter_1" / "FAILED_FLAG").is_file()


def test_memory_and_time_are_shown_on_cpu_and_asserted_on_request(toy: Toy) -> None:
    toy.behave(msa=[{"memory": 130.0, "ms": 30.0}])
    toy.run("--junitxml=junit.xml", iters=1).assert_outcomes(passed=1)
    (case,) = properties(toy.pytester.path / "junit.xml")
    assert (case["lmsv.memory"], case["lmsv.memory.diff_mb"]) == ("NG", "30")
    assert (case["lmsv.performance"], case["lmsv.performance.diff_ms"]) == ("NG", "20")
    assert not (toy.campaign / "iters" / "toy" / "iter_1" / "FAILED_FLAG").exists()
    result = toy.run("--lmsv-gate=all", iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*memory NG: MSA 130 MB > PTA 100 MB (+30.00 MB, +30.0 %); "
            "performance NG: MSA 30.00 ms > PTA 10.00 ms (+20.00 ms, +200.0 %); "
            "accuracy OK 0.00 %*"
        ]
    )


def test_an_error_of_msa_is_a_finding(toy: Toy) -> None:
    toy.behave(msa=[{"error_at": 2, "error": "aclnnFoo failed"}])
    result = toy.run(iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MSA error: RuntimeError: aclnnFoo failed (*"])
    assert toy.stored("iters/toy/iter_1/status.json")["components"]["MSA_VERIFY"] == "FAIL"


def test_an_invalid_mutation_is_drawn_again_and_kept(toy: Toy) -> None:
    unmutated = {"when": {"width": 1}}  # is fine
    first = {"once": str(toy.pytester.path / "once"), "error_at": 1, "error": "bad width"}
    toy.behave(pta=[unmutated, first])
    result = toy.run("--junitxml=junit.xml", "--lmsv-seed=2", iters=2)
    result.assert_outcomes(passed=2)
    covered = "covered 4 of 21 values (2 of 3 keys), 2 of 140 pairs"
    result.stdout.fnmatch_lines(["*toy: 2 valid, 1 invalid, *", f"toy: {covered}"])
    stored = toy.stored("data/summary.json")["statistics"]["toy"]["coverage"]
    assert (stored["values_covered"], stored["curve"]) == (4, [2, 4])
    junit = ElementTree.parse(toy.pytester.path / "junit.xml")
    suite = {p.get("name"): p.get("value") for p in junit.iterfind("testsuite/properties/property")}
    assert suite["lmsv.coverage.toy"] == covered
    assert f"- {covered}" in (toy.campaign / "analysis" / "summary.md").read_text("utf-8")
    failed = [path.name for path in (toy.campaign / "iters" / "toy" / "failed").iterdir()]
    assert len(failed) == 1
    log = next((toy.campaign / "iters" / "toy" / "failed").glob("*/runtime_logs/*.log"))
    assert "bad width" in log.read_text("utf-8")


def test_when_no_attempt_is_valid_the_test_is_an_error_that_names_the_reasons(toy: Toy) -> None:
    toy.behave(pta=[{"when": {"width": 1, "idle": 9}}, {"error_at": 1, "error": "no"}])
    result = toy.run("--lmsv-attempts=2", iters=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*no valid mutation for toy iteration 1 in 2 attempts: attempt 1 *"]
    )


def test_an_edit_without_effect_is_drawn_again_and_counted_apart(toy: Toy) -> None:
    # Without echo, only `idle` shows nowhere: its draws are of no effect.
    toy.behave(pta=[{"deaf": True}], msa=[{"deaf": True}])
    result = toy.run("--lmsv-mutations=1", "--lmsv-seed=3", iters=4)
    result.assert_outcomes(passed=4)
    counts = toy.stored("data/summary.json")["statistics"]["toy"]
    assert counts["no_effect"] >= 1
    assert counts["invalid"] == 0
    assert counts["valid_rate"] == 1.0


def test_a_mutation_that_reaches_only_pta_fails(toy: Toy) -> None:
    toy.behave(msa=[{"deaf": True}])
    result = toy.run("--lmsv-mutations=2", iters=3)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*mutation did not reach MSA: /model/width*"])


def test_a_broken_base_configuration_makes_every_test_an_error_with_one_reason(toy: Toy) -> None:
    toy.behave(pta=[{"error_at": 1, "error": "broken machine"}])
    result = toy.run(iters=2)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*the unmutated configuration of toy fails on PTA*broken machine*"]
    )
    assert len(list((toy.campaign / "iters" / "toy" / "unmutated").glob("runtime_logs/*"))) == 1


def test_unequal_initial_weights_are_an_error(toy: Toy) -> None:
    toy.behave(msa=[{"weights": "other"}])
    result = toy.run(iters=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*start unequal: rank 0: parameter weight starts with other values*"]
    )


def test_a_nan_on_msa_is_ng_and_on_pta_invalid(toy: Toy) -> None:
    toy.behave(msa=[{"nan_at": 2}])
    toy.run(iters=1).assert_outcomes(failed=1)
    toy.behave(pta=[{"when": {"width": 1, "idle": 9}}, {"nan_at": 2}])
    result = toy.run("--lmsv-attempts=1", iters=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*numeric_nan*"])


def test_a_port_in_use_is_tried_once_more(toy: Toy) -> None:
    once = str(toy.pytester.path / "once")
    text = "The server socket has failed to listen on any local network address. port: 29600, "
    text += "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
    toy.behave(pta=[{"once": once, "error_at": 1, "error": text}])
    toy.run(iters=1).assert_outcomes(passed=1)
    logs = [path.name for path in toy.campaign.glob("iters/toy/unmutated/runtime_logs/*")]
    assert len(logs) == 2


def test_a_killed_msa_run_is_tried_once_more_and_then_is_a_finding(toy: Toy) -> None:
    toy.behave(msa=[{"kill_at": 2}])
    result = toy.run(iters=1)
    result.assert_outcomes(failed=1)
    logs = sorted(p.name for p in toy.campaign.glob("iters/toy/iter_1/runtime_logs/msa*"))
    assert logs == ["msa_verify_iter1.log", "msa_verify_iter1_try1.log"]


def test_a_hang_is_ended_at_the_silence_limit(toy: Toy) -> None:
    toy.behave(msa=[{"hang_at": 2}])
    result = toy.run("--lmsv-silence-timeout=2", iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MSA error: Hang*(hang*"])


def test_replay_runs_the_stored_mutation_again(toy: Toy) -> None:
    toy.run(iters=2).assert_outcomes(passed=2)
    stored = toy.campaign / "iters" / "toy" / "iter_2" / "mutation.json"
    edits = toy.stored("iters/toy/iter_2/mutation.json")["edits"]
    result = toy.pytester.runpytest_inprocess("--lmsv-replay", str(stored), "--lmsv-steps=2", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*test_alignment?toy-iter2?*"])
    assert toy.stored("iters/toy/iter_2/mutation.json")["edits"] == edits


def test_an_iteration_can_be_drawn_without_those_before_it(toy: Toy) -> None:
    toy.run(iters=3).assert_outcomes(passed=3)
    wanted = toy.stored("iters/toy/iter_3/mutation.json")["edits"]
    toy.run("-k", "iter3", iters=3).assert_outcomes(passed=1, deselected=2)
    assert toy.stored("iters/toy/iter_3/mutation.json")["edits"] == wanted


def test_a_chain_goes_on_from_the_iteration_before(toy: Toy) -> None:
    toy.run("--lmsv-chain", "--lmsv-mutations=1", iters=4).assert_outcomes(passed=4)
    paths = [
        {edit["path"] for edit in toy.stored(f"iters/toy/iter_{n}/mutation.json")["edits"]}
        for n in (1, 2, 3, 4)
    ]
    assert len(paths[0]) == 1
    assert any(len(later) > 1 for later in paths[1:])


def test_resume_runs_only_what_is_missing(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.2}])
    toy.run(iters=2).assert_outcomes(failed=2)
    campaign = toy.campaign
    removed = campaign / "iters" / "toy" / "iter_2"
    (removed / "record.json").unlink()
    log = campaign / "iters" / "toy" / "iter_1" / "runtime_logs" / "pta_verify_iter1.log"
    before = log.stat().st_mtime_ns
    toy.behave()
    result = toy.run(f"--lmsv-resume={campaign}", iters=2)
    result.assert_outcomes(failed=1, passed=1)  # iteration 1 keeps its figures
    assert log.stat().st_mtime_ns == before
    result = toy.run(f"--lmsv-resume={campaign}", "--lmsv-seed=7", iters=2)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*--lmsv-resume*seed = 43, now it is 7*"])


def test_resume_alone_goes_on_with_the_campaigns_own_settings(toy: Toy) -> None:
    toy.run("--lmsv-seed=5", iters=3).assert_outcomes(passed=3)
    campaign = toy.campaign
    wanted = toy.stored("iters/toy/iter_2/mutation.json")["edits"]
    (campaign / "iters" / "toy" / "iter_2" / "record.json").unlink()
    again = toy.pytester.runpytest_inprocess(f"--lmsv-resume={campaign}", "-p", "no:cacheprovider")
    again.assert_outcomes(passed=3)
    assert toy.stored("iters/toy/iter_2/mutation.json")["edits"] == wanted


def test_a_campaign_that_another_session_runs_is_not_resumed(toy: Toy) -> None:
    toy.run(iters=1).assert_outcomes(passed=1)
    campaign = toy.campaign
    with (campaign / "live" / "session.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        result = toy.run(f"--lmsv-resume={campaign}", iters=1)
        assert result.ret == 4
        result.stderr.fnmatch_lines(["ERROR: *another session is running this campaign; wait*"])
    toy.run(f"--lmsv-resume={campaign}", iters=1).assert_outcomes(passed=1)


def test_resume_refuses_other_documents(toy: Toy) -> None:
    toy.run(iters=1).assert_outcomes(passed=1)
    path = toy.pytester.path / "models" / "toy" / "cpu" / "model.json"
    path.write_text('{"width": 1, "idle": 8}', encoding="utf-8")
    result = toy.run(f"--lmsv-resume={toy.campaign}", iters=2)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *toy has other documents*"])


def test_a_training_without_any_loss_passes_nothing(toy: Toy) -> None:
    toy.behave(msa=[{"silent": True}])
    result = toy.run(iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MSA printed no loss: nothing was compared*"])
    toy.behave(pta=[{"when": {"width": 1, "idle": 9}}, {"silent": True}])
    result = toy.run("--lmsv-attempts=1", iters=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*it printed no loss*"])


@pytest.mark.parametrize("workers", ["2", "auto"])
def test_xdist_gives_the_same_results(toy: Toy, workers: str) -> None:
    if workers == "2" and len(os.sched_getaffinity(0)) < 2:
        pytest.fail("this test needs two cores")
    toy.behave(msa=[{"when": {"width": 4}, "loss_factor": 1.2}])
    alone = toy.start("--junitxml=alone.xml", iters=6)
    names = alone.parseoutcomes()
    together = toy.start("-n", workers, "--junitxml=together.xml", iters=6)
    assert together.parseoutcomes() == names

    def shown(path: Path) -> list[dict[str, str]]:
        hidden = {"lmsv.folder"}
        found = [{k: v for k, v in case.items() if k not in hidden} for case in properties(path)]
        return sorted(found, key=lambda case: int(case["lmsv.iteration"]))

    root = toy.pytester.path
    assert shown(root / "alone.xml") == shown(root / "together.xml")
    assert len(list(toy.campaign.glob("iters/toy/unmutated/runtime_logs/*"))) == 1
