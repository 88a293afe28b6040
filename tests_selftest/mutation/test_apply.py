"""Edits on documents: applied exactly, joined for a chain, stored and read back."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.mutation import apply, pointer
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Edit, Mutation

DOCUMENTS: dict[str, Any] = {
    "model": {"layers": 42, "scale": 1.0, "sizes": [7, 60, 90], "a/b": {"c~d": 1}, "none": None},
    "data": {"pipe": [{"size": [448, 448]}]},
    "args": {"lr": 1e-5, "bf16": True},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/model/layers", 42),
        ("/model/a~1b/c~0d", 1),
        ("/model/sizes/2", 90),
        ("/data/pipe/0/size/1", 448),
        ("/args/lr", 1e-5),
    ],
)
def test_a_pointer_finds_and_changes_its_value(path: str, value: Any) -> None:
    assert apply.get(DOCUMENTS, path) == value
    changed = apply.apply(DOCUMENTS, [Edit(path, value, "new")])
    assert apply.get(changed, path) == "new"
    assert apply.get(DOCUMENTS, path) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("model/layers", "'model/layers' is not a JSON Pointer; it begins with the document"),
        ("/model/layer", "no 'layer' in /model (did you mean 'layers'?)"),
        ("/model/layers/x", "no 'x' in /model/layers"),
        ("/model/sizes/3", "no '3' in /model/sizes"),
        ("/model/sizes/01", "no '01' in /model/sizes"),
        ("/model/sizes/-", "no '-' in /model/sizes"),
        ("/modle/layers", "no 'modle' in the documents (did you mean 'model'?)"),
    ],
)
def test_a_pointer_that_leads_nowhere_is_named(path: str, message: str) -> None:
    with pytest.raises(InputProblem) as caught:
        apply.get(DOCUMENTS, path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "old", "found"),
    [
        ("/model/layers", 40, "expected 40, found 42"),
        ("/model/layers", 42.0, "expected 42.0, found 42"),
        ("/model/scale", 1, "expected 1, found 1.0"),
        ("/args/bf16", 1, "expected 1, found true"),
        ("/model/none", 0, "expected 0, found null"),
        ("/model/sizes", [7, 60, 90.0], "expected [7, 60, 90.0], found [7, 60, 90]"),
    ],
)
def test_another_value_than_the_edit_comes_from_is_refused(path: str, old: Any, found: str) -> None:
    with pytest.raises(
        InputProblem, match=r"the mutation was drawn from other documents"
    ) as caught:
        apply.apply(DOCUMENTS, [Edit(path, old, 5)])
    assert str(caught.value).startswith(f"{path}: {found}; ")


def test_what_is_applied_shares_nothing_with_the_edit_or_the_documents() -> None:
    new = [1, 2, 3]
    before = copy.deepcopy(DOCUMENTS)
    changed = apply.apply(DOCUMENTS, [Edit("/model/sizes", [7, 60, 90], new)])
    changed["model"]["sizes"].append(4)
    changed["data"]["pipe"].clear()
    assert new == [1, 2, 3]
    assert before == DOCUMENTS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = st.text(alphabet='ab~/1 é"', max_size=4)


@given(st.dictionaries(KEYS, JSON, min_size=1, max_size=4), st.data())
def test_a_stored_mutation_changes_the_same_after_reading(
    document: dict[str, Any], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(document)))
    new = data.draw(JSON.filter(lambda value: not pointer.same(value, document[name])))
    path = "/model/" + name.replace("~", "~0").replace("/", "~1")
    edit = Edit(path, document[name], new)
    mutation = Mutation("m", 3, 1, 42, (edit,), {"hypothesis": "1", "space": "sha256:0"})
    stored = json.loads(json.dumps(apply.to_json(mutation)))
    read = apply.from_json(stored, "mutation.json")
    assert read == mutation
    changed = apply.apply({"model": document}, read.edits)
    assert pointer.same(changed, {"model": {**document, name: new}})


def test_the_stored_form_is_schema_1() -> None:
    edits = (Edit("/args/lr", 1e-5, 2e-6), Edit("/model/layers", 42, 4))
    mutation = Mutation("cogvideox", 3, 1, 42, edits, {"hypothesis": "6", "space": "sha256:1"})
    assert apply.to_json(mutation) == {
        "schema": 1,
        "model": "cogvideox",
        "iteration": 3,
        "attempt": 1,
        "base_seed": 42,
        "drawn_by": {"hypothesis": "6", "space": "sha256:1"},
        "edits": [
            {"path": "/args/lr", "from": 1e-5, "to": 2e-6},
            {"path": "/model/layers", "from": 42, "to": 4},
        ],
    }


EDIT = {"path": "/model/layers", "from": 42, "to": 4}
STORED: dict[str, Any] = {
    "schema": 1, "model": "cogvideox", "iteration": 1, "attempt": 1, "base_seed": 43,
    "drawn_by": {}, "edits": [EDIT],
}  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ([], "m.json: expected a mutation (a JSON object), found a list"),
        ({}, "m.json: schema is missing"),
        ({**STORED, "schema": 2}, "m.json: schema: expected 1, found 2; use the pytest-lmsv"),
        ({**STORED, "model": 7}, "m.json: model: expected a text, found 7"),
        ({**STORED, "iteration": "1"}, 'm.json: iteration: expected a whole number, found "1"'),
        ({**STORED, "iteration": True}, "m.json: iteration: expected a whole number, found true"),
        ({**STORED, "edits": []}, "m.json: edits: the list is empty"),
        ({**STORED, "edits": {}}, "m.json: edits: expected a list, found {}"),
        ({**STORED, "edits": [7]}, "m.json: edits/0: expected an edit, found 7"),
        ({**STORED, "edits": [{"path": "/a", "to": 1}]}, "m.json: edits/0: from is missing"),
        ({**STORED, "edits": [{"path": "/a", "from": 1}]}, "m.json: edits/0: to is missing"),
        ({**STORED, "edits": [{**EDIT, "path": "a"}]}, "edits/0: path: 'a' is not a JSON Pointer"),
        ({**STORED, "edits": [{**EDIT, "to": 42}]}, "from and to are both 42"),
        ({**STORED, "edits": [EDIT, EDIT]}, "m.json: /model/layers is edited twice"),
    ],
)
def test_a_mutation_file_that_is_wrong_is_named_in_one_line(stored: Any, message: str) -> None:
    with pytest.raises(InputProblem) as caught:
        apply.from_json(stored, "m.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_chain_keeps_the_first_value_and_drops_what_came_back() -> None:
    before = [Edit("/a", 1, 2), Edit("/b", 1, 2), Edit("/d", 5, 6)]
    after = [Edit("/b", 2, 3), Edit("/c", 7, 8), Edit("/d", 6, 5)]
    assert apply.merge(before, after) == (
        Edit("/a", 1, 2), Edit("/b", 1, 3), Edit("/c", 7, 8),
    )  # fmt: skip


def test_a_chain_is_never_empty_and_never_torn() -> None:
    with pytest.raises(InputProblem, match="lead back to the base configuration"):
        apply.merge([Edit("/a", 1, 2)], [Edit("/a", 2, 1)])
    with pytest.raises(InputProblem, match="/a: expected 3, found 2; these edits do not follow"):
        apply.merge([Edit("/a", 1, 2)], [Edit("/a", 3, 4)])
    assert apply.merge([Edit("/a", 1, 2)], [Edit("/a", 2, 1.0)]) == (Edit("/a", 1, 1.0),)


def test_arguments_are_the_tokens_of_the_command_line() -> None:
    args = {
        "lr": 1e-5, "clip-grad": 1.0, "bf16": True, "fp16": False, "load": None, "seed": 42,
        "lr-decay-style": "constant", "split": [949, 50, 1], "text": "two words",
    }  # fmt: skip
    assert apply.arguments(args) == [
        "--lr", "1e-05", "--clip-grad", "1.0", "--bf16", "--seed", "42",
        "--lr-decay-style", "constant", "--split", "949", "50", "1", "--text", "two words",
    ]  # fmt: skip


@pytest.mark.parametrize("value", [{"a": 1}, [True], [[1]], "two\nlines"])
def test_an_argument_that_no_command_line_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(InputProblem, match="/args/x: "):
        apply.arguments({"x": value})
