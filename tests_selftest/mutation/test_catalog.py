"""The catalog: what it loads, and what it says about a model that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import catalog
from pytest_lmsv.mutation.constraints import Layout
from pytest_lmsv.problems import InputProblem
from tests_selftest.mutation.small_models import DOCUMENTS, complaint, write


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
        (
            {"stack_overrides": {"msa": {"/args/lr": 1.0}}},
            "stack_overrides: msa: /args/lr: space.yaml mutates /args/lr on npu, which would not",
        ),
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


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("cpu/model.json", '{"a": 1,\n "b": }', "line 2: broken JSON (Expecting value"),
        ("cpu/data.json", '{"a": 1,\n "a": 2}', "line 2: key 'a' is written twice"),
        ("cpu/args.json", "[]", "expected {...}, found a list"),
        ("cpu/args.json", '{"lr": NaN}', "line 1: NaN is not JSON"),
        ("cpu/args.json", '{"a": 1,\n"lr": 1e999}', "line 2: 1e999 is not JSON"),
        ("cpu/args.json", "[" * 100000, "can't be read as JSON"),
        ("cpu/args.json", "1" * 5000, "can't be read as JSON"),
        ("cpu/args.json", '{"lr": 1, "a": {"lr": {}, "lr": 2}}', "line 1: key 'lr' is written twi"),
        ("space.yaml", "keys:\n\t- a\n", "line 2: broken YAML (found character"),
        ("space.yaml", "keys: [*nothing]\n", "line 1: broken YAML (found undefined alias"),
        ("space.yaml", "keys: !!python/name:os.system\n", "line 1: broken YAML (could not determi"),
        ("space.yaml", "keys: \x07\n", "broken YAML"),
        ("space.yaml", "? [a]\n: 1\n", "broken YAML (found unhashable key)"),
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


def test_files_that_are_no_text_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "cpu" / "model.json").write_bytes(b'{"a": "\xff"}')
    assert "model.json: is not UTF-8 text (byte 7); save it as UTF-8" in complaint(tmp_path)
    (folder / "cpu" / "model.json").write_bytes(
        b"\xef\xbb\xbf" + json.dumps(DOCUMENTS["model"]).encode()
    )
    assert catalog.load([tmp_path])["tiny"].documents("cpu") == DOCUMENTS
