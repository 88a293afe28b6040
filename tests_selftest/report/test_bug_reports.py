"""Bug reports: one for each cause, with an entry of known_bugs.yaml that really accepts it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.bugs import Bug
from pytest_lmsv.judge.covering import covers
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import Edit, IterationRecord, Verdict
from pytest_lmsv.report import bugs
from tests_selftest.judge.made import error, iteration, run
from tests_selftest.judge.test_signature import CAUSES, logged
from tests_selftest.report.made import campaign, summary


def pasted(report: str, folder: Path) -> KnownBug:
    """The entry of *report*, as it loads from a file that it was pasted into."""
    ((_, block),) = re.findall(r"^(`{3,})yaml\n(.*?)^\1$", report, re.DOTALL | re.MULTILINE)
    file = folder / f"known_{abs(hash(block))}.yaml"
    file.write_text("# mine\n\n" + block, encoding="utf-8")
    (entry,) = known_bugs.load((file,))
    return entry


def reports(folder: Path, records: list[IterationRecord], **options: Any) -> list[tuple[Bug, str]]:
    """Each bug with its report."""
    of = campaign(folder / "20260102_030405", **options)
    found = summary(of, records).bugs()
    written = bugs.write(of, found, {}, {})
    return [
        (bug, (of.folder / "detected_bugs" / name).read_text("utf-8"))
        for bug, (_, name) in zip(found, written, strict=True)
    ]


def test_200_failing_runs_of_10_causes_give_10_reports_whose_entries_accept_them(
    tmp_path: Path,
) -> None:
    draw = random.Random(11)
    errors = [logged(CAUSES[number % 10], draw, tmp_path) for number in range(200)]
    records = [
        iteration(number, msa=run("msa", error=found)) for number, found in enumerate(errors, 1)
    ]
    found = reports(tmp_path, records)
    assert len(found) == 10
    assert len(list(tmp_path.glob("*/detected_bugs/*.md"))) == 10
    for place, (bug, text) in enumerate(found):
        assert len(bug.iterations) == 20
        assert "Seen in 20 iterations" in text
        entry = pasted(text, tmp_path)
        assert entry.expected
        assert entry.device == "cpu"
        for number, root in enumerate(errors):
            matches = known_bugs.match([entry], root, stack="msa", device="cpu", model="toy")
            assert (matches is not None) == (number % 10 == place)


def test_the_report_says_what_a_tracker_asks_for(tmp_path: Path) -> None:
    found = logged(CAUSES[4], random.Random(1), tmp_path)
    one, two = Edit("/model/width", 1, 4), Edit("/args/lr", 9e-5, 1e-5)
    records = [
        iteration(3, msa=run("msa", error=found), edits=(one, two)),
        iteration(7, msa=run("msa", error=found, loss=0.5), edits=(one,)),
    ]
    ((_, text),) = reports(tmp_path, records)
    for words in (
        "# toy on MSA: TypeError: 'UntypedStorage' object is not callable",
        "Seen in 2 iterations (toy: 3, 7)",
        "Of iteration 7:",
        "- /model/width: 1 → 4",
        "- expected: MSA runs to its end, as PTA does",
        "- actual: MSA error: TypeError: 'UntypedStorage' object is not callable",
        "| PTA | ok | 0.333333333 | 100 | 10 |",
        "| MSA | error | 0.166666667 | 100 | 10 |",
        "train.py",
        "launchers/msa_toy.sh",
        "lmsv repro ",
        "since: '2026-01-02'",
    ):
        assert words in text, words
    assert "/args/lr" not in text


@pytest.mark.parametrize(
    ("figure", "plain", "surplus", "name"),
    [
        ("loss", 1.0, 0.3, "accuracy"),
        ("memory", 100.0, 33.0, "memory"),
        ("ms", 10.0, 2.0, "performance"),
    ],
)
def test_an_entry_for_a_figure_covers_it_and_no_twice_as_large_one(
    tmp_path: Path, figure: str, plain: float, surplus: float, name: str
) -> None:
    once: dict[str, Any] = {figure: plain + surplus}
    double: dict[str, Any] = {figure: plain + 2 * surplus}
    ((bug, text),) = reports(tmp_path, [iteration(1, msa=run("msa", **once))])
    entry = pasted(text, tmp_path)
    assert (entry.verdict, entry.limit is not None) == (name, True)
    finding = bug.seen[0][1]
    assert covers(entry, finding)
    ((worse, _),) = reports(tmp_path / "worse", [iteration(1, msa=run("msa", **double))])
    assert not covers(entry, worse.seen[0][1])


def wrong(number: int, keys: tuple[str, ...], loss: float = 1.3) -> IterationRecord:
    """An iteration whose mutation of *keys* changes MSA's loss."""
    edits = tuple(Edit(key, 1, 2) for key in keys)
    return iteration(number, msa=run("msa", loss=loss), edits=edits)


