"""Mutations drawn by Hypothesis, the same one for the same key on every machine and version.

Strategies are built from ``sampled_from`` alone and decoded by ``fuzz_one_input`` from bytes that
only (model, seed, iteration, attempt) decide: no database, profile, ``--hypothesis-seed`` or
imported module has a say. Draws of a campaign prefer what was not drawn before them (usage.py).
No draw needs the runs of the ones before it: what these are is computed, not looked up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.space import DRAWING, Key, Space
from pytest_lmsv.mutation.usage import Name, Option, Usage, names
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Device, Documents, Edit, Mutation

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from pytest_lmsv.catalog import ModelSpec

_TRIES = 64
_PREFERRING = 32
"""Tries that prefer what was not drawn yet; where all repeat a mutation, the rest are free."""
_COMPARED = 2000
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
    strategy = _strategy(space, count, base, only_fitting_checkpoint, _Preference())
    drawn_by = _drawn_by(space)
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


@dataclass
class _Preference:
    """What the draws of a strategy prefer now; None: nothing, all that is valid is as likely."""

    usage: Usage | None = None


class _Series:
    """All draws of one campaign and model. A draw differs from those before it where it can.

    Before it are the first attempts of earlier iterations (for a chain, where they started from
    other documents, instead what the documents show of them) and the earlier attempts of its own
    iteration. They cost half a millisecond each and depend on nothing but their number, so that a
    draw still does not need how the runs before it ended.
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
        self._preference = _Preference()
        self._decode = _decoder(
            _strategy(space, count, base, only_fitting_checkpoint, self._preference)
        )
        self.drawn_by = _drawn_by(space)
        self._keys = space.drawn(only_fitting_checkpoint=only_fitting_checkpoint)
        self._model, self._space, self._seed, self._count = model, space, seed, count
        self._firsts: list[tuple[Edit, ...]] = []
        self._names: list[_Names] = []  # of the firsts
        self._distinct: set[_Names] = set()
        self._used = Usage(self._keys)  # by the firsts
        self._chained = base is not None
        self._compared = 0 if self._chained else _COMPARED
        self._moved: _Names = ()
        if base is not None:
            away = _moved(self._keys, base, space.documents)
            self._moved = tuple((path, pointer.canonical(value)) for path, value in away.items())

    def edits(self, iteration: int, attempt: int) -> tuple[Edit, ...]:
        """The edits of one attempt, sorted by path."""
        self._fill(iteration)
        if attempt == 1 and 1 <= iteration <= len(self._firsts):
            return self._firsts[iteration - 1]
        before = self._names[: max(iteration - 1, 0)] if iteration <= self._compared else []
        used = None
        if before or self._chained:
            used = Usage(self._keys)
            for drawn in (*before, self._moved):
                used.add(drawn)
        seen = set(before)
        for earlier in range(1, attempt):
            drawn = names(self._pick(iteration, earlier, seen, used))
            seen.add(drawn)
            if used is not None:
                used.add(drawn)
        return self._pick(iteration, attempt, seen, used)

    def _fill(self, iteration: int) -> None:
        """Draw the first attempts up to *iteration*, none further than one that had to repeat."""
        while len(self._firsts) < min(iteration, self._compared):
            edits = self._pick(len(self._firsts) + 1, 1, self._distinct, self._used)
            drawn = names(edits)
            self._firsts.append(edits)
            self._names.append(drawn)
            self._used.add(drawn)
            if drawn in self._distinct:
                self._compared = len(self._firsts)
            self._distinct.add(drawn)

    def _pick(
        self, iteration: int, attempt: int, seen: set[_Names], used: Usage | None
    ) -> tuple[Edit, ...]:
        """The first draw that is not in *seen*; where all are, the first one."""
        fallback: tuple[Edit, ...] | None = None
        for n in range(_TRIES):
            self._preference.usage = used if n < _PREFERRING else None
            name = json.dumps([self._model, self._seed, iteration, attempt, n])
            stream = hashlib.shake_256(name.encode()).digest(1024 + 64 * self._count)
            edits = self._decode(stream)
            if edits is None:
                continue
            drawn = names(edits)
            if drawn not in seen:
                return edits
            fallback = fallback or edits
            if used is not None:
                used.add(drawn)  # else a value with no new mutation left is preferred for ever
        if fallback is None:
            raise InputProblem(
                f"{self._model}: {self._count} edits on {self._space.device}: the constraints "
                f"leave nothing to draw (in {_TRIES} tries); "
                "ask for fewer edits, or give the keys of space.yaml more values"
            )
        return fallback


_series = lru_cache(maxsize=16)(_Series)
_Names = tuple[Name, ...]
"""What makes two draws the same: what they change to what."""


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


def _drawn_by(space: Space) -> Mapping[str, str]:
    """What a stored mutation says of its origin: another one of these may draw another one."""
    import hypothesis

    return {
        "hypothesis": hypothesis.__version__,
        "space": space.digest,
        "drawing": str(DRAWING),
    }


def _strategy(
    space: Space,
    count: int,
    base: Documents | None,
    only_fitting_checkpoint: bool,
    preference: _Preference,
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
    moved = {} if base is None else _moved(keys, space.documents, base)
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


def _moved(keys: Sequence[Key], home: Documents, base: Documents) -> dict[str, Any]:
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
