"""space.yaml: what is said about one that is wrong, and what it may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import catalog
from pytest_lmsv.mutation import constraints
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.constraints import Layout
from tests_selftest.mutation.small_models import SPACE, complaint, write


def keys(**change: Any) -> dict[str, Any]:
    first = {**SPACE["keys"][0], **change}
    return {"keys": [first, *SPACE["keys"][1:]]}


def rules(*entries: Any) -> dict[str, Any]:
    return {"constraints": list(entries)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (keys(path="/model/predictor/num_layer"), "(did you mean 'num_layers'?) in the npu docum"),
        (keys(path="model/x"), "is not a JSON Pointer"),
        (
            keys(values=[1, 2.0]),
            "values: 2.0: expected a whole number as the documents have (2), f",
        ),
        (
            keys(values=[1, "2"]),
            'values: "2": expected a whole number as the documents have (2), f',
        ),
        (keys(values=[1, True]), "values: true: expected a whole number"),
        (keys(values=[1, None]), "values: null: expected a whole number"),
        (keys(values=[2]), "values: no value but the present one on npu (2); add another"),
        (keys(values=[1, 1, 3]), "values: 1 stands there twice; remove one"),
        (keys(values=3), "values: expected a list, found 3"),
        (keys(values={"gpu": [1]}), "values: gpu: unknown key"),
        (
            keys(live=False),
            "live: expected true or the reason why not, found False; write a reason",
        ),
        (keys(live={"cpu": False}), "live: expected true or the reason why not"),
        (keys(fresh_weights="yes"), 'fresh_weights: expected true or false, found "yes"'),
        (keys(sets=["/data/nothing"]), "sets: /data/nothing does not exist"),
        (keys(sets=["/data/num_frames"]), "sets: /data/num_frames holds 9 on npu, /model/predict"),
        (keys(valeus=[1]), "valeus: unknown key (did you mean 'values'?)"),
        (
            {"keys": [{"path": "/data/batches", "values": [[2, 2]]}, *SPACE["keys"]]},
            "/data/batches/1: /data/batches/1 is also changed by /data/batches (/data/batches)",
        ),
        ({"key": []}, "key: unknown key (did you mean 'keys'?)"),
        ({"keys": {}}, "keys: expected a list of entries, found an object"),
        (rules("equl"), "constraints/0: rule: no rule named 'equl' (did you mean 'equal'?); known"),
        (rules({"rule": "equal"}), "constraints/0: rule equal: parameter 'paths' is missing; add"),
        (
            rules({"rule": "at_most", "pth": "/args/lr"}),
            "rule at_most: no parameter named 'pth' (did you mean 'path'?); it takes: path, limit",
        ),
        (
            rules({"rule": "at_most", "path": "/args/lr"}),
            "rule at_most: parameter 'limit' or 'other' is missing; add one, on npu; check",
        ),
        (
            rules({"rule": "length_equals", "path": "/data/batches"}),
            "rule length_equals: parameter 'number' or 'other' is missing",
        ),
        (rules({"rules": "equal"}), "constraints/0: rule: is missing; add it"),
        (rules({"rule": "equal", "paths": ["/model/frame", "/args/lr"]}), "equal: /model/frame do"),
        (
            rules({"rule": "equal", "paths": ["/model/frames", "/data/num_frames"]}),
            "documents break equal: /model/frames is 17 but /data/num_frames is 9; they mu",
        ),
        (
            rules({"rule": "multiple_of", "path": "/model/norm/type", "number": 2}),
            "rule multiple_of: can't be computed (TypeError: ",
        ),
        (rules({"rule": "equal", "paths": ["/args/lr"], "only": "gpu"}), "only: expected npu or c"),
        (
            {
                "keys": [{"path": "/data/num_frames", "values": [5]}],
                "constraints": [{"rule": "at_least", "path": "/data/num_frames", "limit": 9}],
            },
            "keys: the constraints leave nothing to draw on npu; add keys or values",
        ),
        ({"keys": []}, "leave nothing to draw"),
    ],
)
def test_a_wrong_space_is_named_by_file_key_and_remedy(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = write(tmp_path, space=change)
    text = complaint(tmp_path)
    assert text.startswith(f"{folder / 'space.yaml'}: ")
    assert message in text


def test_numbers_and_booleans_of_yaml_are_those_of_json(tmp_path: Path) -> None:
    folder = write(tmp_path)
    text = (folder / "space.yaml").read_text()
    assert "- 1.0e-06" in text
    (folder / "space.yaml").write_text(text.replace("- 1.0e-06", "- 1e-6"))
    keys = {key.path: key for key in catalog.load([tmp_path])["tiny"].space("cpu").keys}
    assert keys["/model/norm/eps"].values == (1e-5, 1e-6, 1e-4)
    (folder / "space.yaml").write_text(text.replace("- false", "- off"))
    assert 'values: "off": expected a true or false' in complaint(tmp_path)
    (folder / "space.yaml").write_text(text.replace("- 1.0e-06", "- 1e999"))
    assert "values: Infinity: is not a JSON number" in complaint(tmp_path)
    (folder / "space.yaml").write_text(text.replace("- 1.0e-06", "- 010"))
    assert 'values: "010": expected a number with a point' in complaint(tmp_path)


def test_list_values_keep_the_type_of_their_items(tmp_path: Path) -> None:
    write(tmp_path, space={"keys": [{"path": "/model/scale", "values": [[1.0, 2, 1.0]]}]})
    assert "[1.0, 2, 1.0]: item 2: expected a number with a point" in complaint(tmp_path)


def test_a_project_can_bring_rules_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constraints, "RULES", dict(constraints.RULES))

    @constraints.rule
    def at_least_one_epoch(get: constraints.Get, layout: Layout, path: str) -> str | None:
        return f"{path} is {get(path)}" if get(path) > 42 else None

    entry = {"rule": "at_least_one_epoch", "path": "/args/seed"}
    keys = [{"path": "/args/seed", "values": [41, 43]}]
    write(tmp_path, space={"keys": keys, "constraints": [entry]})
    space = catalog.load([tmp_path])["tiny"].space("cpu")
    (values,) = (
        Choices(space.documents, space.keys, space.constraints, space.layout)
        .after({}, edits_left=1)
        .values()
    )
    assert values == (41,)


def test_a_rule_may_be_for_one_device_only(tmp_path: Path) -> None:
    only = {"rule": "at_most", "path": "/data/num_frames", "limit": 5, "only": "npu"}
    write(tmp_path, space={"constraints": [only]}, devices=("cpu",))
    assert catalog.load([tmp_path])["tiny"].space("cpu").constraints == ()
