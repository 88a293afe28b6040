"""Task6's configuration file -> one frozen value, and its settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_lmsv.problems import InputProblem
from pytest_lmsv.task6_config import values
from pytest_lmsv.task6_config.fields import FIELDS, ROOT_KEYS, Field
from pytest_lmsv.task6_config.nodes import MultiNode, read_multi_node, unknown_keys
from pytest_lmsv.task6_config.text import ParsedFile, Place, parse_file

_TASK: Place = ("tasks", "6")


@dataclass(frozen=True, slots=True)
class Task6Config:
    """What a configuration file says. A field that the file does not give is None.

    Paths are as written, ``~`` expanded. ``pta_path`` and ``msa_path`` are the workspaces that hold
    Megatron-LM, MindSpeed and, for MSA, the adapter (WORKSPACE_ROOT of a run).
    """

    path: Path
    task_type: int | None
    model: str | None = None
    iters: int | None = None
    mutations: int | None = None
    steps: int | None = None
    compare: str | None = None
    seed: int | None = None
    pta_timeout: float | None = None
    msa_timeout: float | None = None
    output: str | None = None
    pta_env: str | None = None
    msa_env: str | None = None
    mindspeed_mm_path: str | None = None
    dataset_root: str | None = None
    load_path: str | None = None
    pta_path: str | None = None
    msa_path: str | None = None
    save_weights: str | None = None
    """``abnormal`` or ``never`` where SAVE_ABNORMAL_WEIGHTS is given."""
    multi_node: MultiNode | None = None
    warnings: tuple[str, ...] = ()

    places: Mapping[str, str] = field(default_factory=dict)
    """Setting name -> file, line and name of the field that gave it, for messages."""

    def settings(self) -> Mapping[str, Any]:
        """Setting name (a field of ``Settings``) -> value, for all that the file gives."""
        every = {item.setting: getattr(self, item.setting) for item in FIELDS}
        return {name: value for name, value in every.items() if value is not None}


def is_task6(path: Path) -> bool:
    """True where *path* is a configuration of this kind: it holds ``tasks`` or ``task_type``.

    Raises InputProblem where the file cannot be parsed but speaks of them: a broken file of ours
    must not be passed over in silence.
    """
    if not path.is_file():
        return False
    try:
        value = parse_file(path).value
    except InputProblem:
        raw = path.read_bytes()
        if b"task_type" in raw or b'"tasks"' in raw:
            raise
        return False
    return isinstance(value, dict) and bool({"tasks", "task_type"} & value.keys())


def read(path: Path) -> Task6Config:
    """The configuration that *path* holds.

    Raises InputProblem (file, line, what was found, remedy) for what cannot be parsed or meant;
    what is only odd becomes a warning. ``lmsv do`` and ``--lmsv-config`` read through this.
    """
    file = parse_file(path)
    root = file.value
    if not isinstance(root, dict):
        raise file.problem((), f"expected an object of settings, found {root!r:.60}", "write { }")
    warnings = [f"{path}: {key} is given twice; the last one is used" for key in file.repeated]
    task = _task(file, root)
    known_root = (*ROOT_KEYS, *_names("root"), *_names("task"))
    known_task = ("MULTI_NODE", *_names("task"), *_names("root"))
    if not set(root) & set(known_root):
        raise file.problem(
            (),
            "holds no setting of Task6",
            "write one with `lmsv conf`",
        )
    warnings += unknown_keys(file, (), root, known_root)
    warnings += unknown_keys(file, _TASK, task, known_task)
    task_type = _task_type(file, root, warnings)
    given: dict[str, Any] = {}
    places: dict[str, str] = {}
    for item in FIELDS:
        found = _find(file, root, task, item, warnings)
        if found is not None:
            place, given[item.setting] = found
            places[item.setting] = f"{path}:{file.lines.get(place, 1)}: {place[-1]}"
    if "model" not in given and task:
        given["model"] = "internvl3"
        warnings.append(f"{path}: MODEL_NAME is not given; internvl3 is taken, as Task6 does")
    if "mindspeed_mm_path" not in given and "pta_path" in given:
        given["mindspeed_mm_path"] = str(Path(given["pta_path"]) / "MindSpeed-MM")
        places["mindspeed_mm_path"] = places["pta_path"]
    multi_node = _multi_node(file, root, task, warnings)
    return Task6Config(
        path=path,
        task_type=task_type,
        multi_node=multi_node,
        warnings=tuple(warnings),
        places=places,
        **given,
    )


def _names(home: str) -> tuple[str, ...]:
    return tuple(name for item in FIELDS if item.home == home for name in item.names)


def _task(file: ParsedFile, root: dict[str, Any]) -> dict[str, Any]:
    tasks = root.get("tasks")
    if tasks is None:
        return {}
    if not isinstance(tasks, dict):
        raise file.problem(("tasks",), f"tasks must be an object, found {tasks!r:.60}", "write { }")
    task = tasks.get("6")
    if task is None:
        return {}
    if not isinstance(task, dict):
        raise file.problem(_TASK, f"tasks.6 must be an object, found {task!r:.60}", "write { }")
    return task


def _task_type(file: ParsedFile, root: dict[str, Any], warnings: list[str]) -> int | None:
    if root.get("task_type") is None:
        return None
    try:
        task_type: int = values.whole(1)(root["task_type"])
    except ValueError as expected:
        raise file.problem(
            ("task_type",), f"task_type must be {expected}, found {root['task_type']!r}", "write 6"
        ) from None
    if task_type != 6:
        warnings.append(
            f"{file.path}:{file.lines.get(('task_type',), 1)}: task_type is {task_type}; "
            "only task 6 is run here, tasks.6 is read"
        )
    return task_type


def _find(
    file: ParsedFile, root: dict[str, Any], task: dict[str, Any], item: Field, warnings: list[str]
) -> tuple[Place, Any] | None:
    """Place and meaning of *item*: its home before the other place, its name before aliases."""
    places = [((), root), (_TASK, task)]
    if item.home == "task":
        places.reverse()
    found: list[tuple[Place, Any]] = []
    for place, block in places:
        for name in item.names:
            value = block.get(name)
            if value is None or value == "":
                continue
            try:
                found.append(((*place, name), item.understand(value)))
            except ValueError as expected:
                raise file.problem(
                    (*place, name),
                    f"{name} must be {expected}, found {value!r}",
                    "correct the value",
                ) from None
    for place, value in found[1:]:
        if value != found[0][1]:
            warnings.append(
                f"{file.path}: {'.'.join(map(str, found[0][0]))} = {found[0][1]} is used; "
                f"{'.'.join(map(str, place))} = {value} is ignored"
            )
    return found[0] if found else None


def _multi_node(
    file: ParsedFile, root: dict[str, Any], task: dict[str, Any], warnings: list[str]
) -> MultiNode | None:
    at_root, in_task = root.get("MULTI_NODE"), task.get("MULTI_NODE")
    if in_task is not None:
        if at_root is not None and at_root != in_task:
            warnings.append(
                f"{file.path}: MULTI_NODE of tasks.6 is used; the one at the root, which Task6 "
                "let win, is ignored"
            )
        return read_multi_node(file, (*_TASK, "MULTI_NODE"), in_task, warnings)
    if at_root is not None:
        return read_multi_node(file, ("MULTI_NODE",), at_root, warnings)
    return None
