"""A stored result that can't be read is named by every report, and never counts as sound."""

from __future__ import annotations

import pytest

from pytest_lmsv.report import history
from tests_selftest.plugin.conftest import Toy


def analyzed(toy: Toy, damaged: dict[int, str], *words: str) -> pytest.RunResult:
    """Analyse a sound campaign of two iterations after the *damaged* ones became other texts."""
    toy.run(iters=2).assert_outcomes(passed=2)
    for number, text in damaged.items():
        path = toy.campaign / "iters" / "toy" / f"iter_{number}" / "record.json"
        path.write_text(text, encoding="utf-8")
    return toy.pytester.runpytest_inprocess(
        f"--lmsv-analyze={toy.campaign}", "-p", "no:cacheprovider", *words
    )


def report(toy: Toy, name: str) -> str:
    return (toy.campaign / "analysis" / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en", "The stored result of these iterations is damaged, and in no figure: toy: 1."),
        ("zh", "以下轮次的存储结果已损坏，未计入任何数据：toy: 1。"),
    ],
)
def test_every_report_names_a_damaged_iteration(
    toy: Toy, capsys: pytest.CaptureFixture[str], language: str, sentence: str
) -> None:
    verdicts = toy.pytester.path / "verdicts.xml"
    words = (f"--lmsv-language={language}", f"--lmsv-verdict-xml={verdicts}")
    result = analyzed(toy, {1: "null"}, *words)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["toy: damaged and in no figure: iteration 1"])
    text = report(toy, "summary.md")
    assert sentence in text.splitlines()
    assert "No problem was found.\n" not in text
    assert "未发现问题。\n" not in text.replace("中未发现问题。", "")
    page = report(toy, "report.html")
    assert "damaged and in no figure: iteration 1" in page
    assert "judged: 1 of 2 iterations" in page
    assert 'name="iter1.run"' in verdicts.read_text("utf-8")
    capsys.readouterr()
    history.main([str(toy.campaign)])
    assert "toy: damaged and in no figure: iteration 1\n" in capsys.readouterr().out


def test_a_campaign_damaged_as_a_whole_is_not_called_sound(toy: Toy) -> None:
    analyzed(toy, {1: "null", 2: "null"}).assert_outcomes(errors=2)
    assert report(toy, "summary.md").endswith("No iteration was judged.\n")
    assert "No iteration was judged." in report(toy, "report.html")
