"""What launchers and loggers put before a line: rank, level, time; taken off, layer by layer."""

from __future__ import annotations

import re
from typing import NamedTuple

_LEVELS = {
    "D": "debug", "DEBUG": "debug", "TRACE": "debug",
    "I": "info", "INFO": "info", "EVENT": "info",
    "W": "warning", "WARN": "warning", "WARNING": "warning",
    "E": "error", "ERROR": "error",
    "F": "critical", "FATAL": "critical", "CRITICAL": "critical",
}  # fmt: skip
_LEVEL = r"(?P<level>DEBUG|TRACE|INFO|EVENT|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_TIME = r"\d{4}-\d\d-\d\d[-T_ ]\d\d:\d\d:\d\d(?:[.,][\d.]{1,12})?"

# Each begins where the one before ended. All are anchored and bounded: none can backtrack far.
_BRACKETS = (
    r"\[rank[-_ ]?(?P<rank>\d{1,6})\](?:: ?|(?=\[)| )",  # torch
    r"\[[a-z_]{1,20}(?P<rank>\d{1,6})\]: ?",  # torchrun --tee: [default0]:
    r"\[\d{1,4},(?P<rank>\d{1,6})\]<(?:stdout|stderr)>: ?",  # mpirun --tag-output
    r"\[Rank (?P<rank>\d{1,6}) \| Local Rank \d{1,6}\] {0,4}",  # MindSpeed-MM's FSDP engine
    r"\[[a-z][\w.]{0,40}[-_]?\d{1,6}\] {0,2}(?=[^ ])",  # [node-1]
    r"\[(?P<level>[IWEF])\d{3,4} \d\d:\d\d:\d\d(?:\.\d{1,9})? (?: {0,6}\d{1,9} )?"
    r"[\w./+-]{1,200}:\d{1,6}\] ?",  # torch
    r"\[(?P<level>[IWEF]) [\w./+-]{1,200}:\d{1,6}\] ?",  # older torch
    r"\[" + _LEVEL + r"\] ?[A-Z_]{2,30}\([^()]{1,80}\): ?" + _TIME + r"\s?"
    r"(?:\[[^\[\]]{1,200}\] ?)?",  # MindSpore, CANN's plog
    r"\[" + _LEVEL + r"\] " + _TIME + r" (?=\()",  # torch_npu
    r"\[" + _LEVEL + r" {0,3}\] {0,3}",
    r"\[" + _TIME + r"\] ?(?=\S)",
)
_DIGITS = (
    r" {0,4}(?P<rank>\d{1,5}): ",  # srun --label
    r"\d{1,3}(?:\.\d{1,3}){3}: ",  # pdsh
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? "
    r"(?:(?:stdout|stderr) [FP] )?",  # docker logs --timestamps, container runtimes
    _TIME + r" {0,3}(?:- |\| )?(?:[\w.]{1,60} - )?\[?" + _LEVEL + r"\]? ?"
    r"(?:\[[^\[\]]{1,120}\] ?)?(?:=>|-|:|\|)? {0,2}",  # Python's logging, loguru
)
_ROUND = (r"\([\w.]{1,60} pid=\d{1,9}(?:, ip=[\d.]{1,20})?\) ?",)  # Ray
_WORDS = (
    r"(?:[^\s:]{1,200}/)?worker_(?P<rank>\d{1,6})\.log[:-]\d{1,9}[:-]",  # grep -n over workers
    r"(?:[^\s:]{1,200}/)?[\w.]{1,60}\.log[:-]\d{1,9}[:-]",
    r"[A-Za-z][\w.]{2,60}[-_]\d{1,6} {1,30}\| ",  # docker compose; never `E-01 | `
    r"(?:[A-Za-z][\w.]{0,40}[-_]\d{1,6}|[a-z][\w.]{0,40}\d): ",  # pdsh and the like
    r"(?P<level>[IWEF])\d{3,4} \d\d:\d\d:\d\d(?:\.\d{1,9})? (?: {0,6}\d{1,9} )?"
    r"[\w./+-]{1,200}:\d{1,6}\] ?",  # glog
    r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,60} [\w./-]{1,60}(?:\[\d{1,9}\])?: ",  # syslog
    _LEVEL + r":[\w.]{1,120}: ?",  # Python's logging.basicConfig
    r"(?P<level>WARNING|ERROR|INFO|DEBUG): (?=\S)",
)
_LAYERS = {
    kind: tuple(re.compile(layer) for layer in layers)
    for kind, layers in (("[", _BRACKETS), ("1", _DIGITS), ("a", _WORDS), ("(", _ROUND))
}
# What a word must be followed by, to be looked at more closely.
_WORD = re.compile(
    r"[^\s|:]{1,260}(?:: ?|\.log[:-]| {1,30}\|)|[IWEF]\d{3}|[A-Z][a-z]{2} [ \d]\d \d\d:"
)


class Stripped(NamedTuple):
    """A line without its prefixes, and what they said."""

    text: str
    rank: int | None
    level: str
    """``debug``, ``info``, ``warning``, ``error``, ``critical``, or empty."""
    prefix: str


def strip(text: str) -> Stripped:
    """Take off every known prefix."""
    rank: int | None = None
    level = ""
    start = 0
    for _ in range(12):
        match = _layer(text, start)
        if match is None:
            break
        found = match.groupdict()
        if found.get("rank"):  # torch's own, which stands innermost, is the global one
            rank = int(found["rank"])
        level = level or _LEVELS.get(found.get("level") or "", "")
        start = match.end()
    return Stripped(text[start:], rank, level, text[:start])


def _layer(text: str, start: int) -> re.Match[str] | None:
    first = text[start : start + 1]
    if first in {"[", "("}:
        layers = _LAYERS[first]
    elif first.isdigit() or first == " ":
        layers = _LAYERS["1"]
    elif (first.isalpha() or first in "/._~") and _WORD.match(text, start):
        layers = _LAYERS["a"]
    else:
        return None
    for layer in layers:
        match = layer.match(text, start)
        if match:
            return match
    return None
