"""Mutations drawn by Hypothesis, the same one for the same key on every machine and version.

Strategies are built from ``sampled_from`` alone and decoded by ``fuzz_one_input`` from bytes that
only (model, seed, iteration, attempt) decide: no database, profile, ``--hypothesis-seed`` or
imported module has a say, and no draw needs the ones before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.space import Key, Space
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Device, Documents, Edit, Mutation

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from pytest_lmsv.catalog import ModelSpec

_TRIES = 64
_COMPARED = 1000
"""Iterations up to here are compared with the ones before them."""
_REMEMBERED = 4096


def mutations(
    model: str | ModelSpec,
    *,
    count: int = 2,
    device: Device = "cpu",
    folders: Sequence[Path] | None = None,
    base: Documents | None = None,
    only_fitting_checkpoint: bool = False,
) -> SearchStrategy[Mutation]:
    """Valid mutations of *model*, each of *count* edits, for ``@given(mutations("cogvideox"))``.

    Edits are relative to *base*, by default the unmutated documents. Iteration, attempt and seed of
    the values are 0. *folders* hold models as mm_configs does; by default the packaged ones and
    ``mm_configs`` of the working folder. InputProblem for an unknown model or an impossible count.
    """
    from pytest_lmsv import catalog

    if isinstance(model, str):
        places = catalog.default_folders() if folders is None else folders
        model = catalog.find(catalog.load(places), model)
    space = model.space(device)
    strategy, drawn_by = _strategy(space, count, base, only_fitting_checkpoint)
    return strategy.map(lambda edits: Mutation(space.model, 0, 0, 0, edits, drawn_by))


def draw(
    spec: ModelSpec,
    device: Device,
    *,
    seed: int,
    iteration: int,
    attempt: int,
    count: int = 2,
    base: Documents | None = None,
    only_fitting_checkpoint: bool = False,
) -> Mutation:
    """The mutation that (model, seed, iteration, attempt) name; asked again, the same one.

    Edits are relative to *base*, by default the unmutated documents. InputProblem where nothing can
    be drawn, and inside a test under ``@given``: Hypothesis refuses nested draws.
    """
    from hypothesis import currently_in_test_context

    if currently_in_test_context():
        raise InputProblem(
            f"draw() can't be called inside a test under @given; write @given(mutations("
            f"{spec.name!r})) and take the mutation as an argument"
        )
    series = _series(spec.name, spec.space(device), seed, count, only_fitting_checkpoint)
    if base is not None:
        series = _Series(spec.name, spec.space(device), seed, count, only_fitting_checkpoint, base)
    edits = series.edits(iteration, attempt)
    return Mutation(spec.name, iteration, attempt, seed, edits, series.drawn_by)


class _Series:
    """All draws of one campaign and model. A draw differs from those before it where it can.

    Before it are the first attempts of earlier iterations (none for a chain, where they started
    from other documents) and the earlier attempts of its own iteration. They cost a fraction of a
    millisecond each and depend on nothing but their number, so that a draw still does not need
    what was drawn before it.
    """

    def __init__(
        self,
        model: str,
        space: Space,
        seed: int,
        count: int,
        only_fitting_checkpoint: bool,
        base: Documents | None = None,
    ) -> None:
        strategy, self.drawn_by = _strategy(space, count, base, only_fitting_checkpoint)
        self._decode = _decoder(strategy)
        self._model, self._space, self._seed, self._count = model, space, seed, count
        self._firsts: list[tuple[Edit, ...]] = []
        self._names: list[_Name] = []  # of the firsts
        self._compared = 0 if base is not None else _COMPARED

    def edits(self, iteration: int, attempt: int) -> tuple[Edit, ...]:
        """The edits of one attempt, sorted by path."""
        self._fill(iteration)
        if attempt == 1 and 1 <= iteration <= len(self._firsts):
            return self._firsts[iteration - 1]
        seen = set(self._names[: max(iteration - 1, 0)] if iteration <= self._compared else ())
        for earlier in range(1, attempt):
            seen.add(_name(self._pick(iteration, earlier, seen)))
        return self._pick(iteration, attempt, seen)

    def _fill(self, iteration: int) -> None:
        """Draw the first attempts up to *iteration*, none further than one that had to repeat."""
        while len(self._firsts) < min(iteration, self._compared):
            seen = set(self._names)
            edits = self._pick(len(self._firsts) + 1, 1, seen)
            self._firsts.append(edits)
            self._names.append(_name(edits))
            if self._names[-1] in seen:
                self._compared = len(self._firsts)

    def _pick(self, iteration: int, attempt: int, seen: set[_Name]) -> tuple[Edit, ...]:
        """The first draw that is not in *seen*; where all are, the first one."""
        fallback: tuple[Edit, ...] | None = None
        for n in range(_TRIES):
            name = json.dumps([self._model, self._seed, iteration, attempt, n])
            stream = hashlib.shake_256(name.encode()).digest(1024 + 64 * self._count)
            edits = self._decode(stream)
            if edits is not None and _name(edits) not in seen:
                return edits
            fallback = fallback or edits
        if fallback is None:
            raise InputProblem(
                f"{self._model}: {self._count} edits on {self._space.device}: the constraints "
                f"leave nothing to draw (in {_TRIES} tries); "
                "ask for fewer edits, or give the keys of space.yaml more values"
            )
        return fallback


_series = lru_cache(maxsize=16)(_Series)
_Name = tuple[tuple[str, str], ...]


def _name(edits: Sequence[Edit]) -> _Name:
    """What makes two draws the same: what they change to what."""
    return tuple((edit.path, pointer.canonical(edit.new)) for edit in edits)


def _decoder(
    strategy: SearchStrategy[tuple[Edit, ...]],
) -> Callable[[bytes], tuple[Edit, ...] | None]:
    """A function from bytes to the edits they stand for; None where the strategy rejects."""
    from hypothesis import given, settings

    box: list[tuple[Edit, ...]] = []

    @settings(database=None, deadline=None)
    @given(strategy)
    def keep(value: tuple[Edit, ...]) -> None:
        box.append(value)

    fuzz: Callable[[bytes], bytes | None] = keep.hypothesis.fuzz_one_input  # type: ignore[attr-defined]

    def decode(stream: bytes) -> tuple[Edit, ...] | None:
        box.clear()
        fuzz(stream)
        return box[-1] if box else None

    return decode


def _strategy(
    space: Space, count: int, base: Documents | None, only_fitting_checkpoint: bool
) -> tuple[SearchStrategy[tuple[Edit, ...]], Mapping[str, str]]:
    """Exactly *count* edits (followers apart), valid by construction, and what they come from."""
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
    moved = {} if base is None else _moved(keys, space.documents, base)
    drawn_by = {"hypothesis": hypothesis.__version__, "space": space.digest}
    remembered: dict[str, list[tuple[Key, tuple[Any, ...]]]] = {}

    def next_ones(changes: Mapping[str, Any], edits_left: int) -> list[tuple[Key, tuple[Any, ...]]]:
        """The keys that may be changed next and the values of each, remembered by state."""
        state = pointer.canonical([edits_left > 1, changes])
        if state not in remembered:
            if len(remembered) >= _REMEMBERED:
                remembered.clear()
            options = choices.after(changes, edits_left)
            remembered[state] = sorted(options.items(), key=lambda option: option[0].path)
        return remembered[state]

    @cache
    def index_below(number: int) -> SearchStrategy[int]:
        return st.sampled_from(range(number))

    @st.composite
    def edited(choose: Callable[[SearchStrategy[Any]], Any]) -> tuple[Edit, ...]:
        changes: dict[str, Any] = {}
        edits: list[Edit] = []
        for edits_left in range(count, 0, -1):
            options = next_ones(changes, edits_left)
            if not options:
                hypothesis.reject()
            key, values = options[choose(index_below(len(options)))]
            value = values[choose(index_below(len(values)))]
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

    return edited(), drawn_by


def _moved(keys: Sequence[Key], home: Documents, base: Documents) -> dict[str, Any]:
    """The paths at which a chain's *base* is away from *home*, with their value at home."""
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
