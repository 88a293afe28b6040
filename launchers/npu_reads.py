"""Notes which keys of its configuration MindSpeed-MM really reads, by JSON Pointer.

MindSpeed-MM keeps each object of its documents in a ConfigReader and never says what it reads. Here
the reader's attribute access is watched until the first step is done. A part that is turned into a
dictionary as a whole (``to_dict``) counts as read, since its values go on as keyword arguments;
but not where it is only copied into Megatron's configuration, whose reads are followed instead, or
where paths are only checked.
"""

from __future__ import annotations

import sys
from typing import Any

COPIERS = {"get_model_config", "args_external_path_checker", "get_ConfigReader_value"}
_paths: dict[int, str] = {}
_kept: list[Any] = []  # an id names an object only while the object lives
_read: dict[str, Any] = {}
_classes: list[Any] = []


def watch(module: Any) -> None:
    """Patch ``mindspeed_mm.configs.config``: give each object its path, and note what is read."""
    reader, whole = module.ConfigReader, module.MMConfig
    make = whole.__init__

    def init(self: Any, files: dict[str, str]) -> None:
        make(self, files)
        for name in ("model", "data"):
            if name in vars(self):
                place(vars(self)[name], f"/{name}", reader)

    def read(self: Any, name: str) -> Any:
        value = object.__getattribute__(self, name)
        path = _paths.get(id(self))
        own = path is not None and not name.startswith("__") and name in vars(self)
        if own and not isinstance(value, reader):
            note(f"{path}/{name}", value)
        return value

    copy = reader.to_dict

    inside = False

    def to_dict(self: Any) -> Any:
        nonlocal inside
        if inside:  # a part of an object that is being turned into a dictionary
            return copy(self)
        path = _paths.get(id(self))
        if path is not None and sys._getframe(1).f_code.co_name not in COPIERS:
            everything(self, path, reader)
        inside = True
        try:
            return copy(self)
        finally:
            inside = False

    whole.__init__ = init
    reader.to_dict = to_dict
    reader.__getattribute__ = read
    _classes.append(reader)


def follow(module: Any) -> None:
    """Patch ``transformer_model_config``: what is made of an object keeps the object's path."""
    make = module.get_model_config

    def get_model_config(config: Any) -> Any:
        made = make(config)
        path = _paths.get(id(config))
        if path is not None:
            _paths[id(made)] = path
            _kept.append(made)
        return made

    module.get_model_config = get_model_config


def place(value: Any, path: str, reader: type) -> None:
    """Give *value* and the objects below it their paths."""
    _paths[id(value)] = path
    _kept.append(value)
    for name, item in vars(value).items():
        if isinstance(item, reader):
            place(item, f"{path}/{name}", reader)


def everything(value: Any, path: str, reader: type) -> None:
    """Note every value below *value*."""
    for name, item in vars(value).items():
        if isinstance(item, reader):
            everything(item, f"{path}/{name}", reader)
        else:
            note(f"{path}/{name}", item)


def note(path: str, value: Any) -> None:
    """Keep the first value that was read at *path*, where JSON can hold it."""
    if path not in _read and plain(value):
        _read[path] = value


def plain(value: Any) -> bool:
    """Return whether *value* is JSON: MindSpeed-MM makes types and functions of some texts."""
    if isinstance(value, list | tuple):
        return all(plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def stop() -> None:
    """End the watch: from the second step on, attribute access costs what it always did."""
    while _classes:
        del _classes.pop().__getattribute__


def values() -> dict[str, Any]:
    """Return what was read, by pointer, and every argument as Megatron's parser left it."""
    return dict(sorted({**arguments(), **_read}.items()))


def arguments() -> dict[str, Any]:
    """Return the parsed arguments under their options' names; none where nothing was parsed."""
    try:
        from megatron.training import get_args

        parsed = vars(get_args())
    except (ImportError, AssertionError, TypeError):
        return {}
    found = {
        f"/args/{name.replace('_', '-')}": item for name, item in parsed.items() if plain(item)
    }
    for name, item in parsed.items():
        # --no-masked-softmax-fusion is kept as masked_softmax_fusion = False.
        if isinstance(item, bool):
            found.setdefault(f"/args/no-{name.replace('_', '-')}", not item)
    return found
