"""What a log of MindSpeed-MM says of the configuration that the run read.

Two places tell it: lines of MindSpeed-MM's own check of arguments, ``[INFO] the original value of
num_layers is None, now changed as 28 which comes from model.json``, and Megatron's dump of all
arguments between ``--- arguments ---`` and ``--- end of arguments ---`` (facts: MM 2.2.0
validate_args_patch.py, core_v0.12.1 arguments.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_lmsv.records import Documents, Edit

_CHANGED = re.compile(
    r"\[INFO\] the original value of (?P<name>\w+) is (?P<old>.*?), now changed as (?P<new>.*?) "
    r"which comes from model\.json"
)
_DUMPED = re.compile(r"^(?:\[[^\]]*\]:?)?\s*(?P<name>\w+) \.{2,} (?P<value>.*?)\s*$")
_BEGIN = re.compile(r"-{3,} (?:\w+ )?arguments -{3,}")
_END = re.compile(r"-{3,} end of (?:\w+ )?arguments -{3,}")
_STRUCTURE = ("text_decoder", "predictor")
"""The parts of the model document that MindSpeed-MM's check copies arguments from."""
_NAMES = {
    "num_attention_heads": ("num_attention_heads", "num_heads"),
    "attention_dropout": ("attention_dropout", "dropout"),
}


def echo(lines: Iterable[str], documents: Documents) -> dict[str, Any]:
    """Return pointer -> value of *documents* for all that *lines* show; the last mention counts.

    Only printed values are there: a key that is missing may have been read all the same.
    """
    model = documents.get("model", {})
    arguments = documents.get("args", {})
    found: dict[str, Any] = {}
    inside = False
    for line in lines:
        if _END.search(line):
            inside = False
        elif _BEGIN.search(line):
            inside = True
        changed = _CHANGED.search(line)
        if changed:
            for pointer in _structure(model, changed["name"]):
                found[pointer] = value(changed["new"])
        elif inside:
            dumped = _DUMPED.match(line)
            if dumped:
                found.update(_argument(arguments, dumped["name"], value(dumped["value"])))
    return found


def arrived(edits: Iterable[Edit], shown: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Return the edits whose new value *shown* (an echo) holds; 1 and 1.0 are one value."""
    return tuple(
        edit
        for edit in edits
        if edit.path in shown
        and bool(shown[edit.path] == edit.new)
        and isinstance(shown[edit.path], bool) == isinstance(edit.new, bool)
    )


def value(text: str) -> Any:
    """Return what a printed Python value stands for; *text* itself where it is no literal."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return list(found) if isinstance(found, tuple) else found


def _structure(model: Any, name: str) -> Iterator[str]:
    """Yield the pointers of the model document that the argument *name* is copied from."""
    for part in _STRUCTURE:
        block = model.get(part) if isinstance(model, Mapping) else None
        if isinstance(block, Mapping):
            for key in _NAMES.get(name, (name,)):
                if key in block:
                    yield f"/model/{part}/{key}"


def _argument(arguments: Any, name: str, shown: Any) -> dict[str, Any]:
    """Return the option that the dumped argument *name* belongs to, with its value."""
    option = name.replace("_", "-")
    if option in arguments:
        return {f"/args/{option}": False if shown is None and _flag(arguments[option]) else shown}
    if f"no-{option}" in arguments and isinstance(shown, bool):
        # --no-masked-softmax-fusion is kept as masked_softmax_fusion = False.
        return {f"/args/no-{option}": not shown}
    return {}


def _flag(present: Any) -> bool:
    return isinstance(present, bool)
