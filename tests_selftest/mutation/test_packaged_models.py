"""The models that the package brings: 200 draws of each are valid, and no written value is idle."""

from __future__ import annotations

import json

import pytest

from pytest_lmsv import catalog, data
from pytest_lmsv.mutation import apply
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.draw import draw
from pytest_lmsv.mutation.pointer import same
from pytest_lmsv.mutation.space import Space
from pytest_lmsv.records import Device

MODELS = catalog.load([data.mm_configs()])
PAIRS = [(name, device) for name, spec in MODELS.items() for device in spec.devices]


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_200_draws_are_distinct_and_keep_every_constraint(name: str, device: Device) -> None:
    spec = MODELS[name]
    space, documents = spec.space(device), spec.documents(device)
    seen = set()
    for iteration in range(1, 201):
        mutation = draw(spec, device, seed=43, iteration=iteration, attempt=1)
        result = apply.apply(documents, mutation.edits)
        assert Choices(result, (), space.constraints, space.layout).broken({}) == []
        assert apply.from_json(json.loads(json.dumps(apply.to_json(mutation))), "x") == mutation
        assert all(isinstance(token, str) for token in apply.arguments(result["args"]))
        seen.add(json.dumps([[edit.path, edit.new] for edit in mutation.edits]))
    assert len(seen) == 200


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_every_value_of_the_space_can_be_drawn(name: str, device: Device) -> None:
    space: Space = MODELS[name].space(device)
    choices = Choices(space.documents, space.drawn(), space.constraints, space.layout)
    offered = choices.after({}, edits_left=2)
    idle = [
        (key.path, value)
        for key in space.drawn()
        for value in key.values
        if not same(value, apply.get(space.documents, key.path))
        and not any(same(value, other) for other in offered.get(key, ()))
    ]
    assert idle == [], "a constraint always forbids these: change the value or the rule"


@pytest.mark.parametrize(("name", "device"), PAIRS)
def test_at_least_15_keys_are_live(name: str, device: Device) -> None:
    assert len(MODELS[name].space(device).drawn()) >= 15
