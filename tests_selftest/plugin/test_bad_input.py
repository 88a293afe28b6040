"""Bad input is one line and exit 4, before any run, and nothing is lost of what was there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import Toy


def refused(toy: Toy, result: pytest.RunResult, *words: str) -> None:
    """Check that *result* is one clear line with *words*, and that no run was started."""
    assert result.ret == 4
    lines = [line for line in result.errlines if line.strip()]
    assert len(lines) == 1, result.errlines
    assert lines[0].startswith("ERROR: ")
    for word in words:
        assert word in lines[0]
    assert not list(toy.pytester.path.glob("output/*/iters"))


def test_an_unknown_model_gets_a_suggestion(toy: Toy) -> None:
    refused(toy, toy.run(models="toi"), "toi", "did you mean 'toy'?")


@pytest.mark.parametrize("iters", ["0", "-3", "many"])
def test_wrong_counts_are_named_with_what_would_be_right(toy: Toy, iters: str) -> None:
    refused(toy, toy.run(f"--iters={iters}"), "--iters", iters, "a whole number of at least 1")


def test_a_wrong_ini_value_names_the_ini(toy: Toy) -> None:
    result = toy.run("-o", "lmsv_attempts=none")
    refused(toy, result, "ini lmsv_attempts", "a whole number of at least 1")


def test_broken_json_names_file_and_line(toy: Toy) -> None:
    path = toy.pytester.path / "models" / "toy" / "cpu" / "model.json"
    path.write_text('{"width": 1,\n "idle" 9}', encoding="utf-8")
    refused(toy, toy.run(), f"{path}: line 2")
    assert path.read_text("utf-8") == '{"width": 1,\n "idle" 9}'


def test_broken_yaml_names_file_and_line(toy: Toy) -> None:
    path = toy.pytester.path / "models" / "toy" / "space.yaml"
    path.write_text("keys:\n  - {path: /model/width, values: [1, 2\n", encoding="utf-8")
    refused(toy, toy.run(), str(path), "line 3")


def test_more_edits_than_the_space_has_are_refused(toy: Toy) -> None:
    refused(toy, toy.run("--lmsv-mutations=9"), "toy", "found 9")


def test_a_space_whose_constraints_leave_nothing_is_refused(toy: Toy) -> None:
    path = toy.pytester.path / "models" / "toy" / "space.yaml"
    path.write_text(
        "keys:\n  - {path: /model/width, values: [2, 3], live: true}\n"
        "constraints:\n  - {rule: at_most, path: /model/width, limit: 1}\n",
        encoding="utf-8",
    )
    refused(toy, toy.run("--lmsv-mutations=1"), "toy")


@pytest.mark.parametrize("where", ["/proc/verdicts.xml", "models"])
def test_a_file_of_verdicts_that_cannot_be_written_is_told_before_any_run(
    toy: Toy, where: str
) -> None:
    refused(toy, toy.run(f"--lmsv-verdict-xml={where}"), "--lmsv-verdict-xml", "name another file")


def test_a_missing_launcher_is_named(toy: Toy) -> None:
    (toy.pytester.path / "scripts" / "msa_toy.sh").unlink()
    refused(toy, toy.run(), "msa_toy.sh", "lmsv_launcher_dirs")


def test_a_mutation_of_other_documents_is_an_error_of_its_test(toy: Toy) -> None:
    toy.run(iters=1).assert_outcomes(passed=1)
    stored = toy.campaign / "iters" / "toy" / "iter_1" / "mutation.json"
    mutation = json.loads(stored.read_text("utf-8"))
    mutation["edits"][0]["from"] = 12345
    other = toy.pytester.path / "other.json"
    other.write_text(json.dumps(mutation), encoding="utf-8")
    result = toy.pytester.runpytest_inprocess(f"--lmsv-replay={other}")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *expected 12345, found *"])


def test_a_replay_that_the_space_would_not_draw_runs_with_a_warning(toy: Toy) -> None:
    toy.run(iters=1).assert_outcomes(passed=1)
    stored = toy.campaign / "iters" / "toy" / "iter_1" / "mutation.json"
    again = toy.pytester.runpytest_inprocess(f"--lmsv-replay={stored}", "--lmsv-steps=2")
    again.stdout.no_fnmatch_line("*mutation space*")
    mutation = json.loads(stored.read_text("utf-8"))
    edit = mutation["edits"][0]
    edit["to"] = 12345
    other = toy.pytester.path / "other.json"
    other.write_text(json.dumps(mutation), encoding="utf-8")
    result = toy.pytester.runpytest_inprocess(f"--lmsv-replay={other}", "--lmsv-steps=2")
    result.stdout.fnmatch_lines(
        [f"lmsv: *other.json: {edit['path']}: 12345 is no value of the mutation space; it runs *"]
    )


def test_a_replay_of_no_file_or_no_mutation_is_refused(toy: Toy) -> None:
    missing = toy.pytester.runpytest_inprocess("--lmsv-replay=nowhere.json")
    refused(toy, missing, "nowhere.json")
    path = toy.pytester.path / "list.json"
    path.write_text("[]", encoding="utf-8")
    refused(toy, toy.pytester.runpytest_inprocess(f"--lmsv-replay={path}"), "list.json")


def test_an_output_folder_that_is_a_file_is_refused_and_kept(toy: Toy) -> None:
    path = toy.pytester.path / "taken"
    path.write_text("mine", encoding="utf-8")
    refused(toy, toy.run(f"--lmsv-output={path}"), str(path))
    assert path.read_text("utf-8") == "mine"


def test_an_output_folder_that_cannot_be_written_is_refused(toy: Toy) -> None:
    # /proc refuses new folders to root as well.
    refused(toy, toy.run("--lmsv-output=/proc/nothing"), "/proc/nothing")


def test_a_resumed_folder_without_campaign_is_refused(toy: Toy) -> None:
    refused(toy, toy.run(f"--lmsv-resume={toy.pytester.path}"), "campaign.json")


def test_an_environment_without_its_packages_is_refused(toy: Toy) -> None:
    for info in (toy.pytester.path / "env_msa").glob("lib/*/site-packages/mindspore-*"):
        (info / "METADATA").unlink()
        info.rmdir()
    refused(toy, toy.run(), "mindspore", "lmsv_msa_env")


@pytest.mark.parametrize("distribution", ["loadgroup", "loadscope"])
def test_broken_distributions_of_xdist_are_refused(toy: Toy, distribution: str) -> None:
    refused(toy, toy.start("-n1", f"--dist={distribution}"), distribution, "worksteal")


def test_a_chain_needs_one_worker(toy: Toy) -> None:
    refused(toy, toy.start("-n1", "--lmsv-chain"), "--lmsv-chain")


def test_more_workers_than_cores_are_refused(toy: Toy) -> None:
    asked = len(os.sched_getaffinity(0)) + 1
    refused(toy, toy.start(f"-n{asked}"), "-n", str(asked))


def test_a_machine_set_up_for_npus_without_one_is_refused(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", "/usr/local/Ascend/cann")
    refused(toy, toy.run(), "found no NPU", "--lmsv-device cpu")


def test_an_unknown_key_of_a_known_bug_is_refused(toy: Toy) -> None:
    toy.add_known_bugs("- {id: a, title: b, stack: msa, expected: true, signature: x, colour: red}")
    refused(toy, toy.run(), "known_bugs.yaml", "colour")


def test_a_test_without_models_is_skipped_with_a_hint(toy: Toy, packaged_test: Path) -> None:
    result = toy.pytester.runpytest_inprocess(str(packaged_test), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no models asked for*pytest --model cogvideox*"])


def test_a_path_that_pytest_takes_for_a_test_is_refused(toy: Toy, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    result = toy.start("--lmsv-output", str(other))
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: --lmsv-output {other}: *write --lmsv-output={other}"])
