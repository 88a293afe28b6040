"""``lmsv conf``, answered over a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.task6_config import read

CODE = "import sys; from pytest_lmsv.task6_config import conf; sys.exit(conf.main(sys.argv[1:]))"
FULL: dict[str, Any] = {
    "task_type": 6,
    "PTA_NAME": "mine",
    "MSA_NAME": "other",
    "MF_NAME": "mindf",
    "DATASET_ROOT": "/data",
    "CLUSTER": {"NODES": [1, 2]},
    "tasks": {
        "1": {"MODEL_NAME": "qwen3"},
        "6": {
            "MODEL_NAME": "qwen2.5vl",
            "TOTAL_ITER": "4",
            "MUTNM": 2,
            "TRAIN_ITERS": 2,
            "COMPARE_MODE": "pta-pta",
            "BASE_SEED": 43,
            "PTA_MAX_RUNTIME": 900,
            "MAX_VALIDATE_TIME": 900,
            "OWN": [None, 1.5, "x"],
        },
    },
}


def conf(folder: Path, answers: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE, *words],
        input=answers,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stored(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def test_empty_answers_leave_a_full_configuration_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FULL), encoding="utf-8")
    ended = conf(tmp_path, "\n")
    assert ended.returncode == 0, ended.stderr
    assert stored(tmp_path) == FULL


def test_answers_change_a_setting_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FULL), encoding="utf-8")
    ended = conf(tmp_path, "cogvideox\n7\n\n3\nmsa_msa\n")
    assert ended.returncode == 0, ended.stderr
    task = {**FULL["tasks"]["6"], "MODEL_NAME": "cogvideox", "TOTAL_ITER": 7}
    task.update(TRAIN_ITERS=3, COMPARE_MODE="msa_msa")
    assert stored(tmp_path) == {**FULL, "tasks": {**FULL["tasks"], "6": task}}


def test_a_new_file_holds_task6s_defaults(tmp_path: Path) -> None:
    ended = conf(tmp_path, "qwenvl\n")
    assert ended.returncode == 0, ended.stderr
    found = read(tmp_path / "config.json")
    assert found.model == "qwenvl"
    assert (found.iters, found.mutations, found.steps, found.seed) == (10, 2, 5, 43)
    assert (found.pta_env, found.msa_env) == ("mindspeed", "msadapter")
    assert found.warnings == ()
    assert "lmsv do" in ended.stdout


def test_several_machines(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FULL), encoding="utf-8")
    fields = 15
    block = ["yes", "10.0.0.1", "", "eth0", "eth0", "2"]
    one = ["10.0.0.2", "2222", "/r/lmsv", "", "", "/r/ws", "/r/ws", "/r/ws/MindSpeed-MM"]
    two = ["10.0.0.3", "", "/r/lmsv", "p", "m", "/r/ws", "/r/ws", ""]
    ended = conf(tmp_path, "\n".join([*[""] * fields, *block, *one, *two]) + "\n")
    assert ended.returncode == 0, ended.stderr
    nodes = read(tmp_path / "config.json").multi_node
    assert nodes is not None
    assert (nodes.master_addr, nodes.master_port, nodes.enabled) == ("10.0.0.1", 29505, True)
    assert [node.host for node in nodes.other_nodes] == ["10.0.0.2", "10.0.0.3"]
    assert [node.ssh_port for node in nodes.other_nodes] == [2222, 22]
    assert nodes.other_nodes[1].pta_name == "p"
    again = stored(tmp_path)
    assert conf(tmp_path, "\n").returncode == 0
    assert stored(tmp_path) == again


def test_turning_several_machines_off_keeps_them(tmp_path: Path) -> None:
    block = {"ENABLED": True, "OTHER_NODES": [{"HOST": "b", "EXTRA": 1}]}
    full = {**FULL, "MULTI_NODE": block}
    (tmp_path / "config.json").write_text(json.dumps(full), encoding="utf-8")
    assert conf(tmp_path, "\n" * 15 + "no\n").returncode == 0
    assert stored(tmp_path)["MULTI_NODE"] == {**block, "ENABLED": False}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ("cogvideo\n", "did you mean 'cogvideox'?"),
        ("\nmany\n", "TOTAL_ITER must be a whole number of at least 1, found 'many'"),
        ("\n\n\n\npta_mf\n", "COMPARE_MODE must be pta_msa, pta_pta or msa_msa"),
    ],
)
def test_a_wrong_answer_over_a_pipe_writes_nothing(tmp_path: Path, answers: str, told: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FULL), encoding="utf-8")
    ended = conf(tmp_path, answers)
    assert ended.returncode != 0
    assert told in ended.stderr
    assert stored(tmp_path) == FULL
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_dash_takes_a_setting_away(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FULL), encoding="utf-8")
    assert conf(tmp_path, "\n" * 12 + "-\n").returncode == 0
    assert "DATASET_ROOT" not in stored(tmp_path)


def test_comments_are_kept_in_a_copy(tmp_path: Path) -> None:
    text = "// by hand\n" + json.dumps(FULL)
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    ended = conf(tmp_path, "\n")
    assert stored(tmp_path) == FULL
    assert (tmp_path / "config.json.bak").read_text(encoding="utf-8") == text
    assert "config.json.bak" in ended.stdout


def test_a_broken_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{broken", encoding="utf-8")
    assert conf(tmp_path, "\n").returncode != 0
    assert (tmp_path / "config.json").read_text(encoding="utf-8") == "{broken"


def test_yaml_stays_yaml(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("tasks:\n  6:\n    MODEL_NAME: qwenvl\n", encoding="utf-8")
    assert conf(tmp_path, "\n9\n", "c.yaml").returncode == 0
    assert read(tmp_path / "c.yaml").iters == 9


def test_on_a_terminal_a_wrong_answer_is_asked_again(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CODE],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.write(master, b"cogvideo\ncogvideox\nmany\n3\n" + b"\n" * 20)
    out, err = process.communicate(timeout=60)
    os.close(master)
    os.close(slave)
    assert process.returncode == 0, err
    assert b"did you mean 'cogvideox'?" in out
    assert b"TOTAL_ITER must be a whole number" in out
    assert read(tmp_path / "config.json").iters == 3


KEYS = st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=5)
PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.dictionaries(KEYS, PLAIN | st.lists(PLAIN, max_size=3), max_size=4))
def test_settings_that_the_wizard_does_not_know_are_kept(unknown: dict[str, Any]) -> None:
    import io

    from pytest_lmsv.task6_config.conf import wizard
    from pytest_lmsv.task6_config.questions import Questions

    full = {**unknown, **FULL, "tasks": {"6": {**unknown, **FULL["tasks"]["6"]}}}
    quiet = Questions(io.StringIO("\n"), io.StringIO())
    assert wizard(full, quiet, Path("config.json")) == full
