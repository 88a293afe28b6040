"""The catalog: what it loads, and what it says about a model that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_models import DOCUMENTS, SPACE, write

from pytest_lmsv import catalog
from pytest_lmsv.mutation.constraints import Layout
from pytest_lmsv.problems import InputProblem


def test_a_model_is_loaded_with_all_it_says(tmp_path: Path) -> None:
    write(tmp_path)
    tiny = catalog.load([tmp_path])["tiny"]
    assert (tiny.name, tiny.aliases, tiny.kind) == ("tiny", ("wee",), "training")
    assert tiny.devices == ("npu", "cpu")
    assert tiny.entry_scripts["cpu"] == "cpu/pretrain_tiny.py"
    assert tiny.patch_points == {"pretrain_tiny.py": "tiny:generate"}
    assert tiny.layouts["npu"] == Layout(devices=8, tp=4, accumulation=4)
    assert tiny.layouts["npu"].dp == 2
    assert tiny.stack_overrides == {"pta": {}, "msa": {"/args/bf16": False}}
    assert tiny.versions == ("2.2.0", "2.3.0")
    assert tiny.documents("cpu") == DOCUMENTS


def test_documents_are_fresh_copies(tmp_path: Path) -> None:
    write(tmp_path)
    tiny = catalog.load([tmp_path])["tiny"]
    tiny.documents("cpu")["model"]["predictor"].clear()
    assert tiny.documents("cpu") == DOCUMENTS


def test_dead_keys_are_listed_with_their_reason_and_not_drawn(tmp_path: Path) -> None:
    write(tmp_path)
    space = catalog.load([tmp_path])["tiny"].space("cpu")
    dead = {key.path: key.reason for key in space.keys if not key.live}
    assert dead == {"/model/frames": "no reader in the training path"}
    assert "/model/frames" not in {key.path for key in space.drawn()}


def test_the_later_folder_wins(tmp_path: Path) -> None:
    write(tmp_path / "packaged")
    write(tmp_path / "packaged", model={"name": "other", "aliases": []})
    own = write(tmp_path / "own", model={"aliases": ["mine"]})
    models = catalog.load([tmp_path / "packaged", tmp_path / "own"])
    assert list(models) == ["other", "tiny"]
    assert models["tiny"].folder == own
    assert catalog.find(models, "mine") is models["tiny"]


def test_an_unknown_name_gets_the_nearest_known_one(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, model={"name": "cogvideox", "aliases": ["cog"]})
    models = catalog.load([tmp_path])
    assert catalog.find(models, "cog").name == "cogvideox"
    with pytest.raises(InputProblem) as caught:
        catalog.find(models, "cogvideo")
    assert str(caught.value) == (
        "--model: no model named 'cogvideo'; did you mean 'cogvideox'? (known: cogvideox, tiny)"
    )
    with pytest.raises(InputProblem) as caught:
        catalog.find(models, "zzz")
    assert str(caught.value) == "--model: no model named 'zzz'; (known: cogvideox, tiny)"


def test_a_device_without_documents_is_named(tmp_path: Path) -> None:
    write(tmp_path, devices=("cpu",))
    tiny = catalog.load([tmp_path])["tiny"]
    with pytest.raises(InputProblem, match="tiny: has no configuration for device 'npu'; it has c"):
        tiny.documents("npu")


def complaint(folder: Path) -> str:
    with pytest.raises(InputProblem) as caught:
        catalog.load([folder])
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "train"}, 'kind: expected training or inference, found "train"'),
        ({"aliases": "wee"}, 'aliases: expected a list of texts in quotes, found "wee"'),
        ({"aliases": ["We e"]}, "aliases: found 'We e'; use small letters"),
        ({"mindspeed_mm": [2.2]}, "mindspeed_mm: expected a list of texts in quotes"),
        ({"knd": 1}, "knd: unknown key (did you mean 'kind'?); known: name, aliases"),
        ({"layouts": {"cpu": {}}}, "layouts: nothing for npu, which has documents"),
        ({"layouts": {"gpu": {}}}, "layouts: gpu: unknown key (did you mean"),
        (
            {"layouts": {"cpu": {"tp": 0}}},
            "layouts: cpu: tp: expected a whole number of 1 or more, found 0",
        ),
        (
            {"layouts": {"cpu": {}, "npu": {"devices": 8, "tp": 3}}},
            "layouts: npu: devices: 8 devices can't be split by tp * pp * cp = 3",
        ),
        ({"entry": {"cpu": "a.py"}}, "entry: nothing for npu"),
        ({"entry": "a.py"}, "entry: expected 'key: value' lines, found \"a.py\""),
        ({"stack_overrides": {"msa": {"/args/bf": 1}}}, "(did you mean 'bf16'?); correct the path"),
        ({"stack_overrides": {"mss": {}}}, "stack_overrides: mss: unknown key"),
    ],
)
def test_a_wrong_model_yaml_is_named_by_file_key_and_remedy(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = write(tmp_path, model=change)
    text = complaint(tmp_path)
    assert text.startswith(f"{folder / 'model.yaml'}: ")
    assert message in text


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
        (rules({"rules": "equal"}), "constraints/0: rule: is missing; add it"),
        (rules({"rule": "equal", "paths": ["/model/frame", "/args/lr"]}), "equal: /model/frame do"),
        (
            rules({"rule": "equal", "paths": ["/model/frames", "/data/num_frames"]}),
            "the unmutated npu documents break it: /model/frames is 17 but /data/num_frames is 9",
        ),
        (
            rules({"rule": "multiple_of", "path": "/model/norm/type", "number": 2}),
            "multiple_of: can't be computed on the npu documents (TypeError",
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


def test_list_values_keep_the_type_of_their_items(tmp_path: Path) -> None:
    write(tmp_path, space={"keys": [{"path": "/model/scale", "values": [[1.0, 2, 1.0]]}]})
    assert "[1.0, 2, 1.0]: item 2: expected a number with a point" in complaint(tmp_path)


def test_a_rule_may_be_for_one_device_only(tmp_path: Path) -> None:
    only = {"rule": "at_most", "path": "/data/num_frames", "limit": 5, "only": "npu"}
    write(tmp_path, space={"constraints": [only]}, devices=("cpu",))
    assert catalog.load([tmp_path])["tiny"].space("cpu").constraints == ()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("cpu/model.json", '{"a": 1,\n "b": }', "line 2: broken JSON (Expecting value"),
        ("cpu/data.json", '{"a": 1,\n "a": 2}', "line 2: key 'a' is written twice"),
        ("cpu/args.json", "[]", "expected {...}, found a list"),
        ("cpu/args.json", '{"lr": NaN}', "line 1: NaN is not JSON"),
        ("space.yaml", "keys:\n  - {path: [}\n", "line 2: broken YAML"),
        ("model.yaml", "name: tiny\nname: tiny\n", "line 2: key 'name' is written twice"),
        ("model.yaml", "- a\n", "expected 'key: value' lines, found a list"),
        ("model.yaml", "1: a\n", "the key 1 is not text"),
    ],
)
def test_broken_files_are_named_by_line(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    folder = write(tmp_path)
    (folder / file).write_text(content)
    text = complaint(tmp_path)
    assert text.startswith(f"{folder / file}: ")
    assert message in text


@pytest.mark.parametrize("file", ["cpu/args.json", "space.yaml"])
def test_a_missing_file_is_named(tmp_path: Path, file: str) -> None:
    folder = write(tmp_path)
    (folder / file).unlink()
    assert complaint(tmp_path).startswith(f"{folder / file}: is missing")


def test_a_model_lies_in_a_folder_of_its_name_and_has_documents(tmp_path: Path) -> None:
    write(tmp_path).rename(tmp_path / "small")
    assert "name: found 'tiny' in the folder 'small'" in complaint(tmp_path)
    (tmp_path / "small").rename(tmp_path / "tiny")
    for device in ("cpu", "npu"):
        (tmp_path / "tiny" / device).rename(tmp_path / device)
    assert "no folder npu or cpu beside it" in complaint(tmp_path)
    assert "is not a folder" in complaint(tmp_path / "nowhere")


def test_an_alias_names_one_model(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, model={"name": "zebra"})
    assert "zebra/model.yaml: aliases: 'wee' already names tiny" in complaint(tmp_path)
    write(tmp_path, model={"name": "zebra", "aliases": ["tiny"]})
    assert "aliases: 'tiny' already names tiny" in complaint(tmp_path)
