"""The strategy that mutations come from: valid by construction, of ``sampled_from`` alone.

``sampled_from`` is what ``fuzz_one_input`` decodes alike in every version of Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.space import DRAWING, Key, Space
from pytest_lmsv.mutation.usage import Name, Option, Usage
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Documents, Edit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_REMEMBERED = 4096


@dataclass
class Preference:
    """What the draws of a strategy prefer now; None: nothing, all that is valid is as likely."""

    usage: Usage | None = None


def drawn_by(space: Space) -> Mapping[str, str]:
    """What a stored mutation says of its origin: another one of these may draw another one."""
    import hypothesis

    return {
        "hypothesis": hypothesis.__version__,
        "space": space.digest,
        "drawing": str(DRAWING),
    }


def strategy(
    space: Space,
    count: int,
    base: Documents | None,
    only_fitting_checkpoint: bool,
    preference: Preference,
) -> SearchStrategy[tuple[Edit, ...]]:
    """Exactly *count* edits (followers apart), valid by construction.

    What it prefers is looked up in *preference* at each draw.
    """
    import hypothesis
    from hypothesis import strategies as st

    keys = space.drawn(only_fitting_checkpoint=only_fitting_checkpoint)
    if not 1 <= count <= len(keys):
        raise InputProblem(
            f"{space.model}: expected 1 to {len(keys)} edits per mutation (keys that can be drawn "
            f"on {space.device}), found {count}; change --lmsv-mutations"
        )
    documents = space.documents if base is None else base
    choices = Choices(documents, keys, space.constraints, space.layout)
    broken = choices.broken({})
    if broken:
        raise InputProblem(f"{space.model}: the configuration to start from breaks {broken[0]}")
    moved = {} if base is None else moved_between(keys, space.documents, base)
    remembered: dict[str, list[list[Option]]] = {}

    def next_ones(changes: Mapping[str, Any], edits_left: int) -> list[list[Option]]:
        """The values of each key that may be changed next, remembered by state."""
        state = pointer.canonical([edits_left > 1, changes])
        if state not in remembered:
            if len(remembered) >= _REMEMBERED:
                remembered.clear()
            options = choices.after(changes, edits_left)
            remembered[state] = [
                [(key, value, (key.path, pointer.canonical(value))) for value in values]
                for key, values in sorted(options.items(), key=lambda option: option[0].path)
            ]
        return remembered[state]

    @cache
    def index_below(number: int) -> SearchStrategy[int]:
        return st.sampled_from(range(number))

    @st.composite
    def edited(choose: Callable[[SearchStrategy[Any]], Any]) -> tuple[Edit, ...]:
        changes: dict[str, Any] = {}
        chosen: list[Name] = []
        edits: list[Edit] = []
        for edits_left in range(count, 0, -1):
            options = next_ones(changes, edits_left)
            if not options:
                hypothesis.reject()
            if preference.usage is None:
                offered = options[choose(index_below(len(options)))]
            else:
                offered = preference.usage.least(list(chain.from_iterable(options)), chosen)
            key, value, name = offered[choose(index_below(len(offered)))]
            chosen.append(name)
            edits.extend(
                Edit(path, old, value)
                for path in key.paths
                if not pointer.same(old := pointer.get(documents, path), value)
            )
            changes.update(dict.fromkeys(key.paths, value))
        if moved and _returns(moved, changes):
            hypothesis.reject()
        edits.sort(key=lambda edit: edit.path)
        return tuple(edits)

    return edited()


def moved_between(keys: Sequence[Key], home: Documents, base: Documents) -> dict[str, Any]:
    """The paths at which *home* and a chain's *base* differ, with their value at home."""
    moved = {}
    for path in (path for key in keys for path in key.paths):
        value = pointer.get(home, path)
        if not pointer.same(value, pointer.get(base, path)):
            moved[path] = value
    return moved


def _returns(moved: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    """Whether *changes* lead a chain exactly back to the unmutated configuration."""
    return changes.keys() == moved.keys() and all(
        pointer.same(changes[path], value) for path, value in moved.items()
    )
