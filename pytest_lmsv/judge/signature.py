"""When two findings have the same cause: a signature without what changes from run to run.

Of an error: stack, type, normalised message, Ascend code and, where there is no code, the last
frame of the program (a device error surfaces at the next synchronisation, wherever that is). Of a
verdict: model, dimension and the keys involved.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pytest_lmsv.judge.findings import Finding
from pytest_lmsv.records import IterationRecord, RunError

_READ, _LONGEST = 2000, 300
"""Characters of a message that are looked at, and of its normal form that are kept."""
_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\x1b\[[0-9;]*[A-Za-z]", ""),
        (r"\b[a-z][a-z0-9+.-]*://[^\s'\")\]]+", "<url>"),
        (r"(['\"`])~?/(?:(?!\1).)*\1", "<path>"),
        (r"(?<![\w.])~?(?:/[\w.+@=,-]+){2,}/?(?::\d+)*", "<path>"),
        (r"(?<![\w/])[\w.+@-]+(?:/[\w.+@-]+)+\.\w{1,5}\b(?::\d+)*", "<path>"),
        (r"\b\d{4}-\d\d-\d\d[-T ]\d\d:\d\d:\d\d(?:[.,:]\d+)*(?:Z|[+-]\d\d:?\d\d)?", "#"),
        (r"\b0[xX][0-9a-fA-F]+\b", "#"),
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "#"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "#"),
        (r"\b\d+(?:x\d+)+\b", "<shape>"),
        (r"\b(rank|worker|node|device|npu|cuda|step|pid|tid|thread|process|stream|layer)s?[_-]?\d+",
         r"\1 #"),
        (r"(?<=[A-Za-z])_\d+\b", "_#"),
        (r"(?<![A-Za-z_\d])[+-]?(?:\d[\d.,:_]*\d|\d)(?:[eE][+-]?\d+)?(?!\.?[A-Za-z_\d])", "#"),
        (r"(?<![A-Za-z_\d])[+-]?\d[\d.]*(?=(?:[KMGT]i?B?|bytes?|[mun]?s|h|%)\b)", "#"),
        (r"#\s*(?:[KMGT]i?B|bytes?|MB|ms|s|%)(?![A-Za-z])", "#"),
        (r"[\[(]\s*(?:#|<shape>)(?:\s*[,x* ]\s*(?:#|<shape>))*\s*,?\s*[\])]", "<shape>"),
        (r"\s+", " "),
    )
)  # fmt: skip
_FRAME = re.compile(r'File "([^"]+)", line \d+(?:, in (\S+))?')
_OUTSIDE = re.compile(r"/(?:site-packages|dist-packages)/|/lib/python\d|^<")
_NAMED_CODE = re.compile(r"\b(E[A-Z]\d{4}|E\d{5})\b")
_NUMBER_CODE = re.compile(
    r"(?:error code(?: is|:)?|ErrCode=|retCode[=:]|\bret(?:urn)?)\s*[\[:=]?\s*(\d{6})\b"
)
_DETAIL = re.compile(r"\(?(?:E[A-Z]\d{4}|E\d{5})\)?:?\s*([^\[\n]*)")


@dataclass(frozen=True, slots=True)
class Signature:
    """The name of one cause: ten hexadecimal digits, and the readable parts they were made of."""

    id: str
    parts: tuple[str, ...]


def signature(finding: Finding, record: IterationRecord, systematic: bool = False) -> Signature:
    """Return the signature of *finding*, which *record* was found to have.

    *systematic*: most iterations of the model have this NG, so that the keys say nothing.
    """
    if finding.error is not None:
        run = record.compare_run
        return error_signature(finding.error, run.stack if run else "msa")
    edits = record.mutation.edits if record.mutation and not systematic else ()
    keys: Iterable[str] = (edit.path for edit in edits)
    if finding.verdict is None:
        _, _, named = finding.text.partition(": ")
        keys = (edit.path for edit in edits if edit.path in named.split(", "))
    return verdict_signature(record.model, finding.name, keys)


def error_signature(error: RunError, stack: str) -> Signature:
    """Return the signature of *error*, which ended a run of *stack*."""
    code, detail = _ascend(error)
    told = "" if error.category == "killed" else error.message.strip()
    message = normalised(told.partition("\n")[0])
    frame = "" if code else last_frame(error.chain)
    return _signed("run", stack, error.type.rpartition(".")[2], message, code, detail, frame)


def verdict_signature(model: str, dimension: str, keys: Iterable[str]) -> Signature:
    """Return the signature of a verdict called *dimension* that edits of *keys* made NG."""
    return _signed(dimension, model, *sorted(set(keys)))


def verdict_keys(signature: Signature) -> tuple[str, ...]:
    """Return the keys in *signature*, a verdict's; none where any mutation made it NG."""
    return signature.parts[2:]


def normalised(text: str) -> str:
    """Return *text* without numbers, addresses, paths, pids and shapes."""
    text = text[:_READ]
    for pattern, by in _RULES:
        text = pattern.sub(by, text)
    return text.strip()[:_LONGEST]


def last_frame(lines: Iterable[str]) -> str:
    """Return the innermost frame in *lines* as ``file.py:function``, the program's own if any.

    Frames of installed packages and of Python itself count only where there is no other; the line
    number moves with every edit of the file and is left out.
    """
    frames = [match for line in lines for match in _FRAME.finditer(line)]
    own = [match for match in frames if not _OUTSIDE.search(match[1])]
    if not frames:
        return ""
    last = (own or frames)[-1]
    return f"{PurePosixPath(last[1]).name}:{last[2] or ''}"


def _ascend(error: RunError) -> tuple[str, str]:
    """Return the Ascend code that came with *error*, and what was said of it."""
    texts = (error.line, error.message, *error.chain)
    named = next((m[1] for text in texts for m in _NAMED_CODE.finditer(text)), "")
    number = next((m[1] for text in texts for m in _NUMBER_CODE.finditer(text)), "")
    detail = ""
    if named:
        text = next(text for text in texts if named in text)
        said = _DETAIL.search(text, text.index(named))
        detail = normalised(said[1]) if said else ""
    return " ".join(filter(None, (named, number))), detail


def _signed(*parts: str) -> Signature:
    text = json.dumps(parts, ensure_ascii=False)
    return Signature(hashlib.sha256(text.encode()).hexdigest()[:10], parts)