def test_an_entry_of_one_bug_does_not_cover_an_ng_of_other_keys(tmp_path: Path) -> None:
    records = [wrong(1, ("/model/a", "/args/b")), wrong(2, ("/model/c",))]
    (first, text), (second, _) = reports(tmp_path, records)
    entry = pasted(text, tmp_path)
    assert entry.keys == ("/args/b", "/model/a")
    assert covers(entry, first.seen[0][1])
    assert not covers(entry, second.seen[0][1])
    assert "# Covers every mutation" not in text


def test_an_entry_of_a_bug_of_every_mutation_has_no_keys_and_says_so(tmp_path: Path) -> None:
    every = [wrong(number, (f"/model/{number}",)) for number in range(1, 6)]
    ((bug, text),) = reports(tmp_path, every)
    entry = pasted(text, tmp_path)
    assert entry.keys == ()
    assert all(covers(entry, finding) for _, finding in bug.seen)
    assert "# Covers every mutation of the model, up to the limit." in text


KEYS = st.sampled_from(["/model/a", "/model/b/0", "/data/c~1d", "/args/lr"])
MUTATIONS = st.lists(st.frozensets(KEYS, min_size=1), min_size=1, max_size=3, unique=True)


@given(MUTATIONS, st.floats(1.1, 3.0))
@settings(max_examples=30)
def test_a_pasted_entry_covers_what_was_seen_and_only_mutations_of_all_its_keys(
    mutations: list[frozenset[str]], loss: float
) -> None:
    records = [wrong(n, tuple(sorted(keys)), loss) for n, keys in enumerate(mutations, 1)]
    with TemporaryDirectory() as folder:
        found = reports(Path(folder), records)
        entries = [(bug, pasted(text, Path(folder))) for bug, text in found]
    assert len(entries) == len(mutations)
    findings = [(frozenset(f.keys), f) for bug, _ in entries for _, f in bug.seen]
    for bug, entry in entries:
        assert all(covers(entry, finding) for _, finding in bug.seen)
        for keys, finding in findings:
            assert covers(entry, finding) == (frozenset(entry.keys) <= keys)


@pytest.mark.parametrize(
    ("device", "fixes", "when"),
    [("cpu", False, {"adapter_fixes": "off"}), ("cpu", True, {}), ("npu", False, {})],
)
@pytest.mark.parametrize("end", [{"loss": 1.3}, {"error": error("a shape is refused here")}])
def test_only_what_was_seen_on_cpu_without_the_fixes_is_for_runs_without_them(
    tmp_path: Path, end: dict[str, Any], device: str, fixes: bool, when: dict[str, str]
) -> None:
    records = [iteration(1, msa=run("msa", **end))]
    ((_, text),) = reports(tmp_path, records, device=device, adapter_fixes=fixes)
    entry = pasted(text, tmp_path)
    assert entry.when == when
    applies = known_bugs.expected(
        [entry], model="toy", stack="msa", device=device, adapter_fixes=True
    )
    assert bool(applies) == (not when)


