"""Known bugs: loaded with useful messages, matched on the error's own text, expected where they
apply (DESIGN 5.5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_lmsv.judge import known_bugs
from pytest_lmsv.logs.reading import read
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import RunError

FILE = Path(__file__).parents[2] / "mm_configs" / "known_bugs.yaml"
HERE = Path(__file__).parent
BUGS = known_bugs.load((FILE,))
OF_MODELS = [bug for bug in BUGS if bug.models and bug.signature]
STORED = {
    "qwenvl-msa-ez1001-8dims": "cases/037-msa-qwenvl-ez1001-8dims",
    "opensora-msa-untypedstorage": "cases/036-msa-opensora-untypedstorage",
    "qwenvl-msa-innerinplaceindexput": "cases/038-msa-qwenvl-innerinplaceindexput",
    "msa-dtype-bf16-indexerror": "more/msa-dtype-bf16-indexerror",
    "opensora-pta-aclnncat": "cases/039-pta-opensora-aclnncat-fake-metrics",
}


def error_of(folder: str) -> RunError:
    error = read([HERE / folder / "log.txt"]).error
    assert error is not None
    return error


@pytest.mark.parametrize("bug", OF_MODELS, ids=lambda bug: bug.id)
def test_every_entry_of_a_model_matches_its_stored_log(bug: known_bugs.KnownBug) -> None:
    error = error_of(STORED[bug.id])
    assert known_bugs.match(BUGS, error, stack=bug.stack) == bug
    assert known_bugs.match(BUGS, error, stack="msa" if bug.stack == "pta" else "pta") is None


@pytest.mark.parametrize("bug", OF_MODELS, ids=lambda bug: bug.id)
def test_no_entry_of_a_model_matches_another_log(bug: known_bugs.KnownBug) -> None:
    for folder in sorted((HERE / "cases").iterdir()):
        about = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        error = read([folder / "log.txt"]).error
        if error is None or about["expect"].get("known_bug_id") == bug.id:
            continue
        assert known_bugs.match([bug], error) is None, folder.name
    for other, place in STORED.items():
        if other != bug.id:
            assert known_bugs.match([bug], error_of(place)) is None, other


def test_the_two_bugs_of_the_devices_are_expected_on_npu_only() -> None:
    found = known_bugs.expected(BUGS, model="qwenvl", stack="msa", device="npu")
    assert [bug.id for bug in found] == ["qwenvl-msa-ez1001-8dims"]
    found = known_bugs.expected(BUGS, model="opensora", stack="msa", device="npu")
    assert [bug.id for bug in found] == ["opensora-msa-untypedstorage"]
    assert not known_bugs.expected(BUGS, model="qwenvl", stack="msa", device="cpu")
    assert not known_bugs.expected(BUGS, model="opensora", stack="pta", device="npu")
    assert not known_bugs.expected(BUGS, model="cogvideox", stack="msa", device="npu")


ENTRY = """\
- id: one
  title: a title
  operations: [sub]
  stack: msa
  signature: boom
  expected: true
"""


def entry(tmp_path: Path, text: str) -> tuple[known_bugs.KnownBug, ...]:
    path = tmp_path / "bugs.yaml"
    path.write_text(text, encoding="utf-8")
    return known_bugs.load((path,))


@pytest.mark.parametrize(
    ("specifier", "version", "applies"),
    [
        ("mindspore<2.8", "2.7.1", True),
        ("mindspore<2.8", "2.8.0", False),
        ("mindspore<2.8", "2.10.0", False),
        ("MindSpore<2.8", "2.7.1.post2+cpu", True),
        ("mindspore>=2.7,<2.8", "2.7.0", True),
        ("mindspore>=2.7,<2.8", "2.6.9", False),
        ("mindspore==2.7.1", "2.7.1", True),
        ("mindspore!=2.7.1", "2.7.1", False),
        ("mindspore<2.8", "unknown", True),
        ("mindspore<2.8", None, True),
    ],
)
def test_versions_limit_an_entry_and_unreadable_ones_do_not(
    specifier: str, version: str | None, applies: bool, tmp_path: Path
) -> None:
    bugs = entry(tmp_path, ENTRY + f'  versions: ["{specifier}"]\n')
    versions = {} if version is None else {"mindspore": version}
    found = known_bugs.expected(bugs, operation="sub", stack="msa", device="cpu", versions=versions)
    assert bool(found) == applies


@pytest.mark.parametrize(("fixes", "applies"), [(True, False), (False, True), (None, True)])
def test_an_entry_may_apply_only_without_the_adapters_fixes(
    fixes: bool | None, applies: bool, tmp_path: Path
) -> None:
    bugs = entry(tmp_path, ENTRY + "  when: {adapter_fixes: off}\n")
    found = known_bugs.expected(
        bugs, operation="sub", stack="msa", device="cpu", adapter_fixes=fixes
    )
    assert bool(found) == applies


def test_operations_and_models_do_not_mix(tmp_path: Path) -> None:
    bugs = entry(tmp_path, ENTRY)
    assert not known_bugs.expected(bugs, model="qwenvl", stack="msa", device="cpu")
    assert not known_bugs.expected(bugs, operation="add", stack="msa", device="cpu")
    assert known_bugs.expected(bugs, operation="sub", stack="msa", device="cpu")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- id: one\n", "key `title` is missing"),
        (ENTRY + "  sevrity: 3\n", "unknown key `sevrity`"),
        (ENTRY.replace("stack: msa", "stack: mas"), "`stack` is 'mas'; write one of pta, msa"),
        (ENTRY.replace("boom", "'(boom'"), "`signature` is no regular expression"),
        (ENTRY.replace("  operations: [sub]\n", ""), "needs `models` or `operations`"),
        (ENTRY.replace("[sub]", "sub"), "`operations` must be a list"),
        (ENTRY.replace("  signature: boom\n", ""), "needs `signature` or `verdict`"),
        (ENTRY.replace("signature: boom", "verdict: performance"), "needs `limit`"),
        (ENTRY.replace("signature: boom", "verdict: speed\n  limit: 1"), "`verdict` is 'speed'"),
        (ENTRY.replace("expected: true", "expected: maybe"), "must be true or false"),
        (ENTRY + '  versions: ["mindspore 2.8"]\n', "write specifiers such as"),
        (ENTRY + "  when: {weather: rain}\n", "knows only `adapter_fixes"),
        (ENTRY + ENTRY, "is used twice"),
        ("id: one\n", "expected a list"),
        ("- [\n", "broken YAML"),
    ],
)
def test_a_wrong_entry_is_told_with_file_key_and_remedy(
    text: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(InputProblem) as found:
        entry(tmp_path, text)
    assert told in str(found.value)
    assert "bugs.yaml" in str(found.value)
    assert "\n" not in str(found.value)


def test_a_verdict_entry_has_its_limit(tmp_path: Path) -> None:
    text = ENTRY.replace("operations: [sub]", "models: [qwenvl]")
    (bug,) = entry(tmp_path, text.replace("signature: boom", "verdict: performance\n  limit: 0.5"))
    assert (bug.verdict, bug.limit, bug.strict) == ("performance", 0.5, False)


def test_a_later_file_replaces_an_entry_by_its_id(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(ENTRY)
    second.write_text(ENTRY.replace("a title", "another"))
    assert [bug.title for bug in known_bugs.load((first, second))] == ["another"]
