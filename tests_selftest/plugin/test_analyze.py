"""`lmsv analyze`: all reports again from what is stored, and nothing is run."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import Toy, properties
from tests_selftest.plugin.test_known_bugs import CRASH

TIMES = (
    r'"timestamp": "[^"]*"|Report generated on [^<]*|\d+ tests? (?:took [^<]*)?\.?</p>'
    r"|col-duration[^<]*|duration&#34;: &#34;[^&]*|\b\d\d:\d\d:\d\d\b"
)


@pytest.fixture
def analyze(toy: Toy) -> Callable[..., pytest.RunResult]:
    """Analyse the newest campaign, in a project whose runs would all fail."""

    def run(*arguments: str) -> pytest.RunResult:
        toy.behave(pta=[{"error_at": 1, "error": "it was run"}])
        words = (f"--lmsv-analyze={toy.campaign}", "-p", "no:cacheprovider", *arguments)
        return toy.pytester.runpytest_inprocess(*words)

    return run


Analyze = Callable[..., pytest.RunResult]


def written(campaign: Path) -> dict[str, str]:
    """All files of the reports, without times."""
    files = [path for path in campaign.rglob("*") if path.is_file() and "iters" not in path.parts]
    return {
        str(path.relative_to(campaign)): re.sub(TIMES, "", path.read_text("utf-8"))
        for path in files
        if "live" not in path.parts
    }


def ended(path: Path) -> list[tuple[str, list[str], list[tuple[str, str]]]]:
    """Name, outcome and properties of each testcase."""
    return [
        (
            case.get("name", ""),
            [f"{child.tag} {child.get('message')}" for child in case if child.tag != "properties"],
            [(p.get("name", ""), p.get("value", "")) for p in case.iter("property")],
        )
        for case in ET.parse(path).getroot().iter("testcase")
    ]


def mixed(toy: Toy) -> None:
    """A campaign with every kind of end."""
    toy.add_known_bugs(CRASH.replace("strict: true", "strict: false"))
    toy.behave(
        pta=[
            {"when": {"width": 1, "idle": 9}},
            {"when": {"width": 6}, "error_at": 1, "error": "x"},
        ],
        msa=[
            {"when": {"width": 2}, "loss_factor": 1.2},
            {"when": {"width": 3}, "error_at": 1, "error": "aclnnFoo failed"},
            {"when": {"width": 4}, "weights": "other"},
            {"when": {"width": 5}, "error_at": 2, "error": "<b>other & `more` | pipes"},
        ],
    )
    result = toy.run("--junitxml=first.xml", "--lmsv-seed=3", iters=9)
    counts = result.parseoutcomes()
    assert {"failed", "xfailed", "xpassed", "errors"} <= counts.keys(), counts


def test_everything_is_written_again_equal(toy: Toy, analyze: Analyze) -> None:
    mixed(toy)
    before, logs = written(toy.campaign), sorted(toy.campaign.rglob("*.log"))
    stored = {path: path.read_bytes() for path in toy.campaign.glob("iters/**/*.json")}
    for folder in ("analysis", "data", "detected_bugs"):
        shutil.rmtree(toy.campaign / folder, ignore_errors=True)
    (toy.campaign / "final_report.json").unlink()
    result = analyze("--junitxml=second.xml")
    root = toy.pytester.path
    assert ended(root / "second.xml") == ended(root / "first.xml")
    assert result.ret == 1
    after = written(toy.campaign)
    assert after.keys() == before.keys()
    for name in after:
        assert after[name] == before[name], name
    assert {path: path.read_bytes() for path in toy.campaign.glob("iters/**/*.json")} == stored
    assert sorted(toy.campaign.rglob("*.log")) == logs


def test_other_limits_need_no_run(toy: Toy, analyze: Analyze) -> None:
    toy.behave(msa=[{"loss_factor": 1.02, "ms": 12.0}])
    toy.run(iters=2).assert_outcomes(passed=2)
    analyze("--lmsv-loss-tolerance=0.01").assert_outcomes(failed=2)
    statistics = toy.stored("data/summary.json")["statistics"]["toy"]
    assert statistics["issues"] == 2
    metrics = toy.stored("iters/toy/iter_1/metrics.json")
    assert metrics["analysis"]["accuracy_ok"] is True  # what was stored stays
    analyze("--lmsv-gate=all").assert_outcomes(failed=2)
    analyze().assert_outcomes(passed=2)
    assert analyze("--lmsv-steps=7").ret == 4


def test_the_campaigns_own_settings_are_used(toy: Toy, analyze: Analyze) -> None:
    toy.behave(msa=[{"loss_factor": 1.2}])
    toy.run("--lmsv-compare=pta_pta", "--lmsv-loss-tolerance=0.3", "--lmsv-seed=9", iters=1)
    with (toy.pytester.path / "pytest.ini").open("a") as ini:
        ini.write("lmsv_seed = 1\nlmsv_model = toy\nlmsv_loss_tolerance = 0.1\n")
    result = analyze()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["lmsv: analysis of *: toy, pta against pta on cpu, *"])


def test_what_an_interrupted_campaign_lacks_is_told(toy: Toy, analyze: Analyze) -> None:
    toy.run(iters=3)
    (toy.campaign / "iters" / "toy" / "iter_2" / "record.json").unlink()
    result = analyze("-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["lmsv: the campaign ended early, no result of: toy-iter2"])


def test_a_new_entry_of_known_bugs_counts(toy: Toy, analyze: Analyze) -> None:
    toy.behave(msa=[{"error_at": 1, "error": "aclnnFoo failed"}])
    toy.run(iters=1).assert_outcomes(failed=1)
    toy.add_known_bugs(CRASH)
    analyze("--junitxml=again.xml").assert_outcomes(xfailed=1)
    (case,) = properties(toy.pytester.path / "again.xml")
    assert case["lmsv.known_bug"] == "toy-crash"


def test_a_campaign_of_a_model_that_is_gone_can_be_read(toy: Toy, analyze: Analyze) -> None:
    toy.run(iters=1)
    shutil.rmtree(toy.pytester.path / "models" / "toy")
    analyze().assert_outcomes(passed=1)


def test_no_other_test_of_the_folder_runs(toy: Toy, analyze: Analyze) -> None:
    toy.run(iters=1)
    toy.pytester.makepyfile(test_other="def test_other(): raise SystemExit")
    analyze().assert_outcomes(passed=1)


def test_two_workers_write_the_same(toy: Toy) -> None:
    toy.behave(msa=[{"when": {"width": 4}, "loss_factor": 1.2}])
    first = toy.run(iters=6).parseoutcomes()
    words = [f"--lmsv-analyze={toy.campaign}", "-p", "no:cacheprovider", "-n2"]
    second = toy.pytester.runpytest_subprocess(*words)
    assert second.parseoutcomes() == first


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"settings": {}, "models": 3, "iters": "x"}', None]
)
def test_a_damaged_campaign_is_one_line(toy: Toy, text: str | None) -> None:
    folder = toy.pytester.mkdir("damaged")
    if text is not None:
        (folder / "campaign.json").write_text(text, encoding="utf-8")
    result = toy.pytester.runpytest_inprocess(f"--lmsv-analyze={folder}")
    assert result.ret == 4
    assert len([line for line in result.errlines if line.strip()]) == 1
    assert str(folder) in result.stderr.str()


@pytest.mark.parametrize("what", ["cut", "a number that is a word"])
def test_a_damaged_iteration_costs_only_itself(toy: Toy, analyze: Analyze, what: str) -> None:
    toy.run(iters=2)
    path = toy.campaign / "iters" / "toy" / "iter_1" / "record.json"
    record = json.loads(path.read_text("utf-8"))
    path.write_text("{" if what == "cut" else json.dumps({**record, "iteration": "x"}))
    result = analyze()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*iter_1/record.json: is damaged*"])
    assert "Traceback" not in result.stdout.str()
    page = (toy.campaign / "analysis" / "summary.md").read_text("utf-8")
    assert "| 2 | OK" in page
    assert "is damaged, and in no figure: toy: 1." in page
    assert "No problem was found." not in page
    toy.behave()
    toy.run(f"--lmsv-resume={toy.campaign}", iters=2).assert_outcomes(passed=1, errors=1)


@pytest.mark.parametrize("word", ["--lmsv-replay=x.json", "--lmsv-resume=y"])
def test_what_would_run_something_is_refused(toy: Toy, analyze: Analyze, word: str) -> None:
    toy.run(iters=1)
    result = analyze(word)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --lmsv-re*: an analysis runs nothing*"])


def test_a_replayed_iteration_is_all_of_its_campaign(toy: Toy, analyze: Analyze) -> None:
    toy.run(iters=2)
    stored = toy.campaign / "iters" / "toy" / "iter_2" / "mutation.json"
    toy.pytester.runpytest_inprocess(f"--lmsv-replay={stored}", "--lmsv-steps=2")
    assert json.loads((toy.campaign / "campaign.json").read_text())["iterations"] == [["toy", 2]]
    analyze().assert_outcomes(passed=1)


def test_a_copied_campaign_names_its_own_logs(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.2}])
    toy.run(iters=1).assert_outcomes(failed=1)
    copy = toy.pytester.path / "copy"
    shutil.copytree(toy.campaign, copy)
    result = toy.pytester.runpytest_inprocess(f"--lmsv-analyze={copy}")
    logs = [line for line in result.outlines if "PTA log: " in line or "MSA log: " in line]
    assert len(logs) >= 2
    assert all(f"log: {copy}" in line for line in logs)
