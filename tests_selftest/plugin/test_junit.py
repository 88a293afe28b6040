"""JUnit as others read it: valid by the Jenkins model, and with the right ends in junitparser."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import junitparser
import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.report.junit import Case, allowed, as_xml
from tests_selftest.plugin.conftest import Toy, properties
from tests_selftest.plugin.test_known_bugs import CRASH, SLOW

SCHEMA = xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd"))
RULES: list[dict[str, Any]] = [
    {"when": {"width": 2}, "loss_factor": 1.2, "ms": 19.0},
    {"when": {"width": 3}, "error_at": 1, "error": "aclnnFoo failed"},
    {"when": {"width": 4}, "weights": "other"},
    {"when": {"width": 5}, "error_at": 2, "error": "\x1b[31mred\x00 \ufffe ]]> & <x> 中文"},
]


def ends(path: Path) -> dict[str, str]:
    """What junitparser reads: the end of every testcase by class and name."""
    found = {}
    for suite in junitparser.JUnitXml.fromfile(str(path)):
        for case in suite:
            told = [type(result).__name__ for result in case.result]
            found[f"{case.classname} {case.name}"] = (told or ["Passed"])[0]
    return found


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_both_files_are_valid_and_tell_every_end(toy: Toy, workers: tuple[str, ...]) -> None:
    toy.add_known_bugs(CRASH.replace("strict: true", "strict: false") + SLOW)
    toy.behave(msa=RULES)
    words = ("--lmsv-gate=accuracy,performance", "--lmsv-seed=41", "--junitxml=main.xml")
    toy.start(*words, "--lmsv-verdict-xml=verdicts.xml", *workers, iters=9)
    root = toy.pytester.path
    for name in ("main.xml", "verdicts.xml"):
        SCHEMA.validate(str(root / name))
    cases = properties(root / "main.xml")
    assert len({tuple(case) for case in cases}) == 1  # the same names in the same order
    assert next(iter(cases[0])) == "lmsv.model"
    # Of width 5, 9, 6, 7, 3, 2, 6, 1 and 4 in this order.
    verdicts = ends(root / "verdicts.xml")
    assert {n: verdicts[f"lmsv.toy {n}"] for n in ("iter1.run", "iter2.run", "iter5.run")} == {
        "iter1.run": "Failure",
        "iter2.run": "Passed",
        "iter5.run": "Skipped",
    }
    assert verdicts["lmsv.toy iter6.accuracy"] == "Failure"
    assert verdicts["lmsv.toy iter6.performance"] == "Skipped"  # covered, though the test failed
    assert verdicts["lmsv.toy iter2.accuracy"] == "Passed"
    assert verdicts["lmsv.toy iter1.accuracy"] == "Skipped"
    assert verdicts["lmsv.toy iter9.run"] == "Error"
    assert not [name for name in verdicts if name.endswith(".output")]
    text = (root / "verdicts.xml").read_text("utf-8")
    assert "toy-crash: MSA error" in text
    assert "<properties" not in text  # the model of Jenkins' xunit plugin has none in a testcase


def test_a_strict_known_bug_that_did_not_happen_is_a_failure_of_the_run(toy: Toy) -> None:
    toy.add_known_bugs(CRASH)
    toy.run("--lmsv-verdict-xml=sub/verdicts.xml", iters=1)
    found = ends(toy.pytester.path / "sub" / "verdicts.xml")
    assert found["lmsv.toy iter1.run"] == "Failure"


def test_an_ng_beside_the_gate_is_shown_and_fails_nothing(toy: Toy) -> None:
    toy.behave(msa=[{"memory": 130.0}])
    toy.run("--lmsv-verdict-xml=v.xml", iters=1).assert_outcomes(passed=1)
    path = toy.pytester.path / "v.xml"
    assert ends(path)["lmsv.toy iter1.memory"] == "Skipped"
    assert "not in the gate: memory NG: MSA 130 MB" in path.read_text("utf-8")


def test_what_an_interrupted_campaign_lacks_is_skipped(toy: Toy) -> None:
    toy.run(iters=2)
    (toy.campaign / "iters" / "toy" / "iter_2" / "record.json").unlink()
    toy.pytester.runpytest_inprocess(
        f"--lmsv-analyze={toy.campaign}", "--lmsv-verdict-xml=v.xml", "--junitxml=j.xml"
    )
    assert ends(toy.pytester.path / "v.xml")["lmsv.toy iter2.run"] == "Skipped"
    SCHEMA.validate(str(toy.pytester.path / "j.xml"))


@given(st.text(), st.text(), st.floats(0, 1e6))
def test_any_text_makes_a_valid_file(name: str, message: str, seconds: float) -> None:
    text = as_xml([Case("lmsv.x", name, seconds, "failure", "V", message)], "2026-01-02T03:04:05")
    root = ET.fromstring(text.encode())
    SCHEMA.validate(root)
    (case,) = root.iter("testcase")
    assert case.get("name") == allowed(name)
    junitparser.JUnitXml.fromstring(text.encode())
