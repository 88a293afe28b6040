"""Pictures with conversations on cpu: a set written once, and a user's own of that layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import LAUNCHERS, changed, curves, relative

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

MODEL = "internvl3"
BASIC = "/data/dataset_param/basic_parameters"
OWN_SET = """
import json, sys
from pathlib import Path
import numpy as np

folder = Path(sys.argv[1])
folder.mkdir()
entries = []
for index in range(3):
    pixels = np.random.RandomState(index).randint(0, 256, (50, 70 + index, 3)).astype(np.uint8)
    np.save(folder / f"{index}.npy", pixels)
    turns = [{"from": "human", "value": "<image>\\nWas ist das? \\u4ec0\\u4e48"},
             {"from": "gpt", "value": f"noise {index}"}]
    entries.append({"image": f"{index}.npy", "conversations": turns})
(folder / "own.json").write_text(json.dumps(entries))
"""
TOKENS = """
import sys
sys.path.insert(0, sys.argv[1])
from cpu import tokenizer

for text in ("a red circle, at the left", "\\u4ec0\\u4e48 is  this?\\n", "", "naïve words"):
    assert tokenizer.decoded(tokenizer.encoded(text)) == text, text
assert len(tokenizer.encoded(" red circle")) == 2
assert tokenizer.decoded([tokenizer.IM_START, 10**6]) == "<1000000>"
assert tokenizer.shown(tokenizer.encoded("a\\x1b[2Jb\\rc\\nd")) == "a\ufffd[2Jb\ufffdc\\nd"
"""
RULES = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from cpu.configuration import Configuration
from cpu.generation import Rules, generate

def rules(steps=None, **options):
    options = {"max_new_tokens": 4, **options}
    return Rules(Configuration({"model": {"generation_config": options}}), steps)

def counting(ids, new):  # the next number is the most likely one
    logits = np.zeros(8, np.float32)
    logits[(ids[-1] + 1) % 8] = 2.0
    return logits

assert generate(rules(), [0], counting).ids == [1, 2, 3, 4]
assert generate(rules(steps=2), [0], counting).ids == [1, 2]
assert generate(rules(eos_token_id=[2, 7]), [0], counting).ids == [1, 2]
assert generate(rules(eos_token_id=2), [0], counting).ids == [1, 2]
assert 2 not in generate(rules(eos_token_id=2, min_new_tokens=4), [0], counting).ids
assert generate(rules(suppress_tokens=[2]), [0], counting).ids[:2] == [1, 0]
found = generate(rules(repetition_penalty=3.0, max_new_tokens=9), [0], counting).ids
assert found[:7] == [1, 2, 3, 4, 5, 6, 7]
scores = rules(repetition_penalty=2.0).scores(np.array([1.0, -1.0, 3.0]), [0, 1], 0)
assert scores.tolist() == [0.5, -2.0, 3.0]
scores = rules(no_repeat_ngram_size=2).scores(np.ones(5), [1, 3, 1], 0)
assert np.isneginf(scores).tolist() == [False, False, False, True, False]
scores = rules(no_repeat_ngram_size=1).scores(np.ones(5), [1, 3], 0)
assert np.isneginf(scores).tolist() == [False, True, False, True, False]
seen = []
generate(rules(), [5, 6], lambda ids, new: seen.append(new) or counting(ids, new))
assert seen == [2, 1, 1, 1]
seen.clear()
generate(rules(kv_cache=False), [5, 6], lambda ids, new: seen.append(new) or counting(ids, new))
assert seen == [2, 3, 4, 5]
"""


def own_set(environment: StackEnvironment, folder: Path) -> dict[str, Any]:
    """A user's set in *folder*; what data.json says then."""
    done = environment.run(["-c", OWN_SET, folder])
    assert done.returncode == 0, done.stderr
    return {f"{BASIC}/data_path": str(folder / "own.json"), f"{BASIC}/data_folder": str(folder)}


@pytest.mark.stacks
def test_the_set_is_written_once_in_mindspeed_mm_layout(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    folder = tmp_path / "internvl3"
    for _ in range(2):
        done = pta_env.run([LAUNCHERS / "cpu" / "picture_set.py", folder])
        assert done.returncode == 0, done.stderr
    lines = (folder / "data.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert len(entries) == 12
    for entry in entries:
        assert (folder / entry["image"]).read_bytes().startswith(b"\x89PNG")
        said = [turn["from"] for turn in entry["conversations"]]
        assert said in (["human", "gpt"], ["human", "gpt"] * 2)
        assert entry["conversations"][0]["value"].startswith("<image>\n")
    assert sum(path.stat().st_size for path in folder.rglob("*.png")) < 512 * 1024


@pytest.mark.stacks
def test_a_set_of_the_user_is_read(pta_env: StackEnvironment, tmp_path: Path) -> None:
    own = own_set(pta_env, tmp_path / "own")
    both = [changed({}, MODEL), changed(own, MODEL)]
    project, users = curves(pta_env, tmp_path, both, steps=2, model=MODEL)
    assert "error" not in users
    assert relative(project["losses"], users["losses"]) > 1e-3


@pytest.mark.stacks
def test_bad_data_is_named(pta_env: StackEnvironment, tmp_path: Path) -> None:
    own = own_set(pta_env, tmp_path / "own")
    folder = Path(own[f"{BASIC}/data_folder"])
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    wanted = []
    documents = []
    for name, text in (
        ("photo.jpg", "on cpu a picture is a .png file or a .npy array; convert it"),
        ("gone.png", "No such file or directory"),
    ):
        turns = [{"from": "human", "value": "<image>"}, {"from": "gpt", "value": "x"}]
        line = json.dumps({"image": name, "conversations": turns})
        (folder / f"{name}.jsonl").write_text(line, encoding="utf-8")
        documents.append({**own, f"{BASIC}/data_path": str(folder / f"{name}.jsonl")})
        wanted.append(text)
    (folder / "empty.jsonl").write_text("\n", encoding="utf-8")
    documents.append({**own, f"{BASIC}/data_path": str(folder / "empty.jsonl")})
    wanted.append("names no pictures")
    documents.append({"/args/seq-length": 16})
    wanted.append("tokens do not fit into seq-length 16: lower max_dynamic_patch")
    documents.append({"/model/img_context_token_id": 400})
    wanted.append("img_context_token_id is 400; the cpu tokenizer's special tokens end at 16")
    documents.append({"/data/dataset_param/image_size": 64})
    wanted.append("data's image_size 64 is not the vision encoder's 32")
    configurations = [changed(changes, MODEL) for changes in documents]
    found = curves(pta_env, tmp_path, configurations, steps=1, model=MODEL)
    for text, answer in zip(wanted, found, strict=True):
        assert text in answer.get("error", "no error")


@pytest.mark.stacks
@pytest.mark.parametrize("program", [TOKENS, RULES], ids=["tokens", "rules of generation"])
def test_what_needs_no_network(pta_env: StackEnvironment, program: str) -> None:
    done = pta_env.run(["-c", program, LAUNCHERS])
    assert done.returncode == 0, done.stderr
