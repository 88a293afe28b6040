"""Questions on a terminal or over a pipe: a present value as default, each answer checked."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from pytest_lmsv.problems import InputProblem
from pytest_lmsv.task6_config import values

CLEAR = "-"
"""The answer that takes a setting away."""
KEEP = object()
"""What an empty answer means: the present value stays as it is written."""


@dataclass
class Questions:
    """Asks one question after another. At the end of a pipe every further answer is empty."""

    source: TextIO = field(default_factory=lambda: sys.stdin)
    target: TextIO = field(default_factory=lambda: sys.stdout)

    def ask(self, name: str, question: str, present: Any, understand: values.Understand) -> Any:
        """The understood answer, None for CLEAR, KEEP where nothing was answered.

        On a terminal a wrong answer is asked again; over a pipe the answers would no longer meet
        their questions, so it raises InputProblem. So does the end of input on a terminal.
        """
        shown = f" [{_shown(present)}]" if present is not None else ""
        while True:
            self.target.write(f"{question} ({name}){shown}: ")
            self.target.flush()
            line = self.source.readline()
            if not line and self.source.isatty():
                raise InputProblem("lmsv conf: stopped; nothing was written")
            if not self.source.isatty():
                self.target.write("\n")
            answer = line.strip()
            if not answer:
                return KEEP
            if answer == CLEAR:
                return None
            try:
                return understand(answer)
            except (ValueError, InputProblem) as expected:
                told = (
                    f"{name} must be {expected}" if isinstance(expected, ValueError) else expected
                )
                if not self.source.isatty():
                    raise InputProblem(
                        f"lmsv conf: {told}, found {answer!r}; correct the answer (nothing was "
                        "written)"
                    ) from None
                self.target.write(f"  {told}, found {answer!r}\n")

    def yes(self, name: str, question: str, present: bool) -> bool:
        """A question with yes or no as its answer; an empty one or CLEAR is *present*."""
        answer = self.ask(name, question, "yes" if present else "no", values.truth)
        return present if answer is KEEP or answer is None else bool(answer)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
