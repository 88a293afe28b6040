"""Changes of a log that do not change what it says: the reading must stay the same.

Misses (a figure or an error lost) and false alarms (one too many) are counted and printed.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_lmsv.logs import text as log_text
from pytest_lmsv.logs.follow import Follower
from pytest_lmsv.logs.quick import Batch
from pytest_lmsv.logs.reading import Reading, read

CASES = sorted((Path(__file__).parent / "cases").iterdir())
PREFIXES = (
    "[rank3]: ",
    "[rank3]:",
    "[default3]: ",
    "3: ",
    "trainer-3  | ",
    "2026-04-25T18:31:00.123456789Z ",
    "2026-04-25T18:31:00.123456789+08:00 stderr F ",
    "node-1: ",
    "10.0.0.2: ",
    "[1,3]<stdout>:",
    "node-1: [rank3]: ",
    "2026-04-25T18:31:00.1Z [default3]: ",
)
COLOURS = (b"\x1b[31m", b"\x1b[0m", b"\x1b[1;32m", b"\x1b[38;5;208m", b"\x1b[K", b"\x1b[m")
counted: Counter[str] = Counter()
few = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def about(case: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((case / "meta.json").read_text(encoding="utf-8"))
    return loaded


def log(case: Path) -> bytes:
    return (case / "log.txt").read_bytes()


def essence(reading: Reading) -> dict[str, Any]:
    """What must not change; not the place of an error."""
    error = reading.error
    return {
        "losses": [value for _, value in reading.metrics.losses],
        "times": [value for _, value in reading.metrics.step_time_ms],
        "norms": [str(value) for _, value in reading.metrics.grad_norms],
        "memory": reading.metrics.memory_mb,
        "nan": reading.nan_steps,
        "complete": reading.complete,
        "error": error and (error.type, error.category, error.line, error.phase),
    }


def reading_of(case: Path, content: bytes, folder: Path) -> dict[str, Any]:
    path = folder / "log.txt"
    path.write_bytes(content)
    mode = about(case)["mode"]
    return essence(read([path], kind="training" if mode == "train" else "inference"))


@cache
def original(case: Path) -> dict[str, Any]:
    mode = about(case)["mode"]
    return essence(read([case / "log.txt"], kind="training" if mode == "train" else "inference"))


def same(case: Path, content: bytes, folder: Path) -> None:
    expected = original(case)
    found = reading_of(case, content, folder)
    counted["read"] += 1
    for key, value in expected.items():
        if found[key] == value:
            continue
        more = (found[key] and not value) or str(found[key]) > str(value)
        counted["false alarms" if more else "misses"] += 1
    assert found == expected


@pytest.fixture(scope="module", autouse=True)
def _count() -> Iterator[None]:
    yield
    print(
        f"\nlog mutations read: {counted['read']}, "
        f"misses: {counted['misses']}, false alarms: {counted['false alarms']}",
        file=sys.__stdout__,
    )


def lines_of(content: bytes) -> list[bytes]:
    return content.removeprefix(b"\xef\xbb\xbf").split(b"\n")


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_on_every_line_changes_nothing(case: Path, prefix: str, tmp_path: Path) -> None:
    lines = lines_of(log(case))
    last = lines.pop() if not lines[-1] else None
    content = b"\n".join(prefix.encode() + line for line in lines)
    same(case, content + (b"\n" if last is not None else b""), tmp_path)


@every_case
def test_crlf_line_ends_change_nothing(case: Path, tmp_path: Path) -> None:
    same(case, log(case).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), tmp_path)


@every_case
@few
@given(data=st.data())
def test_colours_anywhere_change_nothing(case: Path, data: st.DataObject, tmp_path: Path) -> None:
    content = log(case)
    places = data.draw(
        st.lists(st.integers(0, min(len(content), 20000)), min_size=1, max_size=40, unique=True)
    )
    for place in sorted(places, reverse=True):
        if 0x80 <= content[place - 1 : place + 1][-1:].ljust(1, b"\0")[0] < 0xC0:
            continue  # never inside a character
        if place < 3 and content.startswith(b"\xef\xbb\xbf"):
            continue
        colour = data.draw(st.sampled_from(COLOURS))
        content = content[:place] + colour + content[place:]
    same(case, content, tmp_path)


def texts(content: bytes) -> list[str]:
    lines: log_text.Lines[Batch] = log_text.Lines(
        io.BytesIO(content), log_text.searcher(log_text.NEEDLES)
    )
    return [line.text for line in lines if isinstance(line, log_text.RawLine)]


@every_case
@few
@given(data=st.data())
def test_blocks_that_end_at_any_byte_change_nothing(
    case: Path, data: st.DataObject, tmp_path: Path
) -> None:
    content = log(case)
    size = data.draw(st.integers(1, 400))
    whole = texts(content)
    before = log_text.BLOCK
    try:
        log_text.BLOCK = size
        assert texts(content) == whole
        same(case, content, tmp_path)
    finally:
        log_text.BLOCK = before


@every_case
@few
@given(data=st.data())
def test_a_log_that_grows_is_followed_to_the_same_step(
    case: Path, data: st.DataObject, tmp_path: Path
) -> None:
    content = log(case)
    path = tmp_path / "growing.log"
    whole = Follower(path)
    path.write_bytes(content)
    end = whole.update()
    path.write_bytes(b"")
    follower = Follower(path)
    for place in sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=5))):
        path.write_bytes(content[:place])
        follower.update()
    path.write_bytes(content)
    assert str(follower.update()) == str(end)  # NaN is not equal to itself


@every_case
def test_a_tee_that_doubles_every_line_changes_nothing(case: Path, tmp_path: Path) -> None:
    content = log(case)
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", content)
    if about(case)["context"].get("still_running"):
        lines, tail = lines[:-1], lines[-1:]
        same(case, b"".join(line * 2 for line in lines) + b"".join(tail), tmp_path)
        return
    same(case, b"".join((line if line.endswith(b"\n") else line + b"\n") * 2 for line in lines),
         tmp_path)  # fmt: skip


@every_case
def test_a_copy_of_the_whole_log_after_it_changes_nothing(case: Path, tmp_path: Path) -> None:
    content = log(case)
    if about(case)["context"].get("still_running"):
        return
    joint = b"" if content.endswith(b"\n") else b"\n"
    same(case, content + joint + content, tmp_path)


@every_case
@few
@given(data=st.data())
def test_lines_of_a_second_rank_between_them_change_nothing(
    case: Path, data: st.DataObject, tmp_path: Path
) -> None:
    lines = [line.rstrip(b"\r") for line in lines_of(log(case))]
    if about(case)["context"].get("still_running"):
        return
    first = [b"[rank0]: " + line for line in lines]
    second = [b"[rank1]: " + line for line in lines]
    order = data.draw(st.lists(st.booleans(), min_size=10, max_size=200))
    merged = []
    turn = 0
    while first or second:
        from_first = order[turn % len(order)]
        turn += 1
        source = first if (from_first and first) or not second else second
        merged.append(source.pop(0))
    same(case, b"\n".join(merged) + b"\n", tmp_path)


TRAINING = [case for case in CASES if about(case)["expect"]["losses"] and case.name[:3] != "012"]


@pytest.mark.parametrize("case", TRAINING, ids=lambda case: case.name)
@pytest.mark.parametrize("width", [60, 72, 80, 97, 120, 132, 200])
def test_a_terminal_that_wraps_records_changes_no_figure(
    case: Path, width: int, tmp_path: Path
) -> None:
    wrapped = []
    for line in log(case).split(b"\n"):
        word = line.find(b"iteration ")
        if width <= word + 10:
            return  # no wrap before or inside the word that a record is known by
        if b"elapsed time per iteration (ms)" in line or b"memory (MB) |" in line:
            line = b"\n".join(line[at : at + width] for at in range(0, len(line), width))
        wrapped.append(line)
    if b"\r" in b"".join(wrapped) or about(case)["context"].get("still_running"):
        return
    expected = original(case)
    found = reading_of(case, b"\n".join(wrapped), tmp_path)
    for key in ("losses", "times", "norms", "memory"):
        assert found[key] == expected[key], key


@pytest.mark.parametrize("case", TRAINING, ids=lambda case: case.name)
def test_records_glued_to_a_progress_bar_change_no_figure(case: Path, tmp_path: Path) -> None:
    bar = " 50%|█████     | 1/2 [00:05<00:05,  5.12s/it]".encode()
    content = log(case).replace(b"\n iteration", b"\n\r" + bar + b" iteration")
    expected = original(case)
    found = reading_of(case, content, tmp_path)
    for key in ("losses", "times", "norms", "memory"):
        assert found[key] == expected[key], key


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_bytes_make_the_reading_fail(data: st.DataObject, tmp_path: Path) -> None:
    content = log(data.draw(st.sampled_from(CASES)))[:20000]
    other = log(data.draw(st.sampled_from(CASES)))[:20000]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content)))
        start = data.draw(st.integers(0, len(other)))
        piece = data.draw(st.one_of(st.binary(max_size=8), st.just(other[start : start + 300])))
        gone = data.draw(st.integers(0, 200))
        content = content[:at] + piece + content[at + gone :]
    path = tmp_path / "any.log"
    path.write_bytes(content)
    read([path], steps=data.draw(st.sampled_from([None, 3])), failed=True)
    Follower(path).update()
