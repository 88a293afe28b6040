"""Questions on a terminal or over a pipe: a present value as default, each answer checked."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from pytest_lmsv.problems import InputProblem, NotAnswered
from pytest_lmsv.task6_config import values

CLEAR = "-"
"""The answer that takes a setting away."""
KEEP = object()
"""What an empty answer means: the present value stays as it is written."""


@dataclass
class Questions:
    """Asks one question after another. After the last line of a pipe further answers are empty.

    A pipe without any line answers nothing, and with *every* each question needs its own line.
    """

    source: TextIO = field(default_factory=lambda: sys.stdin or io.StringIO())  # None: closed
    target: TextIO = field(default_factory=lambda: sys.stdout)
    every: bool = False
    answered: int = field(default=0, init=False)

    def ask(self, name: str, question: str, present: Any, understand: values.Understand) -> Any:
        """The understood answer, None for CLEAR, KEEP where nothing was answered.

        On a terminal a wrong answer is asked again; over a pipe the answers would no longer meet
        their questions, so it raises InputProblem. Raises NotAnswered where the input ended on a
        terminal, before the first answer, or with *every* before the last.
        """
        shown = f" [{_shown(present)}]" if present is not None else ""
        while True:
            self.target.write(f"{question} ({name}){shown}: ")
            self.target.flush()
            line = self.source.readline()
            if not (line and self.source.isatty()):
                self.target.write("\n")
            if line:
                self.answered += 1
            elif self.every or not self.answered or self.source.isatty():
                raise NotAnswered(
                    f"lmsv: the input ended before {name} was answered; nothing was written or "
                    "run: `lmsv do` runs the config.json that is there, `lmsv conf` asks and "
                    "writes one, `lmsv help` says more"
                )
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
