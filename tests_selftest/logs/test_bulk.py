"""Many records read at a time: the same reading as line by line, whatever the log looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_lmsv.logs import text as log_text
from pytest_lmsv.logs.command import main
from pytest_lmsv.logs.quick import Quick
from pytest_lmsv.logs.reading import read

STEP = (
    " iteration {step:8d}/     999 | consumed samples: {step:12d} | elapsed time per iteration"
    " (ms): {time} | learning rate: {rate:.6E} | global batch size:     8 |{loss} loss scale:"
    " {scale:.1f} |{norm} number of skipped iterations: {skipped:3d} | number of nan iterations:"
    " {nan:3d} |"
)


def record(step: int, **changes: Any) -> str:
    fields: dict[str, Any] = {
        "time": f"{900 + step * 7 % 213}.{step % 10}",
        "rate": 1e-5 / step,
        "loss": f" loss: {3 / step + 0.01:.6E} |",
        "scale": 1.0,
        "norm": f" grad norm: {20 / step:.3f} |",
        "skipped": 0,
        "nan": 0,
    }
    return STEP.format(step=step, **(fields | changes))


ODD: list[dict[str, Any]] = [
    {"loss": ""},
    {"loss": "", "nan": 1, "norm": " grad norm: nan |"},
    {"loss": "", "skipped": 1, "scale": 65536.0},
    {"loss": " loss: nan |"},
    {"loss": " loss: inf |"},
    {"loss": " loss: -1.000000E+00 |"},
    {"loss": " lm loss: 1.500000E+00 |"},
    {"loss": " loss: 1.500000E+00 | load_balancing_loss: 1.000000E+00 |"},
    {"loss": " loss: 1.5 | loss: 1.6 |"},
    {"norm": ""},
    {"norm": " grad norm: 1.000/2.000 |"},
    {"time": "12.1/12.3"},
    {"time": "384 ms"},
    {"time": "1000000000.5"},
    {"norm": " grad norm: 123456.789 |"},
]
OTHER = (
    "some other line",
    "[WARNING] a line with loss in it",
    "[Rank 1] (after 5 iterations) memory (MB) | allocated: 1.0 | max allocated: 9.5 |"
    " reserved: 99.0 | max reserved: 99.0",
    "RuntimeError: not so bad",
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: bad',
    "E0425 18:40:11.000000 1 torch/x.py:8] failed (exitcode: 1) local_rank: 0 (pid: 4)",
    " 50%|#####     | 1/2 [00:05<00:05,  5.12s/it]",
    "+ torchrun --nproc_per_node 8 a.py",
    "[after training is done]",
    "==> worker_3.log <==",
    "",
)


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """Lines of a log: runs of plain records, and everything that may come between them."""
    lines: list[str] = []
    step = 0
    for _ in range(draw(st.integers(1, 6))):
        what = draw(st.sampled_from(["plain", "plain", "odd", "other", "back", "stride", "copy"]))
        if what == "plain":
            count = draw(st.integers(1, 90))
            lines += [record(step + place) for place in range(1, count + 1)]
            step += count
        elif what == "odd":
            step += 1
            lines.append(record(step, **draw(st.sampled_from(ODD))))
        elif what == "other":
            lines += draw(st.sampled_from(OTHER)).split("\n")
        elif what == "back":
            step = draw(st.integers(0, step))
        elif what == "stride":
            lines += [record(step + 10 * place, scale=2.0) for place in range(1, 20)]
            step += 190
        elif lines:
            lines += lines[-draw(st.integers(1, len(lines))) :]
    return lines


def _tee(lines: list[str]) -> list[str]:
    return [line for line in lines for _ in range(2)]


def _ranks(lines: list[str]) -> list[str]:
    return [f"[rank{rank}]: {line}" for line in lines for rank in (0, 1)]


def _two_bare_ranks(lines: list[str]) -> list[str]:
    return [text for line in lines for text in (line, line.replace("loss: 1", "loss: 7"))]


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "as they are": lambda lines: lines,
    "a tee": _tee,
    "two ranks": _ranks,
    "two ranks without prefixes": _two_bare_ranks,
    "a prefix": lambda lines: [f"[default3]: {line}" for line in lines],
    "times": lambda lines: [
        f"2026-04-25T18:{place // 60 % 60:02d}:{place % 60:02d}.{place:09d}Z {line}"
        for place, line in enumerate(lines)
    ],
    "Megatron's times": lambda lines: [
        line.replace(" iteration", f" [2026-04-25 18:31:{place % 60:02d}] iteration", 1)
        for place, line in enumerate(lines)
    ],
    "twice": lambda lines: lines + lines,
    "two runs": lambda lines: [
        *lines,
        "[after training is done]",
        *(line.replace("loss: 1", "loss: 6") for line in lines),
    ],
    "glued": lambda lines: ["".join(lines[place : place + 2]) for place in range(0, len(lines), 2)],
    "wrapped": lambda lines: [
        piece
        for place, line in enumerate(lines)
        for piece in ([line[:130], line[130:]] if place % 7 == 3 else [line])
    ],
    "colours": lambda lines: [line.replace("loss: ", "loss: \x1b[31m") for line in lines],
}
ENDS = ("\n", "\r\n", "\r", "\n\r")


@contextmanager
def blocks_of(size: int) -> Iterator[None]:
    before = log_text.BLOCK
    log_text.BLOCK = size
    try:
        yield
    finally:
        log_text.BLOCK = before


def told(path: Path) -> dict[str, Any]:
    """All that a reading says, as text: NaN is not equal to itself."""
    reading = read([path])
    metrics, error = reading.metrics, reading.error
    return {
        "losses": str(list(metrics.losses)),
        "norms": str(list(metrics.grad_norms)),
        "times": str(list(metrics.step_time_ms)),
        "memory": metrics.memory_mb,
        "sources": metrics.sources,
        "steps": list(reading.steps),
        "asked": reading.asked,
        "complete": reading.complete,
        "nan": reading.nan_steps,
        "notes": reading.notes,
        "error": error and (error.type, error.line, error.rank, error.line_number, error.phase),
    }


def both(path: Path, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reading in bulk, and line by line."""
    path.write_bytes(content)
    bulk = told(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quick, "learn", lambda *_, **__: None)
        return bulk, told(path)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_log_reads_the_same_in_bulk_and_line_by_line(data: st.DataObject, tmp_path: Path) -> None:
    lines = data.draw(logs())
    for _ in range(data.draw(st.integers(0, 2))):
        lines = CHANGES[data.draw(st.sampled_from(sorted(CHANGES)))](lines)
    end = data.draw(st.sampled_from(ENDS))
    content = "".join(line + end for line in lines).encode()
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content)))
        piece = data.draw(st.sampled_from([b"", b"\r", b"\n", b"7", b" ", b"|", b"\xff", b"x: "]))
        content = content[:at] + piece + content[at + data.draw(st.integers(0, 2)) :]
    with blocks_of(data.draw(st.sampled_from([300, 4096, 1 << 18]))):
        bulk, single = both(tmp_path / "a.log", content)
    assert bulk == single


