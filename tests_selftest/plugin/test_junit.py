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
    words = ("--lmsv-gate=accuracy,performance", "--lmsv-seed=3", "--junitxml=main.xml")
    toy.start(*words, "--lmsv-verdict-xml=verdicts.xml", *workers, iters=9)
    root = toy.pytester.path
    for name in ("main.xml", "verdicts.xml"):
        SCHEMA.validate(str(root / name))
    cases = properties(root / "main.xml")
    assert len({tuple(case) for case in cases}) == 1  # the same names in the same order
    assert next(iter(cases[0])) == "lmsv.model"
    verdicts = ends(root / "verdicts.xml")
    inputs = "iters/toy/iter_{}/artifacts/mutation_inputs/model.json"
    number = {toy.stored(inputs.format(n))["width"]: n for n in range(1, 10)}
    assert {2, 3, 4, 5} < number.keys()  # else another seed draws them
    plain = next(n for width, n in number.items() if width > 5)
    wanted = {
        f"iter{number[2]}.run": "Passed",
        f"iter{number[2]}.accuracy": "Failure",
        f"iter{number[2]}.performance": "Skipped",  # covered, though the test failed
        f"iter{number[3]}.run": "Skipped",
        f"iter{number[3]}.accuracy": "Skipped",
        f"iter{number[4]}.run": "Error",
        f"iter{number[5]}.run": "Failure",
        f"iter{plain}.run": "Passed",
        f"iter{plain}.accuracy": "Passed",
    }
    assert {name: verdicts[f"lmsv.toy {name}"] for name in wanted} == wanted
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
