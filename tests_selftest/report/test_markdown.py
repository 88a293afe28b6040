"""summary.md: Task6's table in both languages, statistics, classes; no text of a log is markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.covering import covers
from pytest_lmsv.records import IterationRecord
from pytest_lmsv.report import github, markdown
from pytest_lmsv.report.markdown import fails_only
from pytest_lmsv.report.marks import fenced, inline, ranges
from tests_selftest.judge.made import error, iteration, run, untested
from tests_selftest.report.made import campaign, summary

RECORDS = [
    iteration(1, msa=run("msa", loss=1.0173)),
    iteration(2, msa=run("msa", loss=1.2, memory=90.0, ms=25.0)),
    iteration(3, msa=run("msa", error=error("a | b\nc", "out_of_memory")), discarded=("invalid",)),
    untested(4),
]


def page(folder: Path, records: list[IterationRecord], **settings: Any) -> str:
    of = campaign(folder, **settings)
    told = summary(of, records)
    return markdown.page(of, told.records, told.classes, [("toy", 5), ("toy", 6)], told_bugs())


def told_bugs() -> list[tuple[str, str]]:
    return [("toy on MSA: a | b", "bug_report_toy_0123456789.md")]


def test_english(tmp_path: Path) -> None:
    text = page(tmp_path, RECORDS)
    for line in (
        "| Iteration | Accuracy | Memory | Performance | Issue |",
        "| 1 | OK (diff=1.73%) | OK (diff=+0.00MB) | OK (diff=+0.00ms) | none |",
        "| 4 | N/A | N/A | N/A | no device |",
        "The campaign ended early. No result of toy: 5-6.",
        "- **Accuracy** (1): toy: 2",
        "- **MSA error: out of memory** (1): toy: 3",
        "- **Invalid mutations** (1): toy: 3",
        "- **Not testable: environment** (1): toy: 4",
    ):
        assert line in text.splitlines(), line
    assert "| 3 | N/A | N/A | N/A | MSA error: RuntimeError: a \\| b c (out_of_memory) |" in text
    assert text.index("## Problem classes") > text.index("## Bug reports")
    assert "| loss difference (%) | 2 | 10.865 | 1.73 | 20 | 12.9188 |" in text
    assert "| memory difference (MB) | 2 | -5 | -10 | 0 | 7.07107 |" in text


def test_chinese(tmp_path: Path) -> None:
    text = page(tmp_path, RECORDS, language="zh")
    for line in (
        "| 轮次 | 精度情况 | 显存情况 | 性能情况 | 问题 |",
        "## 问题归类",
        "- **精度问题**（1）：toy: 2",
        "- **MSA 报错：内存不足**（1）：toy: 3",
    ):
        assert line in text.splitlines(), line


def test_where_performance_alone_fails_the_entry_that_accepts_it_is_printed(tmp_path: Path) -> None:
    slow = [iteration(n, msa=run("msa", ms=10.0 + n)) for n in (1, 2, 3)]
    both = iteration(4, msa=run("msa", ms=90.0, loss=2.0))
    text = page(tmp_path, [*slow, both])
    assert "3 FAILED: performance only (toy)" in text
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    file = tmp_path / "known_bugs.yaml"
    file.write_text(block, encoding="utf-8")
    (entry,) = known_bugs.load((file,))
    told = summary(campaign(tmp_path), [*slow, both]).told()
    found = [finding for _, findings in told for finding in findings if finding.verdict]
    times = [finding for finding in found if finding.name == "performance"]
    assert [covers(entry, finding) for finding in times] == [True, True, True, False]
    assert [fails_only(record, "performance", (entry,)) for record in (*slow, both)] == [False] * 4
    assert [fails_only(record, "performance") for record in (*slow, both)] == [True] * 3 + [False]
    of = campaign(tmp_path)
    made = summary(of, slow, lambda model: (entry,))
    text = markdown.page(of, made.records, made.classes, expected=made.expected)
    assert "performance only" not in text


def test_no_problem_was_found_only_where_every_iteration_was_judged(tmp_path: Path) -> None:
    of, title = campaign(tmp_path), "## Problem classes\n\n"
    told, nothing = summary(of, [iteration(1)]), summary(of, [])
    text = markdown.page(of, told.records, told.classes)
    assert text.endswith(f"{title}No problem was found.\n")
    text = markdown.page(of, told.records, told.classes, [("toy", 2)], damaged=[("toy", 3)])
    assert text.endswith(f"{title}No problem was found in what was judged: 1 of 3 iterations.\n")
    assert "is damaged, and in no figure: toy: 3.\n" in text
    text = markdown.page(of, nothing.records, nothing.classes, [("toy", 1)])
    assert text.endswith(f"{title}No iteration was judged.\n")


def unescaped(text: str, sign: str) -> int:
    return len(re.findall(rf"(?<!\\)(?:\\\\)*{re.escape(sign)}", text))


@given(st.text())
def test_any_text_is_one_line_without_markup(text: str) -> None:
    shown = inline(text)
    assert len(shown.splitlines()) <= 1
    for sign in "|`*[]~":
        assert unescaped(shown, sign) == 0, sign
    assert "<" not in shown
    assert shown[:1] not in tuple("#+-=>")
    shown.encode()


@given(st.lists(st.text()))
def test_a_block_of_code_ends_at_its_own_fence_only(lines: list[str]) -> None:
    first, *body, last = fenced(lines)
    assert first == last
    assert not [line for line in body if line.lstrip().startswith(first)]


@given(st.sets(st.integers(1, 60)))
def test_ranges_name_every_number_once(numbers: set[int]) -> None:
    named = [part.partition("-") for part in ranges(numbers).split(", ") if part]
    found = [n for a, _, b in named for n in range(int(a), int(b or a) + 1)]
    assert found == sorted(numbers)


def test_githubs_summary_is_appended_and_cut_at_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "step.md"
    path.write_text("before\n", encoding="utf-8")
    github.add(path, "一行\n" * 300_000)
    text = path.read_text("utf-8")
    assert path.stat().st_size <= 1024 * 1024
    assert text.startswith("before\n一行\n")
    assert text.endswith(github.CUT)
    github.add(path, "more\n")
    assert path.stat().st_size <= 1024 * 1024
