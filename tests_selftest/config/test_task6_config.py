"""Task6's configuration files, as users have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.problems import InputProblem
from pytest_lmsv.task6_config import NodeConfig, is_task6, read

SINGLE = """{
  // written by hand
  "task_type": 6,
  "PTA_NAME": "mindspeed",
  "MSA_NAME": "msadapter",
  "MINDSPEED_MM_PATH": "/data/ws", /* the workspace */
  "DATASET_ROOT": "/data/sets//raw",
  "SAVE_ABNORMAL_WEIGHTS": "no",
  "tasks": {
    "1": {"MODEL_NAME": "qwen3"},
    "6": {
      "MODEL_NAME": "CogVideoX",
      "TOTAL_ITER": "10",
      "MUTNM": 3,
      "TRAIN_ITER": 4.0,
      "COMPARE_MODE": "msa-msa",
      "BASE_SEED": 7,
      "PTA_MAX_RUNTIME": "900",
      "MSA_MAX_RUNTIME": 900.5,
      "PERSIST_ROOT": "/data/out",
    },
  },
}
"""
NODE = {
    "HOST": "root@10.0.0.2",
    "SSH_PORT": "2222",
    "LMSV_PATH": "/r/lmsv",
    "PTA_NAME": "p",
    "MSA_NAME": "m",
    "PTA_PATH": "/r/ws",
    "MSA_PATH": "/r/ws",
    "MINDSPEED_MM_PATH": "/r/ws/MindSpeed-MM",
}


def write(folder: Path, text: str, name: str = "config.json") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def config(folder: Path, task: dict[str, Any], **root: Any) -> Path:
    return write(folder, json.dumps({"task_type": 6, **root, "tasks": {"6": task}}, indent=1))


def test_every_field_of_a_single_machine_becomes_a_setting(tmp_path: Path) -> None:
    found = read(write(tmp_path, SINGLE))
    assert dict(found.settings()) == {
        "model": "cogvideox",
        "iters": 10,
        "mutations": 3,
        "steps": 4,
        "compare": "msa_msa",
        "seed": 7,
        "pta_timeout": 900,
        "msa_timeout": 900.5,
        "output": "/data/out",
        "pta_env": "mindspeed",
        "msa_env": "msadapter",
        "mindspeed_mm_path": "/data/ws",
        "dataset_root": "/data/sets//raw",
        "save_weights": "never",
    }
    assert found.warnings == ()
    assert found.multi_node is None
    assert found.places["steps"].endswith("config.json:15: TRAIN_ITER")


def test_the_same_keys_may_stand_in_yaml(tmp_path: Path) -> None:
    text = """
task_type: 6
DATASET_ROOT: /data/sets
tasks:
  6:
    MODEL_NAME: opensora1.2
    TRAIN_ITERS: 2
