"""Any space: what is drawn keeps every constraint, changes what it says, and follows its ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytest_lmsv.mutation import apply, pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.constraints import REQUIRED, Constraint, Layout, constraint
from pytest_lmsv.mutation.draw import draw
from pytest_lmsv.mutation.space import Key, Space
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Edit

NAMES = ["a", "b", "c", "d", "e"]


@dataclass(frozen=True)
class Spec:
    """The part of a ModelSpec that a draw needs."""

    name: str
    of: Space

    def space(self, device: str) -> Space:
        return self.of


@st.composite
def spaces(choose: Any) -> Space:
    """Five numbers, a list and a pair that must agree, under up to three random rules."""
    small = st.integers(1, 6)
    numbers = {name: choose(small) for name in NAMES}
    items = choose(st.lists(small, min_size=2, max_size=2))
    tie = choose(small)
    documents = {"model": {**numbers, "items": items, "tie": tie}, "data": {"tie": tie}}
    grid = st.lists(small, min_size=1, max_size=4, unique=True)
    keys = [Key(f"/model/{name}", tuple(choose(grid))) for name in NAMES]
    pairs = st.lists(st.lists(small, min_size=2, max_size=2), min_size=1, max_size=3)
    if choose(st.booleans()):
        keys.append(Key("/model/items", tuple(choose(pairs))))
    else:
        keys.append(Key("/model/items/1", tuple(choose(grid))))
    keys.append(Key("/model/tie", tuple(choose(grid)), sets=("/data/tie",)))
    name = st.sampled_from(NAMES).map("/model/{}".format)
    rule = st.one_of(
        st.builds(lambda a, b: constraint("divisible", {"path": a, "by": b}), name, name),
        st.builds(lambda a, b: constraint("at_most", {"path": a, "other": b}), name, name),
        st.builds(lambda a: constraint("sum_equals", {"path": "/model/items", "total": a}), name),
        st.builds(lambda a: constraint("at_least", {"path": "/model/items/1", "other": a}), name),
        st.builds(lambda a: constraint("at_most", {"path": "/data/tie", "other": a}), name),
    )
    rules: list[Constraint] = choose(st.lists(rule, max_size=3))
    found = Space("any", "cpu", documents, tuple(sorted(keys, key=lambda key: key.path)),
                  tuple(rules), Layout())  # fmt: skip
    assume(not plainly_broken(documents, rules))
    return found


def plainly_broken(documents: Any, rules: Any) -> list[str]:
    """What the rules say of documents looked up without any overlay."""

    def get(path: str, default: Any = REQUIRED, /) -> Any:
        return pointer.get(documents, path)

    return [sentence for rule in rules if (sentence := rule(get, Layout())) is not None]


@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
@given(spaces(), st.data())
def test_the_values_offered_are_those_that_trying_each_would_find(
    space: Space, data: st.DataObject
) -> None:
    choices = Choices(space.documents, space.keys, space.constraints, space.layout)
    changes: dict[str, Any] = {}
    for edits_left in (3, 2, 1):
        options = choices.after(changes, edits_left)
        assert options == by_trying_each(space, changes, edits_left)
        if not options:
            return
        key = data.draw(st.sampled_from(sorted(options, key=lambda key: key.path)))
        changes |= dict.fromkeys(key.paths, data.draw(st.sampled_from(options[key])))
    assert choices.broken(changes) == []


def by_trying_each(
    space: Space, changes: dict[str, Any], edits_left: int
) -> dict[Key, tuple[Any, ...]]:
    """The options found by applying every value and asking every rule, without any overlay."""
    whole = not plainly_broken(changed(space.documents, changes), space.constraints)
    options: dict[Key, tuple[Any, ...]] = {}
    for key in space.keys:
        if key.path in changes:
            continue
        values = []
        for value in key.values:
            if pointer.same(value, pointer.get(space.documents, key.path)):
                continue
            after = {**changes, **dict.fromkeys(key.paths, value)}
            holds = not plainly_broken(changed(space.documents, after), space.constraints)
            if holds or (whole and edits_left > 1 and by_trying_each(space, after, 1)):
                values.append(value)
        if values:
            options[key] = tuple(values)
    return options


def changed(documents: Any, changes: dict[str, Any]) -> Any:
    import copy

    result = copy.deepcopy(documents)
    for path, value in changes.items():
        pointer.put(result, path, copy.deepcopy(value))
    return result


def draw_any(space: Space, seed: int, iteration: int, count: int, base: Any = None) -> Any:
    """What draw() does, run where no test under @given is: Hypothesis refuses nested draws."""
    spec: Any = Spec("any", space)
    return draw(spec, "cpu", seed=seed, iteration=iteration, attempt=1, count=count, base=base)


def some_spaces() -> list[Space]:
    """Some spaces of the strategy above, taken before any draw."""
    found: list[Space] = []

    @settings(
        deadline=None, max_examples=25, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(spaces())
    def take(space: Space) -> None:
        found.append(space)

    take()
    return found


def test_drawn_mutations_of_any_space_are_valid_and_chains_stay_so() -> None:
    valid, refused = 0, []
    no_edits: tuple[Edit, ...] = ()
    for number, space in enumerate(some_spaces()):
        base, edits = space.documents, no_edits
        for iteration in range(1, 6):
            for count in (1, 3):
                try:
                    mutation = draw_any(space, number, iteration, count, base)
                except InputProblem as problem:
                    refused.append(str(problem))
                    continue
                result = apply.apply(base, mutation.edits)
                assert plainly_broken(result, space.constraints) == []
                assert result["model"]["tie"] == result["data"]["tie"]
                moved = [edit for edit in mutation.edits if edit.path != "/data/tie"]
                assert len(moved) == count
                edits = apply.merge(edits, mutation.edits)
                assert apply.apply(space.documents, edits) == result != space.documents
                base = result
                valid += 1
    assert valid > 100
    assert all("nothing to draw" in problem for problem in refused)
