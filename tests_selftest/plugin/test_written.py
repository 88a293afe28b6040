"""What is written of a campaign, and when."""

from __future__ import annotations

import csv
import itertools
import json
import re
import subprocess
from pathlib import Path

import pytest

from tests_selftest.plugin.conftest import Toy

WATCH = """\
import json
from pathlib import Path

WORKER = []

def pytest_configure(config):
    WORKER.append(hasattr(config, "workerinput"))

def pytest_runtest_logfinish(nodeid):
    if WORKER[-1]:
        return
    (summary,) = Path("output").glob("*/data/summary.json")
    with open("seen.txt", "a") as stream:
        print(len(json.loads(summary.read_text("utf-8"))["iterations"]), file=stream)
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_the_data_is_written_while_the_campaign_runs(toy: Toy, workers: tuple[str, ...]) -> None:
    toy.pytester.makepyfile(watch=WATCH)
    toy.behave(pta=[{"seconds": 0.1}])
    toy.start("-p", "watch", *workers, iters=4)
    seen = list(map(int, (toy.pytester.path / "seen.txt").read_text("utf-8").split()))
    assert seen[0] == 1
    # Not after each one where writing takes more than a twentieth of so short an iteration.
    assert all(before <= now <= number for number, (before, now) in
               enumerate(itertools.pairwise(seen), start=2))  # fmt: skip
    rows = list(csv.DictReader((toy.campaign / "data" / "iteration_metrics.csv").open()))
    assert [row["iteration"] for row in rows] == ["1", "2", "3", "4"]
    for path in toy.campaign.rglob("*.json"):
        json.loads(path.read_text("utf-8"))
    assert not list(toy.campaign.glob("data/.*"))


def test_the_fields_of_task6_have_one_meaning(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.01, "memory": 110.0, "ms": 12.0}])
    toy.run(iters=1)
    report = toy.stored("final_report.json")
    (result,) = report["results"]
    analysis = result["analysis"]
    loss = result["pta_metrics"]["loss"]
    assert analysis["loss_diff"] == pytest.approx(0.01)
    assert analysis["loss_diff_abs"] == pytest.approx(0.01 * loss)
    assert (analysis["memory_diff"], analysis["memory_diff_rel"]) == (10, pytest.approx(0.1))
    assert (analysis["time_diff"], analysis["time_diff_rel"]) == (2, pytest.approx(0.2))
    assert analysis["loss_match"] is True
    assert analysis["perf_ok"] is False
    assert report["statistics"]["pta_success_rate"] == 1.0
    summary = toy.stored("data/summary.json")
    assert "relative" in summary["units"]["loss_diff"]
    spread = summary["statistics"]["toy"]["differences"]["time_diff"]
    assert spread == {"n": 1, "mean": 2, "min": 2, "max": 2, "stdev": None}
    metrics = toy.stored("iters/toy/iter_1/metrics.json")["analysis"]
    assert metrics["loss_diff_abs"] == analysis["loss_diff_abs"]
    groups = toy.stored("data/issue_groups.json")
    assert groups["Memory"]["iterations"] == ["toy-iter1"]


def test_a_bug_report_repeats_the_bug_without_pytest(toy: Toy) -> None:
    toy.behave(msa=[{"error_at": 2, "error": "aclnnFoo failed"}])
    toy.run(iters=1)
    (report,) = toy.campaign.glob("detected_bugs/*.md")
    block = re.findall(r"^```sh\n(.*?)^```$", report.read_text("utf-8"), re.DOTALL | re.MULTILINE)[
        0
    ]
    done = by_hand(toy.pytester.path, block)
    assert "RuntimeError: aclnnFoo failed" in done.stderr


def test_the_two_sides_of_a_wrong_loss_are_repeated_without_pytest(toy: Toy) -> None:
    toy.behave(msa=[{"loss_factor": 1.5}])
    toy.run(iters=1)
    (report,) = toy.campaign.glob("detected_bugs/*.md")
    block = re.findall(r"^```sh\n(.*?)^```$", report.read_text("utf-8"), re.DOTALL | re.MULTILINE)[
        0
    ]
    done = by_hand(toy.pytester.path, block)
    losses = [float(text) for text in re.findall(r" loss: ([\d.E+-]+) \|", done.stdout)]
    assert done.returncode == 0, done.stderr
    assert losses[3] == pytest.approx(1.5 * losses[1])


def by_hand(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run the commands of a report in *folder*, as a person does."""
    (folder / "hand").mkdir()
    return subprocess.run(
        ["bash", "-c", script], cwd=folder / "hand", capture_output=True, text=True, check=False
    )


def test_githubs_job_shows_the_summary(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    path = toy.pytester.path / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    toy.run(iters=1)
    assert path.read_text("utf-8") == (toy.campaign / "analysis" / "summary.md").read_text("utf-8")


def test_a_summary_that_cannot_be_written_costs_only_itself(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(toy.pytester.path / "no" / "folder"))
    result = toy.start(iters=1)
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    told = [line for line in result.outlines if "a report can't be written" in line]
    assert len(told) == 1
    assert (toy.campaign / "analysis" / "summary.md").is_file()


def test_the_language_is_chosen_by_ini(toy: Toy) -> None:
    with (toy.pytester.path / "pytest.ini").open("a") as ini:
        ini.write("lmsv_language = zh\n")
    toy.run(iters=1)
    assert "| 轮次 | 精度情况 |" in (toy.campaign / "analysis" / "summary.md").read_text("utf-8")


def test_where_time_alone_fails_the_terminal_names_the_entry(toy: Toy) -> None:
    toy.behave(msa=[{"ms": 15.0}])
    result = toy.run("--lmsv-gate=performance", iters=2)
    result.stdout.fnmatch_lines(
        ["toy: 2 FAILED: performance only; the entry of known_bugs.yaml that accepts it: *"]
    )
    text = (toy.campaign / "analysis" / "summary.md").read_text("utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    toy.add_known_bugs(block)
    toy.run("--lmsv-gate=performance", iters=2).assert_outcomes(xfailed=2)
