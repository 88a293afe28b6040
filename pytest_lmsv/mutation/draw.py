"""Mutations drawn by Hypothesis, the same one for the same key on every machine and version.

Strategies are built from ``sampled_from`` alone and decoded by ``fuzz_one_input`` from bytes that
only (model, seed, iteration, attempt) decide: no database, profile, ``--hypothesis-seed`` or
imported module has a say. Draws of a campaign prefer what was not drawn before them (usage.py).
No draw needs the runs of the ones before it: what these are is computed, not looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_lmsv.mutation.series import Series, series
from pytest_lmsv.mutation.strategy import Preference, drawn_by, strategy
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Device, Documents, Mutation

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from pytest_lmsv.catalog import ModelSpec


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
    valid = strategy(space, count, base, only_fitting_checkpoint, Preference())
    origin = drawn_by(space)
    return valid.map(lambda edits: Mutation(space.model, 0, 0, 0, edits, origin))


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
    named = (spec.name, spec.space(device), seed, count, only_fitting_checkpoint)
    drawn = series(*named) if base is None else Series(*named, base)
    edits = drawn.edits(iteration, attempt)
    return Mutation(spec.name, iteration, attempt, seed, edits, drawn.drawn_by)