def test_records_are_read_in_bulk_whatever_their_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [record(step) for step in range(1, 400)]
    usual: list[int] = []
    learn = Quick.learn

    def counted(*arguments: Any, **named: Any) -> None:
        usual.append(1)
        learn(*arguments, **named)

    monkeypatch.setattr(Quick, "learn", counted)
    for name in ("as they are", "a tee", "a prefix", "times", "Megatron's times", "twice"):
        usual.clear()
        content = "".join(f"{line}\n" for line in CHANGES[name](lines)).encode()
        for changed in (content, content.replace(b"\n", b"\r\n")):
            (tmp_path / "a.log").write_bytes(changed)
            assert len(read([tmp_path / "a.log"]).metrics.losses) == 399
        assert len(usual) < 8, name


def test_a_very_long_curve_is_printed_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 25_000
    lines = [record(step) for step in range(1, count + 1)]
    lines[20_000] = record(20_001, loss=" loss: nan |")
    path = tmp_path / "a.log"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert main(["--json", str(path)]) == 0
    result = json.loads(capsys.readouterr().out)
    for key, pattern in (
        ("losses", r" loss: (\S+)"),
        ("grad_norms", r"grad norm: (\S+)"),
        ("step_time_ms", r"\(ms\): (\S+)"),
    ):
        printed = [re.search(pattern, line) for line in lines]
        expected = [[step, float(found[1])] for step, found in enumerate(printed, 1) if found]
        if key == "losses":
            expected[20_000][1] = "NaN"  # type: ignore[call-overload]
        assert result[key] == expected
    assert main([str(path)]) == 0
    shown = capsys.readouterr().out
    assert f"{count}: " in shown
    assert f"(last 10 of {count})" in shown


def test_a_long_curve_behaves_as_its_pairs(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = [record(step) for step in range(1, 12_001) if step % 5000 != 7]
    lines.append(record(12_002, norm=""))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    reading = read([path])
    for curve in (reading.metrics.losses, reading.metrics.grad_norms):
        pairs = list(curve)
        assert len(pairs) == len(curve) > 11_990
        assert [curve[0], curve[5], curve[-1], curve[-3]] == [pairs[at] for at in (0, 5, -1, -3)]
        assert list(curve[-10:]) == pairs[-10:]
        assert curve == pairs
        assert curve != pairs[:-1]
        with pytest.raises(IndexError):
            curve[len(pairs)]
    assert list(reading.steps) == [int(line[10:19]) for line in lines]
