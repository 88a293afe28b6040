"""Finds what may be an error in the lines of one log, as they come.

Which of the candidates is the root of the failure, and which are none at all, is decided in
`pytest_lmsv.logs.roots` when the whole log is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_lmsv.logs.answers import answers, exits, promises
from pytest_lmsv.logs.candidate import Candidate
from pytest_lmsv.logs.escapes import unescaped
from pytest_lmsv.logs.exceptions import RAISED, is_class, is_named
from pytest_lmsv.logs.launchers import BANNER_LINES, IN_BANNER, INDENT, Launcher
from pytest_lmsv.logs.prefixes import Stripped, strip
from pytest_lmsv.logs.text import RawLine

TRACEBACK = "Traceback (most recent call last)"
_CHAINED = (
    "During handling of the above exception",
    "The above exception was the direct cause of",
)
_CONTEXT = 40
_LONGEST = 16384
_RETRY_WITHIN = 8
_MOST = 200
_LINE = 4096

_ANY_CODE = re.compile(r"E[A-Z0-9]\d{4}\)?:\s")
_CODE = re.compile(
    r"(?:(?P<name>[A-Z][A-Za-z]{0,30}(?:_[A-Za-z0-9]{1,30}){1,6})\((?P<a>E[A-Z0-9]\d{4})\)"
    r"|(?:^|(?<=\s))(?P<b>E[A-Z0-9]\d{4})):\s"
)
_PID = re.compile(r"\[PID: ?\d{1,9}\] {0,2}[\d:.\- ]{0,40}")
HINTS = (
    *("imed out", "atchdog", "terminate called", "fault", "Bus error", "Aborted", "illed"),
    *("not found", "No such file", "error:", "shared object", "from random", "Cluster is"),
    *("connect to host", "(publickey"),
)
"""Parts of the fatal messages in patterns.yaml, and of what takes one back."""


@dataclass(slots=True)
class _Stream:
    """What is open in the lines of one rank."""

    block: int | None = None
    """Lines seen since a traceback began."""
    began: RawLine | None = None
    level: str = ""
    ignored: int = 0
    """Order of the last `Exception ignored in` line."""
    last: Candidate | None = None
    last_order: int = 0
    since: int = 0
    chained: bool = False
    retry: str | None = None
    retry_end: int = -1
    """Where the line after the one that promises a retry begins, at most."""
    exited: bool = False
    head: re.Pattern[str] | None = None
    frames: list[str] = field(default_factory=list)


class Collector:
    """Candidates of one log, in order."""

    def __init__(self, hints: Sequence[str] = ()) -> None:
        self._hints = (*HINTS, *hints)
        self.candidates: list[Candidate] = []
        self.suspects: list[Candidate] = []
        """Lines that may be a fatal message; what they are, the patterns decide."""
        self.launcher = Launcher()
        self._streams: dict[int | None, _Stream] = {}

    def feed(self, raw: RawLine, stripped: Stripped, order: int, rank: int | None) -> int:
        """Take one line; how many of the next lines are wanted whatever they hold."""
        stream = self._streams.get(stripped.rank)
        if stream is None:
            if len(self._streams) > 10000:
                self._streams.clear()
            stream = self._streams[stripped.rank] = _Stream()
        if len(stripped.text) > _LONGEST and TRACEBACK not in stripped.text:
            stripped = stripped._replace(text=stripped.text[:_LONGEST])
        text = stripped.text
        if stream.head is not None and (head := stream.head.match(text)):
            stripped = stripped._replace(text=text[head.end() :])
            text = stripped.text
        if TRACEBACK in text:
            return self._traceback(raw, stripped, order, rank, stream)
        if stream.block is not None:
            wanted = self._in_block(raw, stripped, order, rank, stream)
            if wanted is not None:
                return wanted
        stream.since += 1
        answered = False
        if stream.last is not None and stream.since <= _CONTEXT:
            answered = self._after(stripped, stream)
        if (ended := self.launcher.banner_line(raw, text, order)) is not None:
            self._keep(ended)
        if text.startswith("Exception ignored in"):
            stream.ignored = order
            return 3
        if text.startswith(_CHAINED):
            stream.chained = stream.last is not None and stream.since <= 4
            return 4
        if stripped.level in {"debug", "info"}:
            if "ChildFailedError" not in text:
                return 0
            self.launcher.begin_banner(order)
            return BANNER_LINES
        if text.startswith("Exception raised from "):
            line = text.strip()[:_LINE]
            self._keep(
                Candidate("echo", "Exception", line, line, raw, order, rank,
                          benign="a C++ stack alone is no error", key=stripped.rank)
            )  # fmt: skip
            return 0
        if not answered and promises(text):
            stream.retry = text.strip()[:300]
            stream.retry_end = raw.offset + len(raw.text.encode("utf-8", "replace")) + 2
        return self._single(raw, stripped, order, rank, stream)

    # -- tracebacks -----------------------------------------------------------------------------

    def _traceback(
        self, raw: RawLine, stripped: Stripped, order: int, rank: int | None, stream: _Stream
    ) -> int:
        text = stripped.text
        at = text.index(TRACEBACK)
        if "\\n" in text[at:]:  # a whole traceback inside a string: JSON, or Python's repr
            for line in unescaped(text, at):
                self.feed(raw, strip(line) if TRACEBACK not in line else
                          Stripped(line, None, stripped.level, ""), order, rank)  # fmt: skip
            return 10
        if "Exception ignored in" in text[:at]:
            stream.ignored = order
        stream.block, stream.began, stream.level, stream.frames = 0, raw, stripped.level, []
        if at:  # a prefix of no known kind: the next lines have it too, with other numbers
            shape = re.sub(r"\d+", r"\\d{1,200}", re.escape(text[max(0, at - 200) : at]))
            shape = INDENT if IN_BANNER.match(text[:at]) else shape
            stream.head = re.compile(shape) if at <= 200 else None
        return 60

    def _in_block(
        self, raw: RawLine, stripped: Stripped, order: int, rank: int | None, stream: _Stream
    ) -> int | None:
        """The wanted lines, or None where the line does not belong to the traceback."""
        text = stripped.text
        assert stream.block is not None
        stream.block += 1
        if not text.strip() or text[0] in " \t" or text.startswith("[Previous line repeated"):
            if text.strip():
                stream.frames = [*stream.frames[-5:], text.strip()[:500]]
            if stream.block > 3000:  # no traceback is so long: it was cut
                stream.block = None
                return 0
            return 60
        match = RAISED.match(text) if len(text) < 60000 else None
        if match and (is_named(match) or is_class(match, stream.block)):
            began = stream.began
            assert began is not None
            return self._raised(match, raw, stripped, order, rank, stream, began)
        if stream.block > 200:
            stream.block = None
        return None

    def _raised(
        self,
        match: re.Match[str],
        raw: RawLine,
        stripped: Stripped,
        order: int,
        rank: int | None,
        stream: _Stream,
        began: RawLine | None,
    ) -> int:
        """An exception: of the traceback that *began*, or on a line of its own."""
        bare = began is None
        if stream.head and stream.head.pattern == INDENT:
            stream.head, rank = None, self.launcher.rank
        line = match.string[:_LINE].strip()
        stream.block = None
        last = stream.last
        if bare and last is not None and stream.since <= 2 and line in (last.line, *last.chain):
            return _CONTEXT  # a line that a tee doubled
        if stream.chained and stream.last is not None:
            stream.last.chain.append(line[:2000])
            stream.chained = False
            stream.since = 0
            return _CONTEXT
        candidate = Candidate(
            kind="exception",
            type=match["type"],
            message=(match["message"] or "")[:_LINE].strip(),
            line=line,
            raw=raw,
            order=order,
            rank=rank,
            level=stripped.level or ("" if bare else stream.level),
            key=stripped.rank,
            frames=() if bare else tuple(stream.frames),
        )
        if stream.ignored and order - stream.ignored <= 200 and not bare:
            candidate.benign = "Exception ignored in"
            stream.ignored = 0
        elif candidate.level in {"warning", "info", "debug"}:
            candidate.benign = f"logged as {candidate.level}"
        elif began is not None and began.offset <= stream.retry_end:
            candidate.retry = stream.retry
        self._add(candidate, stream)
        if candidate.type != "ChildFailedError":
            return _CONTEXT
        self.launcher.begin_banner(order)
        return BANNER_LINES

    def _after(self, stripped: Stripped, stream: _Stream) -> bool:
        """A line printed soon after a candidate: its context, or (true) what says it is none."""
        last, text = stream.last, stripped.text
        assert last is not None
        if exits(text):
            stream.exited = True
        if (
            stream.since <= _RETRY_WITHIN
            and not stream.exited
            and answers(text, stripped.level)
            # MindSpore's own reconnecting is no answer to a Python exception beside it
            and ("(" not in stripped.prefix or last.kind != "exception")
        ):
            last.retry = text.strip()[:300]
            return True
        if len(last.around) < _CONTEXT and text.strip():
            last.around.append(text[:1000])
        return False

    # -- lines that stand alone -----------------------------------------------------------------

    def _single(
        self, raw: RawLine, stripped: Stripped, order: int, rank: int | None, stream: _Stream
    ) -> int:
        text = stripped.text
        match = RAISED.match(text) if len(text) < 60000 else None
        if match and is_named(match) and match["message"] is not None:
            return self._raised(match, raw, stripped, order, rank, stream, None)
        if (
            _ANY_CODE.search(text)
            and (code := _CODE.search(text))
            and (code.start() == 0 or code["name"] or "PID:" in text)
        ):
            line = _PID.sub("", text.strip(), count=1) if text.lstrip().startswith("[PID") else text
            self._add(
                Candidate(
                    "code", code["name"] or code["b"], text[code.end() :].strip()[:2000],
                    line.strip(), raw, order, rank, stripped.level,
                    benign="logged as warning" if stripped.level == "warning" else None,
                    key=stripped.rank,
                ),
                stream,
            )  # fmt: skip
            return _CONTEXT
        for candidate in self.launcher.line(raw, text, order, rank):
            self._keep(candidate)
        if any(hint in text for hint in self._hints):
            self._suspect(raw, stripped, order, rank)
        return 0

    def _suspect(self, raw: RawLine, stripped: Stripped, order: int, rank: int | None) -> None:
        line = stripped.text.strip()[:4000]
        if len(self.suspects) >= 2 * _MOST:  # the first half and the last half are enough
            del self.suspects[_MOST]
        level, key = stripped.level, stripped.rank
        self.suspects.append(Candidate("message", "", line, line, raw, order, rank, level, key=key))

    def _add(self, candidate: Candidate, stream: _Stream) -> None:
        stream.last = candidate
        stream.since = 0
        stream.exited = False
        self._keep(candidate)

    def _keep(self, candidate: Candidate) -> None:
        if len(self.candidates) >= 2 * _MOST:  # the first half and the last half are enough
            del self.candidates[_MOST]
        self.candidates.append(candidate)

    def finish(self, order: int) -> None:
        """The tracebacks that have no last line (the log was cut there)."""
        for rank, stream in self._streams.items():
            if stream.block is not None and stream.began is not None:
                line = stream.frames[-1] if stream.frames else TRACEBACK
                candidate = Candidate("open", "Traceback", line, line, stream.began, order, rank)
                if stream.ignored:
                    candidate.benign = "Exception ignored in"
                elif stream.level in {"warning", "info", "debug"}:
                    candidate.benign = f"logged as {stream.level}"
                self.candidates.append(candidate)
