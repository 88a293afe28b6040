"""``lmsv conf``: asks for the settings of Task6's ``config.json`` and writes it.

Present values are the defaults; what the wizard does not know stays in the file as it is.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv import catalog
from pytest_lmsv.files import write_whole
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.task6_config import values
from pytest_lmsv.task6_config.fields import FIELDS, Field
from pytest_lmsv.task6_config.questions import KEEP, Questions
from pytest_lmsv.task6_config.reading import read
from pytest_lmsv.task6_config.text import ParsedFile, parse_file

NOT_ASKED = {"PTA_PATH", "MSA_PATH"}
"""Older names of the workspace: kept where they are, no longer asked for."""
NODE_FIELDS: tuple[tuple[str, str, values.Understand, Any], ...] = (
    ("HOST", "Address", values.text, None),
    ("SSH_PORT", "SSH port", values.whole(1, 65535), 22),
    ("LMSV_PATH", "Folder of this project there", values.text, None),
    ("PTA_NAME", "Conda environment of PTA there", values.text, "mindspeed"),
    ("MSA_NAME", "Conda environment of MSA there", values.text, "msadapter"),
    ("PTA_PATH", "Workspace of PTA there", values.text, None),
    ("MSA_PATH", "Workspace of MSA there", values.text, None),
    ("MINDSPEED_MM_PATH", "MindSpeed-MM there", values.text, None),
)
BLOCK_FIELDS: tuple[tuple[str, str, values.Understand, Any], ...] = (
    ("MASTER_ADDR", "Address of this machine that the others reach", values.text, None),
    ("MASTER_PORT", "Port of the rendezvous", values.whole(1024, 65535), 29505),
    ("GLOO_SOCKET_IFNAME", "Network interface of GLOO", values.text, None),
    ("HCCL_SOCKET_IFNAME", "Network interface of HCCL", values.text, None),
)


def main(argv: Sequence[str], *, every: bool = False) -> int:
    """Ask, then write the file whole. Raises InputProblem; then nothing was written.

    With *every* a pipe must answer each question, else those after its last line keep their values.
    """
    parser = argparse.ArgumentParser(
        prog="lmsv conf",
        description="Ask for the settings and write them. An empty answer keeps the value in "
        "brackets, '-' takes a setting away. Answers may come over a pipe, one a line; "
        "those after its last line keep their values, and without any line nothing is written.",
    )
    parser.add_argument("file", nargs="?", default="config.json", type=Path)
    path: Path = parser.parse_args(argv).file
    old = parse_file(path) if path.exists() else None
    answered = wizard({} if old is None else old.value, Questions(every=every), path)
    write(path, answered, old)
    print(f"wrote {path}; run it with: lmsv do")
    return 0


def wizard(present: Any, questions: Questions, path: Path) -> dict[str, Any]:
    """The configuration after all questions were answered; *present* is left as it is."""
    if not isinstance(present, dict):
        raise InputProblem(f"{path}:1: expected an object of settings; write {{ }}")
    root: dict[str, Any] = copy.deepcopy(present)
    root.setdefault("task_type", 6)
    task = _object(_object(root, "tasks", path), "6", path)
    for item in FIELDS:
        if item.name in NOT_ASKED:
            continue
        block, name = _place(item, root, task)
        understand = _model if item.name == "MODEL_NAME" else item.understand
        if item.name == "SAVE_ABNORMAL_WEIGHTS":
            understand = values.truth
        _put(questions, block, name, item.question, understand, item.default)
    _nodes(questions, root, task, path)
    return root


def write(path: Path, answered: dict[str, Any], old: ParsedFile | None) -> None:
    """Write *answered* to *path* after reading it back; keep what a rewritten file would lose."""
    if path.suffix.lower() in {".yaml", ".yml"}:
        import yaml

        text = yaml.safe_dump(answered, sort_keys=False, allow_unicode=True)
    else:
        text = json.dumps(answered, indent=2, ensure_ascii=False) + "\n"
    trial = path.with_name(f".{path.stem}.trial{path.suffix}")
    try:
        write_whole(trial, text)
        if parse_file(trial).value != answered:
            raise InputProblem(f"lmsv conf: {path} would not read back equal; nothing was written")
        for warning in read(trial).warnings:
            print(f"note: {warning.replace(str(trial), str(path))}")
    except OSError as error:
        raise InputProblem(
            f"lmsv conf: {path}: cannot be written ({error.strerror}); choose another folder"
        ) from None
    except InputProblem as problem:
        raise InputProblem(str(problem).replace(str(trial), str(path))) from None
    finally:
        trial.unlink(missing_ok=True)
    if old is not None and old.comments:
        kept = path.with_name(path.name + ".bak")
        write_whole(kept, path.read_text(encoding="utf-8-sig"))
        print(f"comments are not kept; the old file is {kept}")
    write_whole(path, text)


def _object(parent: dict[str, Any], key: str, path: Path) -> dict[str, Any]:
    found = parent.setdefault(key, {})
    if not isinstance(found, dict):
        raise InputProblem(f"{path}: {key} must be an object, found {found!r:.60}; write {{ }}")
    return found


def _place(item: Field, root: dict[str, Any], task: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Where *item* stands now, under which of its names; its home where it stands nowhere."""
    blocks = [root, task] if item.home == "root" else [task, root]
    for block in blocks:
        for name in item.names:
            if block.get(name) not in (None, ""):
                return block, name
    return blocks[0], item.name


def _put(
    questions: Questions,
    block: dict[str, Any],
    name: str,
    question: str,
    understand: values.Understand,
    default: Any,
) -> None:
    present = block.get(name)
    if present == "":
        present = None
    answer = questions.ask(name, question, default if present is None else present, understand)
    if answer is None:
        block.pop(name, None)
    elif answer is not KEEP:
        block[name] = answer
    elif present is None and default is not None:
        block[name] = default


def _model(answer: str) -> str:
    """Names of known models; InputProblem with the nearest one."""
    names = values.model(answer)
    if names == "all":
        return names
    known = catalog.load(catalog.default_folders())
    return ",".join(catalog.find(known, name).name for name in names.split(","))


def _nodes(questions: Questions, root: dict[str, Any], task: dict[str, Any], path: Path) -> None:
    owner = root if "MULTI_NODE" in root and "MULTI_NODE" not in task else task
    block = owner.get("MULTI_NODE") or {}
    if not isinstance(block, dict):
        raise InputProblem(
            f"{path}: MULTI_NODE must be an object, found {block!r:.60}; write {{ }}"
        )
    try:
        enabled = values.truth(block.get("ENABLED", False))
    except ValueError:
        enabled = False
    if not questions.yes("MULTI_NODE", "Run over several machines", enabled):
        if enabled:
            block["ENABLED"] = False
        return
    if not enabled:
        block["ENABLED"] = True
    owner["MULTI_NODE"] = block
    for name, question, understand, default in BLOCK_FIELDS:
        _put(questions, block, name, question, understand, default)
    nodes = block.setdefault("OTHER_NODES", [])
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise InputProblem(f"{path}: OTHER_NODES must be a list of objects; write [ {{ }} ]")
    count = questions.ask(
        "OTHER_NODES", "How many other machines", max(1, len(nodes)), values.whole(1)
    )
    wanted = max(1, len(nodes)) if count is KEEP or count is None else int(count)
    del nodes[wanted:]
    nodes += [{} for _ in range(wanted - len(nodes))]
    for position, node in enumerate(nodes, start=1):
        for name, question, understand, default in NODE_FIELDS:
            _put(questions, node, name, f"Machine {position}: {question}", understand, default)
