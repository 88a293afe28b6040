"""Text of a configuration file -> values and the line of each of them.

JSON as people write it: ``//`` and ``/* */`` comments and trailing commas are accepted (the
example that Task6 shipped has a comment in it), all else is RFC 8259. YAML may hold the same keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_lmsv.problems import InputProblem

Place = tuple[str | int, ...]
"""The keys and list positions that lead to a value, from the root."""

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What a configuration file holds, and where each value stands (lines count from 1)."""

    path: Path
    value: Any
    lines: Mapping[Place, int]
    comments: bool = False
    """True where the text holds comments, which a rewritten file would lose."""
    repeated: tuple[str, ...] = field(default=())
    """Keys given twice in one object, as ``"line 7: TOTAL_ITER"``; the last value counts."""

    def problem(self, place: Place, wrong: str, remedy: str) -> InputProblem:
        """An InputProblem that names file and line of *place* (or of what encloses it)."""
        while place and place not in self.lines:
            place = place[:-1]
        line = self.lines.get(place, 1)
        return InputProblem(f"{self.path}:{line}: {wrong}; {remedy}")


def parse_file(path: Path) -> ParsedFile:
    """Reads *path* as YAML where its name says so (.yaml, .yml), else as tolerant JSON.

    Raises InputProblem with file, line and remedy.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputProblem(
            f"{path}: no such file; name an existing one, or write it with `lmsv conf`"
        ) from None
    except UnicodeDecodeError as error:
        raise InputProblem(
            f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8"
        ) from None
    except OSError as error:
        raise InputProblem(
            f"{path}: cannot be read ({error.strerror}); check path and permissions"
        ) from None
    if path.suffix.lower() in {".yaml", ".yml"}:
        return _parse_yaml(path, text)
    return parse_json(path, text)


def parse_json(path: Path, text: str) -> ParsedFile:
    """Reads *text* as JSON with comments and trailing commas; *path* only names it in messages."""
    reader = _Json(path, text)
    value = reader.document()
    return ParsedFile(path, value, reader.lines, reader.comments, tuple(reader.repeated))


class _Json:
    """A reader that knows the line of every value."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text, self.at = path, text, 0
        self.lines: dict[Place, int] = {}
        self.repeated: list[str] = []
        self.comments = False

    def line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def wrong(self, what: str, remedy: str, position: int | None = None) -> InputProblem:
        line = self.line(self.at if position is None else position)
        return InputProblem(f"{self.path}:{line}: not valid JSON: {what}; {remedy}")

    def found(self) -> str:
        if self.at >= len(self.text):
            return "the file ends here"
        return f"found {self.text[self.at : self.at + 20].splitlines()[0]!r}"

    def skip(self) -> str:
        """Moves to the next token and returns its first character, "" at the end."""
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.comments = self.comments or "/" in match.group()
        self.at = match.end()
        if self.text.startswith("/*", self.at):
            raise self.wrong("a comment is not closed", "end it with */")
        return self.text[self.at : self.at + 1]

    def document(self) -> Any:
        if not self.skip():
            raise self.wrong("the file is empty", "write an object { ... }")
        value = self.value(())
        if self.skip():
            raise self.wrong(f"text after the end, {self.found()}", "remove it")
        return value

    def value(self, place: Place) -> Any:
        if len(place) > _DEEPEST:
            raise self.wrong(f"nested deeper than {_DEEPEST}", "flatten it")
        first = self.skip()
        self.lines[place] = self.line(self.at)
        if first == "{":
            return self.object(place)
        if first == "[":
            return self.array(place)
        if first == '"':
            return self.string()
        match = _SCALAR.match(self.text, self.at)
        if match is None:
            raise self.wrong(f"expected a value, {self.found()}", 'put text in "double quotes"')
        self.at = match.end()
        return json.loads(match.group())

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        try:
            value = json.loads(match.group()) if match else None
        except json.JSONDecodeError:
            value = None
        if match is None or not isinstance(value, str):
            raise self.wrong(
                f"a text is not closed or has a wrong escape, {self.found()}",
                'close it with " on the same line and write a backslash as \\\\',
            )
        self.at = match.end()
        return value

    def object(self, place: Place) -> dict[str, Any]:
        opened, members = self.at, dict[str, Any]()
        self.at += 1
        while self.skip() != "}":
            if self.text[self.at : self.at + 1] != '"':
                if self.at >= len(self.text):
                    raise self.wrong("an object is not closed", "add the missing }", opened)
                raise self.wrong(f"expected a key, {self.found()}", 'write keys as "NAME"')
            position = self.at
            key = self.string()
            if self.skip() != ":":
                raise self.wrong(f"no ':' after key {key!r}, {self.found()}", "add the colon")
            self.at += 1
            if key in members:
                self.repeated.append(f"line {self.line(position)}: {key}")
            member = (*place, key)
            members[key] = self.value(member)
            self.lines[member] = self.line(position)
            self.separator("}", opened)
        self.at += 1
        return members

    def array(self, place: Place) -> list[Any]:
        opened, items = self.at, list[Any]()
        self.at += 1
        while self.skip() != "]":
            items.append(self.value((*place, len(items))))
            self.separator("]", opened)
        self.at += 1
        return items

    def separator(self, closing: str, opened: int) -> None:
        following = self.skip()
        if following == ",":
            self.at += 1
        elif not following:
            raise self.wrong(f"no {closing} for this bracket", f"add the missing {closing}", opened)
        elif following != closing:
            raise self.wrong(
                f"expected ',' or '{closing}', {self.found()}", "add a comma before this line"
            )


def _parse_yaml(path: Path, text: str) -> ParsedFile:
    import yaml  # heavy, and needed only where a configuration is YAML

    try:
        value = yaml.safe_load(text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputProblem(
            f"{path}:{line}: not valid YAML: {error.problem}; correct the line"
        ) from None
    except yaml.YAMLError as error:
        raise InputProblem(f"{path}:1: not valid YAML: {error}; correct the file") from None
    lines: dict[Place, int] = {}

    def walk(node: Any, place: Place, line: int) -> None:
        if place in lines or len(place) > _DEEPEST:
            return
        lines[place] = line
        if isinstance(node, yaml.MappingNode):
            for key, child in node.value:
                walk(child, (*place, str(key.value)), key.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for position, child in enumerate(node.value):
                walk(child, (*place, position), child.start_mark.line + 1)

    if tree is not None:
        walk(tree, (), tree.start_mark.line + 1)
    return ParsedFile(path, _text_keys(value), lines, comments="#" in text)


def _text_keys(value: Any) -> Any:
    """*value* with every key as text: YAML reads ``6:`` as a number."""
    if isinstance(value, dict):
        return {str(key): _text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_text_keys(item) for item in value]
    return value