"""
    found = read(write(tmp_path, text, "config.yaml"))
    assert dict(found.settings()) == {
        "model": "opensora",
        "steps": 2,
        "dataset_root": "/data/sets",
    }
    with pytest.raises(InputProblem, match=r"c\.yaml:3: TOTAL_ITER must be a whole number"):
        read(write(tmp_path, "tasks:\n  6:\n    TOTAL_ITER: many\n", "c.yaml"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("internvl", "internvl3"),
        (" InternVL3 ", "internvl3"),
        ("qwen2.5vl", "qwenvl"),
        ("qwen25vl", "qwenvl"),
        ("opensora1.2", "opensora"),
        ("cogvideox_i2v", "cogvideox"),
        ("cogvideox, QwenVL", "cogvideox,qwenvl"),
        ("somebodys_own", "somebodys_own"),
    ],
)
def test_aliases_of_models(tmp_path: Path, given: str, meant: str) -> None:
    assert read(config(tmp_path, {"MODEL_NAME": given})).model == meant


@pytest.mark.parametrize("alias", ["SAVE_STEPS", "TRAIN_ITERS", "TRAIN_ITER"])
def test_aliases_of_fields(tmp_path: Path, alias: str) -> None:
    assert read(config(tmp_path, {"MODEL_NAME": "qwenvl", alias: 3})).steps == 3
    limited = read(config(tmp_path, {"MODEL_NAME": "qwenvl", "MAX_VALIDATE_TIME": 60}))
    assert (limited.msa_timeout, limited.pta_timeout) == (60, None)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("pta-msa", "pta_msa"),
        ("msa", "pta_msa"),
        ("PTA", "pta_pta"),
        ("pta-pta", "pta_pta"),
        ("msa-msa", "msa_msa"),
    ],
)
def test_names_of_compare_modes(tmp_path: Path, given: str, meant: str) -> None:
    assert read(config(tmp_path, {"COMPARE_MODE": given})).compare == meant


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"TOTAL_ITER": 0}, "TOTAL_ITER must be a whole number of at least 1, found 0"),
        ({"TOTAL_ITER": True}, "TOTAL_ITER must be a whole number"),
        ({"TOTAL_ITER": 1.5}, "TOTAL_ITER must be a whole number"),
        ({"MUTNM": "two"}, "MUTNM must be a whole number of at least 1, found 'two'"),
        ({"BASE_SEED": -1}, "BASE_SEED must be a whole number"),
        ({"PTA_MAX_RUNTIME": 0}, "PTA_MAX_RUNTIME must be a number of seconds above 0"),
        ({"MSA_MAX_RUNTIME": "inf"}, "MSA_MAX_RUNTIME must be a number of seconds"),
        ({"COMPARE_MODE": "pta_mf"}, "COMPARE_MODE must be pta_msa, pta_pta or msa_msa"),
        ({"MODEL_NAME": ["qwenvl"]}, "MODEL_NAME must be a text"),
        ({"MODEL_NAME": "a\nb"}, "MODEL_NAME must be a text on one line"),
        ({"PERSIST_ROOT": {}}, "PERSIST_ROOT must be a text"),
    ],
)
def test_a_wrong_value_names_file_line_and_remedy(
    tmp_path: Path, task: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputProblem) as caught:
        read(config(tmp_path, task))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'config.json'}:5: {told}")
    assert message.endswith("; correct the value")
    assert "\n" not in message


@pytest.mark.parametrize("word", ["1", "true", "yes", "on", "Y", True, 1])
def test_booleans_may_be_words(tmp_path: Path, word: object) -> None:
    path = config(tmp_path, {}, SAVE_ABNORMAL_WEIGHTS=word)
    assert read(path).save_weights == "abnormal"


def test_a_boolean_that_is_no_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match="SAVE_ABNORMAL_WEIGHTS must be true or false"):
        read(config(tmp_path, {}, SAVE_ABNORMAL_WEIGHTS="maybe"))


def test_mindspeed_mm_is_looked_for_in_the_old_workspace(tmp_path: Path) -> None:
    assert read(config(tmp_path, {}, PTA_PATH="/w")).mindspeed_mm_path == "/w/MindSpeed-MM"
    both = read(config(tmp_path, {}, PTA_PATH="/w", MINDSPEED_MM_PATH="/x"))
    assert both.mindspeed_mm_path == "/x"


def test_other_nodes_get_their_values_and_host_loses_its_user(tmp_path: Path) -> None:
    block = {"ENABLED": "yes", "MASTER_ADDR": "10.0.0.1", "OTHER_NODES": [NODE]}
    nodes = read(config(tmp_path, {"MODEL_NAME": "qwenvl", "MULTI_NODE": block})).multi_node
    assert nodes is not None
    assert nodes.enabled
    assert nodes.master_port == 29505
    assert nodes.other_nodes == (
        NodeConfig(
            host="10.0.0.2",
            user="root",
            ssh_port=2222,
            lmsv_path="/r/lmsv",
            pta_name="p",
            msa_name="m",
            pta_path="/r/ws",
            msa_path="/r/ws",
            mindspeed_mm_path="/r/ws/MindSpeed-MM",
        ),
    )


def test_keys_beyond_task6_are_read_for_all_nodes_and_for_one(tmp_path: Path) -> None:
    node = {**NODE, "SSH_KEY": "/k", "SSH_HOST_KEYS": "strict", "PATH_MAP": [["/d", "/e"]],
            "GLOO_SOCKET_IFNAME": "ib0"}  # fmt: skip
    block = {"ENABLED": True, "OTHER_NODES": [node], "SSH_HOST_KEYS": "accept-new", "NNODES": 2,
             "PATH_MAP": {"/a": "/b"}, "SSH_KNOWN_HOSTS": "/kh", "SSH_CONFIG": "/c"}  # fmt: skip
    path = tmp_path / "nodes.yaml"
    path.write_text(json.dumps({"MULTI_NODE": block}), encoding="utf-8")
    found = read(path)
    assert found.warnings == ()
    nodes = found.multi_node
    assert nodes is not None
    assert (nodes.ssh_host_keys, nodes.path_map, nodes.nnodes) == (
        "accept-new", (("/a", "/b"),), 2,
    )  # fmt: skip
    assert (nodes.ssh_known_hosts, nodes.ssh_config) == ("/kh", "/c")
    (one,) = nodes.other_nodes
    assert (one.ssh_key, one.ssh_host_keys, one.path_map) == ("/k", "strict", (("/d", "/e"),))
    assert one.gloo_socket_ifname == "ib0"


def test_multi_node_of_the_task_wins_over_the_root_with_a_note(tmp_path: Path) -> None:
    task = {"MODEL_NAME": "qwenvl", "MULTI_NODE": {"ENABLED": True, "OTHER_NODES": [NODE]}}
    found = read(config(tmp_path, task, MULTI_NODE={"ENABLED": False}))
    assert found.multi_node is not None
    assert found.multi_node.enabled
    assert "MULTI_NODE of tasks.6 is used" in found.warnings[0]
    alone = read(config(tmp_path, {"MODEL_NAME": "qwenvl"}, MULTI_NODE=task["MULTI_NODE"]))
    assert alone.multi_node == found.multi_node
    assert alone.warnings == ()


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"ENABLED": True}, "ENABLED without OTHER_NODES"),
        ({"ENABLED": "perhaps"}, "ENABLED must be true or false"),
        ({"ENABLED": True, "OTHER_NODES": [3]}, r"OTHER_NODES\[0\] must be an object"),
        (
            {"ENABLED": True, "OTHER_NODES": [NODE, {"HOST": "b"}]},
            r"OTHER_NODES\[1\] has no LMSV_PATH",
        ),
        (
            {"ENABLED": True, "MASTER_PORT": 80, "OTHER_NODES": [NODE]},
            "MASTER_PORT must be a whole number from 1024 to 65535, found 80",
        ),
        (
            {"ENABLED": True, "OTHER_NODES": [{**NODE, "SSH_PORT": "ssh"}]},
            "SSH_PORT must be a whole number from 1 to 65535, found 'ssh'",
        ),
        (
            {"ENABLED": True, "SSH_HOST_KEYS": "no", "OTHER_NODES": [NODE]},
            r"SSH_HOST_KEYS must be strict or accept-new",
        ),
        (
            {"ENABLED": True, "OTHER_NODES": [{**NODE, "PATH_MAP": {"a": "/b"}}]},
            r"PATH_MAP must be pairs of absolute paths",
        ),
        (
            {"ENABLED": True, "PATH_MAP": "x", "OTHER_NODES": [NODE]},
            r"PATH_MAP must be pairs of absolute paths",
        ),
        (
            {"ENABLED": True, "OTHER_NODES": [{**NODE, "HOST": "-oProxyCommand=x"}]},
            r"HOST of OTHER_NODES\[0\] is no host",
        ),
    ],
)
def test_a_wrong_multi_node_block_is_refused(
    tmp_path: Path, block: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputProblem, match=told):
        read(config(tmp_path, {"MULTI_NODE": block}))


def test_a_disabled_block_is_not_looked_into(tmp_path: Path) -> None:
    found = read(config(tmp_path, {"MULTI_NODE": {"ENABLED": 0, "OTHER_NODES": [{"HOST": ""}]}}))
    assert found.multi_node is not None
    assert not found.multi_node.enabled


def test_unknown_keys_warn_with_the_nearest_known_name(tmp_path: Path) -> None:
    task = {"MODEL_NAME": "qwenvl", "TOTAL_ITERS": 3, "total_iter": 3, "COLOUR": 1}
    warnings = read(config(tmp_path, task, DATASETROOT="/d")).warnings
    assert "unknown key 'DATASETROOT' is ignored; did you mean DATASET_ROOT?" in warnings[0]
    assert "unknown key 'TOTAL_ITERS' is ignored; did you mean TOTAL_ITER?" in warnings[1]
    assert "did you mean TOTAL_ITER?" in warnings[2]
    assert warnings[3].endswith("unknown key 'COLOUR' is ignored")


def test_keys_without_meaning_say_so(tmp_path: Path) -> None:
    node = {**NODE, "HAS_CONTAINER": True}
    task = {
        "MODEL_NAME": "qwenvl",
        "SHARED_WEIGHT_TMP_ROOT": "/tmp/x",
        "MULTI_NODE": {"ENABLED": True, "OTHER_NODES": [node]},
    }
    warnings = read(config(tmp_path, task, CLUSTER={}, MF_NAME="mf")).warnings
    assert len(warnings) == 2
    assert "SHARED_WEIGHT_TMP_ROOT has no meaning any more" in warnings[0]
    assert "HAS_CONTAINER has no meaning any more" in warnings[1]


def test_two_names_of_one_field_that_differ_are_told(tmp_path: Path) -> None:
    found = read(config(tmp_path, {"MODEL_NAME": "qwenvl", "TRAIN_ITER": 2, "SAVE_STEPS": 9}))
    assert found.steps == 2
    assert "TRAIN_ITER = 2 is used" in found.warnings[0]


def test_a_missing_model_is_task6s_default(tmp_path: Path) -> None:
    found = read(config(tmp_path, {"TOTAL_ITER": 2}))
    assert found.model == "internvl3"
    assert "MODEL_NAME is not given" in found.warnings[0]
    assert read(write(tmp_path, '{"DATASET_ROOT": "/d"}')).model is None


def test_another_task_type_warns(tmp_path: Path) -> None:
    found = read(write(tmp_path, '{"task_type": "1", "tasks": {"6": {"MODEL_NAME": "qwenvl"}}}'))
    assert "task_type is 1; only task 6 is run here" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "config.json:1: not valid JSON: the file is empty"),
        ("[]", "config.json:1: expected an object of settings"),
        ('{"other": 1}', "config.json:1: holds no setting of Task6"),
        ('{"tasks": []}', "config.json:1: tasks must be an object"),
        ('{"tasks": {"6": 3}}', "tasks.6 must be an object"),
        ('{\n"task_type": 6\n"tasks": {}}', "config.json:3: not valid JSON: expected ',' or '}'"),
        ('{\n"task_type": six}', "config.json:2: not valid JSON: expected a value, found 'six}'"),
        ('{\n\n"task_type: 6}', "config.json:3: not valid JSON: a text is not closed"),
        ("{'task_type': 6}", "config.json:1: not valid JSON: expected a key"),
        ('{"task_type": NaN}', "not valid JSON: expected a value"),
        ('{"task_type": 6}\n}', "config.json:2: not valid JSON: text after the end"),
        ('{"tasks": {\n"6": {}', "config.json:1: not valid JSON: no } for this bracket"),
        ('{"a": [1, 2', "no ] for this bracket"),
        ('/* {"task_type": 6}', "a comment is not closed"),
        ('{"a": "C:\\windows"}', "a text is not closed or has a wrong escape"),
        ("[" * 5000, "nested deeper"),
    ],
)
def test_broken_json_names_the_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputProblem) as caught:
        read(write(tmp_path, text))
    assert told in str(caught.value)
    assert ";" in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match="no such file; name an existing one"):
        read(tmp_path / "none.json")
    with pytest.raises(InputProblem, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"task_type": 6, "PTA_NAME": "\xe9"}')
    with pytest.raises(InputProblem, match="not UTF-8 text"):
        read(tmp_path / "latin.json")
    with pytest.raises(InputProblem, match=r"b\.yml:\d+: not valid YAML"):
        read(write(tmp_path, "tasks: [1\n", "b.yml"))


def test_a_windows_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + SINGLE.replace("\n", "\r\n").encode())
    assert read(path).iters == 10


def test_only_files_of_this_kind_are_taken(tmp_path: Path) -> None:
    assert is_task6(write(tmp_path, SINGLE))
    assert not is_task6(write(tmp_path, '{"compilerOptions": {}}', "tsconfig.json"))
    assert not is_task6(write(tmp_path, "{broken", "other.json"))
    assert not is_task6(tmp_path / "none.json")
    with pytest.raises(InputProblem):
        is_task6(write(tmp_path, '{"task_type": 6,,}', "broken.json"))