def test_an_entry_for_drift_is_bounded_by_the_ratio_not_by_the_figure_it_names(
    tmp_path: Path,
) -> None:
    def drifted(number: int, ratio: float) -> IterationRecord:
        verdict = Verdict("drift", "NG", 1.0, 0.0, 1.0, "relative", "zero", ratio)
        return replace(iteration(number), verdicts=(verdict,), failing=("drift NG: zero",))

    ((bug, text),) = reports(tmp_path, [drifted(1, 50.0)])
    entry = pasted(text, tmp_path)
    assert (entry.verdict, entry.limit) == ("drift", 55.0)
    assert covers(entry, bug.seen[0][1])
    ((worse, _),) = reports(tmp_path / "worse", [drifted(1, 60.0)])
    assert not covers(entry, worse.seen[0][1])
    ((_, missing),) = reports(tmp_path / "missing", [drifted(1, float("inf"))])
    assert "No entry can accept this" in missing


def test_what_no_entry_can_accept_has_none(tmp_path: Path) -> None:
    ((_, text),) = reports(tmp_path, [iteration(1, msa=run("msa", loss=float("nan")))])
    assert "No entry can accept this" in text


@pytest.mark.parametrize("message", ["", "3", "(2, 3) 0x77"])
def test_an_entry_is_never_for_any_error_of_a_type(tmp_path: Path, message: str) -> None:
    ((_, text),) = reports(tmp_path, [iteration(1, msa=run("msa", error=error(message)))])
    assert "No entry can accept this" in text


def test_verdicts_are_one_bug_for_each_set_of_keys_and_one_where_nearly_all_are_ng(
    tmp_path: Path,
) -> None:
    def edited(number: int, key: str, factor: float) -> IterationRecord:
        return iteration(number, msa=run("msa", loss=factor), edits=(Edit(key, 1, 2),))

    fine = [edited(number, "/model/a", 1.0) for number in range(10, 20)]
    some = [edited(1, "/model/a", 1.2), edited(2, "/model/b", 1.2), edited(3, "/model/a", 1.3)]
    found = [(bug.iterations, bug.signature.parts[2:]) for bug, _ in reports(tmp_path, some + fine)]
    assert found == [
        ((("toy", 1), ("toy", 3)), ("/model/a",)),
        ((("toy", 2),), ("/model/b",)),
    ]
    every = [edited(number, f"/model/{number}", 1.2) for number in range(1, 6)]
    ((bug, text),) = reports(tmp_path / "all", every)
    assert len(bug.iterations) == 5
    assert "accuracy is NG whatever is mutated" in text


def test_a_report_of_a_bug_that_is_none_any_more_goes_and_others_stay(tmp_path: Path) -> None:
    reports(tmp_path, [iteration(1, msa=run("msa", loss=1.2))])
    folder = tmp_path / "20260102_030405" / "detected_bugs"
    (folder / "bug_report_operations_x.md").write_text("of a sweep", encoding="utf-8")
    (folder / "notes.md").write_text("mine", encoding="utf-8")
    reports(tmp_path, [iteration(1)])
    assert sorted(path.name for path in folder.iterdir()) == [
        "bug_report_operations_x.md",
        "notes.md",
    ]


def test_nothing_of_a_log_is_markup(tmp_path: Path) -> None:
    text = "the run ended ```\n# <script>x</script> | [a](javascript:b) `c` \x1b[31m\x00"
    ((_, report),) = reports(tmp_path, [iteration(1, msa=run("msa", error=error(text)))])
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", report, flags=re.DOTALL | re.MULTILINE)
    assert "<script>" not in outside
    assert "[a](" not in outside
    assert "\x1b" not in report
    pasted(report, tmp_path)


def test_logs_of_a_campaign_that_was_copied_are_found(tmp_path: Path) -> None:
    log = tmp_path / "there" / "iters" / "toy" / "iter_1" / "runtime_logs" / "msa.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number}\n" for number in range(1, 100)), encoding="utf-8")
    gone = Path("/gone/campaign") / log.relative_to(tmp_path / "there")
    found = error("x", line_number=50)
    lines = bugs.log_lines(
        tmp_path / "there", type(found)("E", "", "unknown", line_number=50, log=str(gone))
    )
    assert (lines[0], lines[-1]) == ("line 35", "line 58")
