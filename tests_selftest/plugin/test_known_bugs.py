"""Known bugs from the outside (DESIGN 5.5): XFAIL, FAILED, XPASS."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests_selftest.plugin.conftest import Toy, properties

CRASH = """\
- id: toy-crash
  title: the toy crashes
  models: [toy]
  stack: msa
  device: cpu
  signature: "aclnnFoo failed"
  expected: true
  strict: true
"""
SLOW = """\
- id: toy-slow
  title: the toy is slow
  models: [toy]
  stack: msa
  device: cpu
  verdict: performance
  limit: 1.0
  expected: true
"""


def test_a_known_error_is_xfail(toy: Toy) -> None:
    toy.add_known_bugs(CRASH)
    toy.behave(msa=[{"error_at": 1, "error": "aclnnFoo failed"}])
    result = toy.run("--junitxml=junit.xml", iters=2)
    result.assert_outcomes(xfailed=2)
    assert result.ret == 0
    (case, _) = properties(toy.pytester.path / "junit.xml")
    assert case["lmsv.known_bug"] == "toy-crash"
    skipped = next(ET.parse(toy.pytester.path / "junit.xml").getroot().iter("skipped"))
    assert skipped.get("message") == "toy-crash"


def test_another_error_fails(toy: Toy) -> None:
    toy.add_known_bugs(CRASH)
    toy.behave(msa=[{"error_at": 1, "error": "something else"}])
    toy.run(iters=1).assert_outcomes(failed=1)


def test_a_strict_known_bug_that_did_not_happen_fails_and_says_what_to_do(toy: Toy) -> None:
    toy.add_known_bugs(CRASH)
    result = toy.run(iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*XPASS(strict)*toy-crash*",
            "known bug toy-crash did not happen: remove the entry from known_bugs.yaml, or limit "
            "it by versions",
        ]
    )


def test_an_error_of_the_baseline_is_no_known_bug(toy: Toy) -> None:
    toy.add_known_bugs(CRASH)
    toy.behave(pta=[{"error_at": 1, "error": "aclnnFoo failed"}])
    toy.run(iters=1).assert_outcomes(errors=1)


def test_a_known_slowness_is_accepted_up_to_its_limit(toy: Toy) -> None:
    toy.add_known_bugs(SLOW)
    toy.behave(msa=[{"ms": 19.0}])
    toy.run("--lmsv-gate=all", iters=1).assert_outcomes(xfailed=1)
    toy.behave(msa=[{"ms": 21.0}])
    toy.run("--lmsv-gate=all", iters=1).assert_outcomes(failed=1)


def test_a_known_slowness_beside_a_wrong_loss_fails(toy: Toy) -> None:
    toy.add_known_bugs(SLOW)
    toy.behave(msa=[{"ms": 19.0, "loss_factor": 2.0}])
    toy.run("--lmsv-gate=all", iters=1).assert_outcomes(failed=1)


WRONG = """\
- id: toy-wrong
  title: the toy's loss is wrong
  models: [toy]
  stack: msa
  device: cpu
  verdict: accuracy
  limit: 2.0
  keys: [{key}]
  expected: true
