"""The exceptions that every part may raise."""

from __future__ import annotations

NO_MODELS = "no models asked for; give for example: pytest --model cogvideox --iters 2"


class InputProblem(Exception):
    """Bad input of the user: one line that says what was wrong, what was found, what to do.

    pytest shows it as a usage error (exit 4), ``lmsv`` as one line and exit 2.
    """


class NotAnswered(InputProblem):
    """The input ended before the questions were answered; ``lmsv`` exits with 4.

    That is pytest's status of bad input: `lmsv` alone has pytest's status where it is answered.
    """


class EnvironmentProblem(Exception):
    """What was asked for could not be tested here, which says nothing about the stacks.

    pytest shows it as ERROR. ``category`` is one of the environment categories of DESIGN 5.3,
    or None where no run was started.
    """

    def __init__(self, message: str, category: str | None = None) -> None:
        super().__init__(message)
        self.category = category
