"""What of a stored mutation its space would not draw today."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.space import Space
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Mutation


def outside(space: Space, mutation: Mutation) -> Iterator[str]:
    """Yield a sentence for each edit of another key or value, and for each broken constraint."""
    known = {path: key.values for key in space.keys for path in key.paths}
    for edit in mutation.edits:
        if edit.path not in known:
            yield f"{edit.path} is no key of the mutation space"
        elif not any(pointer.same(value, edit.new) for value in known[edit.path]):
            yield f"{edit.path}: {pointer.show(edit.new)} is no value of the mutation space"
    choices = Choices(space.documents, space.keys, space.constraints, space.layout)
    try:
        yield from choices.broken({edit.path: edit.new for edit in mutation.edits})
    except InputProblem as problem:  # a value that a rule can't reckon with
        yield str(problem)
