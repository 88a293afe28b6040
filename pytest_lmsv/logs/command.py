"""``lmsv parse``: shows what the log analysis reads in log files (DESIGN 6.2)."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from pytest_lmsv.logs.columns import Pairs, json_pairs
from pytest_lmsv.logs.reading import Reading, read
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Kind, RunError
from pytest_lmsv.wording import finite

_USAGE = """\
usage: lmsv parse [--stack pta|msa] [--kind training|inference] [--steps N] [--record DIR]
                  [--exit-status N] [--timed-out] [--json] LOG...

Shows what the log analysis reads in the log files of one run (a folder: the *.log files in it).

  --stack pta|msa            which stack wrote them (default: told from the log)
  --kind training|inference  what the run did (default: told from the log)
  --steps N                  asked steps (default: M of the log's own `iteration N/ M`)
  --record DIR               the run's completion records (rank_*.json, steps_*.jsonl)
  --exit-status N            the run's exit status; negative for a signal
  --timed-out                the run was ended at its time limit
  --patterns FILE            own error patterns (as pytest_lmsv/logs/patterns.yaml)
  --json                     print one JSON object
"""


_CURVES = {"losses": "", "grad_norms": "", "step_time_ms": " ms"}


class _Options:
    def __init__(self, argv: Sequence[str]) -> None:
        self.stack: Any = None
        self.kind: Any = None
        self.steps: int | None = None
        self.record: list[Path] = []
        self.exit_status: int | None = None
        self.timed_out = False
        self.patterns: list[Path] = []
        self.json = False
        self.logs: list[Path] = []
        words = iter(argv)
        only_files = False
        for word in words:
            if only_files or not word.startswith("-") or word == "-":
                self.logs.append(Path("/dev/stdin" if word == "-" else word))
                continue
            if word == "--":
                only_files = True
                continue
            name, equals, value = word.partition("=")
            if name in {"--json", "--timed-out"} and not equals:
                setattr(self, name[2:].replace("-", "_"), True)
                continue
            if name not in {"--stack", "--kind", "--steps", "--record", "--exit-status",
                            "--patterns"}:  # fmt: skip
                raise InputProblem(f"lmsv parse: unknown option {word!r}; see lmsv parse --help")
            if not equals:
                found = next(words, None)
                if found is None:
                    raise InputProblem(f"lmsv parse: {name} needs a value; see lmsv parse --help")
                value = found
            self._set(name, value)
        if not self.logs:
            raise InputProblem("lmsv parse: no log named; see lmsv parse --help")

    def _set(self, name: str, value: str) -> None:
        if name == "--stack":
            self.stack = _one_of(name, value, "pta", "msa")
        elif name == "--kind":
            self.kind = _one_of(name, value, "training", "inference")
        elif name == "--steps":
            self.steps = _whole(name, value)
            if self.steps < 1:
                raise InputProblem(f"--steps: expected 1 or more, found {value}")
        elif name == "--exit-status":
            self.exit_status = _whole(name, value)
        elif name == "--record":
            if not Path(value).is_dir():
                raise InputProblem(f"--record: no folder {value!r}; name the run's record folder")
            self.record.append(Path(value))
        else:
            self.patterns.append(Path(value))


def _one_of(name: str, value: str, *known: str) -> str:
    if value not in known:
        raise InputProblem(f"{name}: unknown value {value!r}; write one of {', '.join(known)}")
    return value


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise InputProblem(f"{name}: expected a whole number, found {value!r}") from None


def main(argv: Sequence[str]) -> int:
    """Exit status 0 where the logs could be read, 2 with one line on stderr for bad input."""
    if "--help" in argv or "-h" in argv:
        sys.stdout.write(_USAGE)
        return 0
    try:
        options = _Options(argv)
        result = parse(options)
    except InputProblem as problem:
        print(problem, file=sys.stderr)
        return 2
    if options.json:
        write_json(result, sys.stdout)
    else:
        print(as_text(result))
    return 0


def parse(options: _Options) -> dict[str, Any]:
    """The object that ``--json`` prints; its curves are pairs that may be made as they are read."""
    status = options.exit_status
    reading = read(
        options.logs,
        stack=options.stack,
        kind=options.kind,
        steps=options.steps,
        record=options.record or None,
        failed=None if status is None or options.timed_out else status != 0,
        patterns=options.patterns,
    )
    outcome, error = _judged(reading, options)
    if error is not None:
        error = replace(error, known_bug=_known_bug(error, options.stack))
    metrics = reading.metrics
    return {
        "losses": metrics.losses,
        "grad_norms": metrics.grad_norms,
        "step_time_ms": metrics.step_time_ms,
        "memory_mb": metrics.memory_mb,
        "outcome": outcome,
        "complete": reading.complete,
        "error": None if error is None else {
            "type": error.type, "message": error.message, "category": error.category,
            "rank": error.rank, "line": error.line, "line_number": error.line_number,
            "phase": error.phase, "known_bug": error.known_bug,
        },
        "notes": [{"code": note.code, "text": note.text} for note in reading.notes],
    }  # fmt: skip


def _judged(reading: Reading, options: _Options) -> tuple[str | None, RunError | None]:
    from pytest_lmsv.judge.outcome import judge

    if options.exit_status is None and not options.timed_out and reading.error is None:
        return None, None
    kind: Kind = "training" if reading.steps or options.steps else "inference"
    counts = (options.steps is not None or bool(options.record)) and options.exit_status is not None
    judged = judge(
        reading,
        kind=options.kind or kind,
        exit_status=options.exit_status,
        reason="time limit" if options.timed_out else "exit",
        incomplete_counts=counts,
    )
    return judged.outcome, judged.error or judged.teardown_error


def _known_bug(error: RunError, stack: str | None) -> str | None:
    from pytest_lmsv import data
    from pytest_lmsv.judge import known_bugs

    path = data.mm_configs() / "known_bugs.yaml"
    if not path.is_file():
        return None
    # A run's log is a model's: its entries first, then those of single operations.
    bugs = sorted(known_bugs.load((path,)), key=lambda bug: not bug.models)
    found = known_bugs.match(bugs, error, stack=stack)
    return found.id if found else None


def write_json(result: dict[str, Any], stream: TextIO) -> None:
    """One line of JSON. Curves go out piece by piece: a log may hold millions of steps."""
    between = "{"
    for key, value in result.items():
        stream.write(f"{between}{json.dumps(key)}: ")
        between = ", "
        if key not in _CURVES:
            stream.write(json.dumps(value, ensure_ascii=False, allow_nan=False))
            continue
        comma = "["
        for text in value.texts() if isinstance(value, Pairs) else [json_pairs(value)]:
            stream.write(comma + text)
            comma = ", "
        stream.write("[]" if comma == "[" else "]")
    stream.write("}\n")


def as_text(result: dict[str, Any]) -> str:
    """The same for a person."""
    lines = []
    for key, unit in _CURVES.items():
        curve = result[key]
        shown = ", ".join(
            f"{step}: {value:.9g}" if math.isfinite(value) else f"{step}: {finite(value)}"
            for step, value in curve[-10:]
        )
        more = f" (last 10 of {len(curve)})" if len(curve) > 10 else ""
        lines.append(f"{key:13} {shown + unit if curve else '-'}{more}")
    memory = result["memory_mb"]
    lines.append(f"{'memory':13} {'-' if memory is None else f'{memory:.2f} MB'}")
    complete = {True: "yes", False: "no", None: "not known"}[result["complete"]]
    lines.append(f"{'complete':13} {complete}")
    lines.append(f"{'outcome':13} {result['outcome'] or 'not known (no exit status, no error)'}")
    error = result["error"]
    if error is None:
        lines.append(f"{'error':13} none")
    else:
        place = "" if error["line_number"] is None else f", line {error['line_number']}"
        rank = "" if error["rank"] is None else f", rank {error['rank']}"
        bug = f", known bug {error['known_bug']}" if error["known_bug"] else ""
        lines.append(
            f"{'error':13} {error['type']} ({error['category']}{rank}{place}, "
            f"{error['phase']}{bug})"
        )
        lines.append(f"{'':13} {error['line'] or error['message']}")
    lines += [f"{'note':13} {note['code']}: {note['text']}" for note in result["notes"]]
    return "\n".join(lines)
