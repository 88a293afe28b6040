"""Where the packaged data lies, and how a data file is read: strictly, with file, line and remedy.

A wheel carries ``mm_configs``, ``launchers`` and ``test_models`` under ``pytest_lmsv/_data``; in an
editable install they lie beside the package (DESIGN 6.1).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn

from pytest_lmsv.problems import InputProblem

_PACKAGE = Path(__file__).parent
_TOKEN = re.compile(r'(?P<text>"(?:\\.|[^"\\])*")(?P<colon>\s*:)?|[{}\[\]]', re.DOTALL)
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")


def root() -> Path:
    """The folder that holds ``mm_configs``, ``launchers`` and ``test_models``."""
    packaged = _PACKAGE / "_data"
    return packaged if packaged.is_dir() else _PACKAGE.parent


def mm_configs() -> Path:
    """The packaged model configurations."""
    return root() / "mm_configs"


def launchers() -> Path:
    """The packaged launchers."""
    return root() / "launchers"


def test_models() -> Path:
    """The packaged tests that a user runs and copies."""
    return root() / "test_models"


# pytest collects what is called test_*, also where a test module imports it.
test_models.__test__ = False  # type: ignore[attr-defined]


def read_text(path: Path) -> str:
    """The text of a UTF-8 file (with or without BOM); InputProblem where it can't be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputProblem(f"{path}: can't be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError as error:
        raise InputProblem(
            f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from None


def read_json(path: Path) -> Any:
    """The value of a JSON file; InputProblem for broken JSON, NaN, or a key written twice."""
    text = read_text(path)
    double = _written_twice(text)

    def refuse(constant: str) -> NoReturn:
        line = _line(text, text.find(constant))
        raise InputProblem(f"{path}: line {line}: {constant} is not JSON; write a number or null")

    def finite(number: str) -> float:
        return float(number) if math.isfinite(float(number)) else refuse(number)

    try:
        value = json.loads(text, parse_constant=refuse, parse_float=finite)
    except json.JSONDecodeError as error:
        raise InputProblem(
            f"{path}: line {error.lineno}: broken JSON ({error.msg}, column {error.colno}); "
            "correct this line or the end of the one before"
        ) from None
    except (RecursionError, ValueError) as error:
        # Too deep, or a whole number of thousands of digits.
        text = " ".join(str(error).split())
        raise InputProblem(f"{path}: can't be read as JSON ({text}); write it simpler") from None
    if double:
        key, line = double
        raise InputProblem(f"{path}: line {line}: key {key!r} is written twice; remove one of them")
    return value


def read_yaml(path: Path) -> Any:
    """The value of a YAML file; InputProblem for broken YAML or a key written twice.

    Numbers as in YAML 1.2 (``1e-5`` is a number), booleans only ``true`` and ``false``.
    """
    import yaml

    text = read_text(path)
    try:
        return yaml.load(text, Loader=_loader())  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = " ".join((error.problem or "unreadable").split())
        if "written twice" not in problem:
            problem = f"broken YAML ({problem}); check its indentation, quotes and brackets"
        raise InputProblem(f"{path}: line {line}: {problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise InputProblem(f"{path}: broken YAML ({text}); correct it") from None


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _written_twice(text: str) -> tuple[str, int] | None:
    """The first key that one object of a JSON text holds twice, with its line."""
    open_keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        mark = token["text"] or token.group()
        if mark in "{[":
            open_keys.append(set())
        elif mark in "}]":
            if open_keys:
                open_keys.pop()
        elif open_keys and token["colon"]:
            if mark in open_keys[-1]:
                return mark.strip('"'), _line(text, token.start())
            open_keys[-1].add(mark)
    return None


def _loader() -> Any:
    """PyYAML's SafeLoader with YAML 1.2's numbers and booleans, which refuses a repeated key."""
    import yaml

    base: Any = getattr(
        yaml, "CSafeLoader", yaml.SafeLoader
    )  # C, where it was built: ten times faster

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for name, _ in node.value:
                if not isinstance(name, yaml.ScalarNode):
                    continue
                if name.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {name.value!r} is written twice; remove one of them",
                        problem_mark=name.start_mark,
                    )
                seen.add(name.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return found

    kept = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rsplit(":", 1)[1] not in _OWN]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.yaml_implicit_resolvers = kept
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"]
    )
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"^{_FLOAT.pattern}$"), [*"-+.0123456789"]
    )
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), [*"-+0123456789"]
    )
    return Loader


_OWN = {"bool", "float", "int", "timestamp"}
