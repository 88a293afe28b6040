"""The patterns: every example means what its entry says, and a user's file is checked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_lmsv.logs import categories
from pytest_lmsv.logs.reading import read
from pytest_lmsv.logs.text import NEEDLES
from pytest_lmsv.problems import InputProblem

KNOWN = categories.load()


@pytest.mark.parametrize("entry", KNOWN.categories, ids=lambda entry: entry.example[:50])
def test_every_example_gets_its_category(entry: categories.Pattern) -> None:
    assert KNOWN.category(entry.example) == entry.category


@pytest.mark.parametrize("entry", KNOWN.fatal, ids=lambda entry: entry.example[:50])
def test_every_fatal_message_is_found_in_a_log(entry: categories.Pattern, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(f"start\n{entry.example}\n", encoding="utf-8")
    error = read([path]).error
    assert error is not None
    assert (error.type, error.category) == (entry.type, entry.category)
    assert any(needle in entry.example.encode() for needle in NEEDLES)


def test_no_pattern_has_an_unbounded_gap() -> None:
    for entry in (*KNOWN.categories, *KNOWN.fatal, *KNOWN.echoes, *KNOWN.symptoms):
        assert not re.search(r"[.)\]][*+]", entry.match.pattern), entry.match.pattern


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("RuntimeError: HCCL function error: HcclGetRootInfo, error code is 7\n"
         "EJ0003: [PID: 1] 2026-04-08 Failed to bind the IP port.", "port_in_use"),
        ("[PID: 1] 2026-04-08-18:07:20 X_Failed(EJ0001): Failed to initialize the HCCP process.\n"
         "RuntimeError: call HcclCommInitRootInfo failed", "device_busy"),
        ("RuntimeError: NPU function error: aclrtMalloc, error code is 207001", "out_of_memory"),
        ("RuntimeError: NPU function error: aclrtSynchronizeStream, error code is 507014",
         "device_exception"),
        ("RuntimeError: NPU function error: aclrtGetMemInfo, error code is 107002",
         "device_exception"),
        ("RuntimeError: call aclnnAdd failed, error code is 161001", "aclnn_param"),
        ("RuntimeError: call aclnnMatmul failed, error code is 361001", "device_exception"),
        ("E40021: [PID: 1] 2026-04-08 Failed to compile Op [Cast].", "op_compile"),
        ("EI0004: [PID: 1] 2026-04-08 The ranktable is invalid.", "hccl_comm"),
        ("ValueError: For 'MatMul', the shapes do not match", "other_python"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "other_python"),
        ("AssertionError", "config_assertion"),
        ("mindspeed_mm.utils.utils.IsNotValidError: None", "config_assertion"),
        ("OSError: [Errno 28] No space left on device", "no_space"),
        ("OSError: [Errno 98] Address already in use", "port_in_use"),
    ],
)  # fmt: skip
def test_the_codes_and_messages_of_the_stacks_are_read_into_the_category(
    text: str, category: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text('Traceback (most recent call last):\n  File "a.py", line 1\n' + text + "\n"
                    if not text.startswith(("E", "[PID")) else text + "\n")  # fmt: skip
    error = read([path]).error
    assert error is not None
    assert error.category == category


OWN = """\
categories:
  - {category: lost_node, match: 'the cable is out', example: 'RuntimeError: the cable is out'}
fatal:
  - {type: Cable, category: lost_node, find: CABLE, match: '^CABLE OUT', example: 'CABLE OUT 0'}
benign:
  - {reason: known noise, match: 'flux capacitor', example: 'ValueError: flux capacitor'}
"""


def test_a_users_own_patterns_come_first(tmp_path: Path) -> None:
    own, log = tmp_path / "own.yaml", tmp_path / "a.log"
    own.write_text(OWN, encoding="utf-8")
    log.write_text("CABLE OUT 0\n")
    assert read([log]).error is None
    error = read([log], patterns=[own]).error
    assert error is not None
    assert (error.type, error.category) == ("Cable", "lost_node")
    log.write_text("ValueError: flux capacitor\n")
    reading = read([log], patterns=[own])
    assert reading.error is None
    assert "known noise" in reading.notes[0].text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OWN.replace("lost_node, match", "lost, match"), "unknown category 'lost'"),
        (OWN.replace("'^CABLE OUT'", "'(CABLE'"), "`match` is no regular expression"),
        (OWN.replace("'^CABLE OUT'", "'^ROPE'"), "does not match its own `example`"),
        (OWN.replace("find: CABLE, ", ""), "`find` must be a literal part"),
        (OWN.replace("reason", "because"), "unknown key 'because'"),
        (OWN.replace("benign:", "harmless:"), "unknown list 'harmless'"),
        ("- 1\n", "expected lists named"),
        ("a: [\n", "broken YAML"),
    ],
)
def test_a_wrong_file_of_patterns_is_told(text: str, told: str, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(text, encoding="utf-8")
    with pytest.raises(InputProblem) as found:
        categories.load((own,))
    assert told in str(found.value)
    assert "own.yaml" in str(found.value)
    assert "\n" not in str(found.value)