"""


def test_an_ng_is_accepted_only_where_the_mutation_changes_the_keys(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 2.0}])
    toy.run("--lmsv-gate=accuracy", iters=1)
    (edit, *_) = toy.stored("iters/toy/iter_1/mutation.json")["edits"]
    toy.add_known_bugs(WRONG.format(key=edit["path"]))
    toy.run("--lmsv-gate=accuracy", iters=1).assert_outcomes(xfailed=1)
    toy.add_known_bugs(WRONG.format(key=f"{edit['path']}, /model/other"))
    # A process of its own: this one has read the file.
    toy.start("--lmsv-gate=accuracy", iters=1).assert_outcomes(failed=1)


def test_a_pasted_entry_made_without_the_fixes_says_nothing_of_a_run_with_them(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.5}])
    off = ("--lmsv-gate=accuracy", "--lmsv-adapter-fixes=off")
    toy.run(*off, iters=1).assert_outcomes(failed=1)
    (report,) = toy.campaign.glob("detected_bugs/*.md")
    _, _, rest = report.read_text("utf-8").partition("```yaml\n")
    toy.add_known_bugs(rest.partition("```")[0])
    toy.run(*off, iters=1).assert_outcomes(xfailed=1)
    toy.run("--lmsv-gate=accuracy", iters=1).assert_outcomes(failed=1)
    toy.behave()
    toy.run("--lmsv-gate=accuracy", iters=1).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[{key}]", "[model/width]"), "begin with /model"),
        (("[{key}]", "[/model]"), "begin with /model"),
        (("[{key}]", "[/other/width]"), "begin with /model"),
        (("[{key}]", "/model/width"), "must be a list"),
        (("[{key}]", "[]"), "is empty"),
        (("[{key}]", "[/model/width]\n  strict: true"), "strict"),
        (("verdict: accuracy\n  limit: 2.0", "signature: failed"), "belong to a `verdict`"),
        (("accuracy\n  limit: 2.0", "drift\n  limit: 0.01"), "above 1"),
    ],
)
def test_keys_and_limits_that_mean_nothing_are_refused(
    toy: Toy, change: tuple[str, str], words: str
) -> None:
    toy.add_known_bugs(WRONG.replace(*change).format(key="/model/width"))
    result = toy.run(iters=1)
    assert result.ret == 4
    assert "toy-wrong" in result.stderr.str()
    assert words in result.stderr.str()


def test_an_entry_with_a_verdict_is_not_strict(toy: Toy) -> None:
    toy.add_known_bugs(SLOW)
    result = toy.run("--lmsv-gate=all", iters=1)
    result.assert_outcomes(xpassed=1)
    assert result.ret == 0


def test_several_entries_make_one_mark(toy: Toy) -> None:
    toy.add_known_bugs(SLOW + CRASH)
    toy.behave(msa=[{"when": {"width": 1}, "ms": 19.0}, {"ms": 19.0}])
    result = toy.run("--lmsv-gate=all", iters=1)
    result.assert_outcomes(xfailed=1)


def test_an_entry_for_other_versions_does_not_apply(toy: Toy) -> None:
    toy.add_known_bugs(CRASH + '  versions: ["mindspore<2.0"]\n')
    toy.behave(msa=[{"error_at": 1, "error": "aclnnFoo failed"}])
    toy.run(iters=1).assert_outcomes(failed=1)


def test_comparing_pta_with_itself_knows_no_bugs(toy: Toy) -> None:
    toy.add_known_bugs(CRASH)
    result = toy.run("--lmsv-compare=pta_pta", iters=1)
    result.assert_outcomes(passed=1)
    names = sorted(p.name for p in toy.campaign.glob("iters/toy/iter_1/runtime_logs/*"))
    assert names == ["pta_baseline_verify_iter1.log", "pta_replay_verify_iter1.log"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("aclnnFoo failed", ".*"), "matches any error"),
        (("aclnnFoo failed", ""), "matches any error"),
        (("strict: true", "strict: true\n  when: {adapter_fixes: sometimes}"), "adapter_fixes"),
    ],
)
def test_an_entry_that_would_cover_too_much_is_refused(
    toy: Toy, change: tuple[str, str], words: str
) -> None:
    toy.add_known_bugs(CRASH.replace(*change))
    result = toy.run(iters=1)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: *toy-crash*{words}*"])


@pytest.mark.parametrize("limit", [".inf", ".nan", "0", "-1"])
def test_a_limit_that_is_none_is_refused(toy: Toy, limit: str) -> None:
    toy.add_known_bugs(SLOW.replace("limit: 1.0", f"limit: {limit}"))
    assert toy.run(iters=1).ret == 4


def test_a_quoted_off_is_off(toy: Toy) -> None:
    toy.add_known_bugs(CRASH + "  when: {adapter_fixes: 'off'}\n")
    toy.behave(msa=[{"error_at": 1, "error": "aclnnFoo failed"}])
    toy.run(iters=1).assert_outcomes(failed=1)


def test_an_entry_that_does_not_apply_hides_no_other(toy: Toy) -> None:
    broad = CRASH.replace("toy-crash", "first").replace("aclnnFoo failed", "aclnn")
    toy.add_known_bugs(broad + '  versions: ["mindspore<1.0"]\n' + CRASH)
    toy.behave(msa=[{"error_at": 1, "error": "aclnnFoo failed"}])
    toy.run(iters=1).assert_outcomes(xfailed=1)
