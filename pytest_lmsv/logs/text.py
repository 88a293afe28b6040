"""Bytes to lines: reads a log in blocks and hands out only the lines that can matter.

A log of the stacks may hold gigabytes of which a few hundred lines say something. Blocks are
searched for all needles at once; what lies between two hits is never decoded nor split. The
reader of the lines can ask for the next ones whatever they hold (`Lines.want`), as a traceback or
a wrapped record needs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, Protocol, TypeVar

BLOCK = 1 << 18
LONGEST = 1 << 16
"""A longer line is read in pieces of this size, so that no input can make a line expensive."""

NEEDLES: tuple[bytes, ...] = tuple(
    # Four bytes at least: shorter needles take the search off its fast (SIMD) path.
    needle.encode()
    for needle in (
        # records and figures
        *("iteration", "loss", "allocated", "NPU memory", "step time", "step_time"),
        # errors, and what comes with them
        *("Error", "Exception", "Traceback", "Signal ", "exitcode", "rror code", "imed out"),
        *("imeout", "atal", "illed", "fault", "Bus error", "core dumped", "Aborted"),
        *("terminate called", "atchdog", "from random", "ERROR", "ERR0", "ERR9", "out of memory"),
        *("No space left", "already in use", "not found", "No such file", "Interrupt", "exited"),
        *("shared object", "connect to host", "(publickey", "PID:", "error:", "Stop", "SystemExit"),
        # progress, starts and ends
        *("it/s", "s/it", "nference", "Saved ", "saving ", "using world size"),
        *(
            "torchrun",
            "msrun",
            "Start worker",
            "training is done",
            "Cluster is",
            "Arguments --",
            "==> ",
        ),
    )
)

_COLOUR = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def without_colours(data: bytes) -> bytes:
    """*data* without terminal control sequences (ECMA-48), which may stand inside numbers."""
    return _COLOUR.sub(b"", data) if b"\x1b" in data else data


Search = Callable[[bytes], list[int]]


def searcher(needles: Sequence[bytes]) -> Search:
    """A function that lists, ascending, where any of *needles* begins in a block."""
    try:
        module: Any = import_module("ahocorasick_rs")
    except ImportError:  # no wheel for this platform: the same hits, a hundred times slower
        pattern = re.compile(b"|".join(re.escape(needle) for needle in needles))
        return lambda block: [match.start() for match in pattern.finditer(block)]
    # Leftmost-first: the other kinds of match have no SIMD search.
    automaton = module.BytesAhoCorasick(list(needles), matchkind=module.MatchKind.LeftmostFirst)
    return lambda block: [hit[1] for hit in automaton.find_matches_as_indexes(block)]


class RawLine(NamedTuple):
    """One line without its end. *ended* is false for a last line that has no line end yet.

    It stands *below* line ends after *offset* of the file.
    """

    offset: int
    below: int
    text: str
    ended: bool


class Records(Protocol):
    """Whole step records, read from bytes without a closer look."""

    look: Any
    parts: list[bytes]


R = TypeVar("R", bound=Records)
Quick = Callable[[bytes, int], tuple[R | None, int]]
"""The records in the lines of a block from a place on, and where they end."""
_MOST_PARTS = 1 << 13


class Lines(Generic[R]):
    """The lines of one file in which a needle was found, and those that were asked for.

    Where *quick* reads records, they are handed out instead of the lines.
    """

    def __init__(self, stream: BinaryIO, search: Search, quick: Quick[R] | None = None) -> None:
        self._stream = stream
        self._search = search
        self._quick = quick
        self._wanted = 0

    def want(self, count: int) -> None:
        """Hand out the next *count* lines even where no needle is in them."""
        self._wanted = max(self._wanted, count)

    def __iter__(self) -> Iterator[RawLine | R]:
        pending: R | None = None
        for found in self._found():
            if isinstance(found, RawLine):
                if pending is not None:
                    yield pending
                    pending = None
                yield found
            elif pending is None:
                pending = found
            elif pending.look is found.look and len(pending.parts) < _MOST_PARTS:
                pending.parts += found.parts
            else:
                yield pending
                pending = found
        if pending is not None:
            yield pending

    def _found(self) -> Iterator[RawLine | R]:
        carry = b""
        offset = 0
        first = True
        while True:
            data = self._stream.read(BLOCK)
            if first and data.startswith(b"\xef\xbb\xbf"):
                data, offset = data[3:], 3
            first = False
            block = carry + data if carry else data
            if not data:
                if block:
                    yield from self._lines(block, offset, ended=False)
                return
            # A "\r" at the very end may be half of "\r\n": it stays for the next block.
            end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
            if not end and len(block) > LONGEST:
                end = len(block)
            carry = block[end:]
            if end:
                yield from self._lines(block[:end], offset, ended=True)
            offset += end

    def _lines(self, block: bytes, offset: int, *, ended: bool) -> Iterator[RawLine | R]:
        coloured = b"\x1b" in block
        if coloured:
            block = without_colours(block)
        counted = below = 0
        returns = b"\r" in block
        size = len(block)
        position = 0
        quick = self._quick
        if quick and not self._wanted:  # nothing but records: no need to search
            records, position = quick(block, 0)
            if records is not None:
                yield records
        hits = self._search(block) if position < size else []
        index = 0
        while position < size:
            asked = self._wanted > 0
            if asked:
                self._wanted -= 1
                hit = position
            else:
                index = bisect_left(hits, position, index)
                if index == len(hits):
                    return
                hit = hits[index]
            start = block.rfind(b"\n", position, hit) + 1 or position
            if returns:
                start = max(start, block.rfind(b"\r", start, hit) + 1)
            if quick and not asked:
                records, end = quick(block, start)
                if records is not None:
                    position = end
                    yield records
                    continue
            stop = block.find(b"\n", hit)
            stop = size if stop < 0 else stop
            if returns:
                early = block.find(b"\r", hit, stop)
                stop = stop if early < 0 else early
            if stop - start > LONGEST:
                start = max(start, hit - 2048)
                stop = min(start + LONGEST, stop)
                position = stop
            else:
                position = stop + 1
                if block[stop : stop + 2] == b"\r\n":
                    position += 1
            text = block[start:stop].decode("utf-8", "replace")
            if coloured:  # offsets inside the block are no longer those of the file
                below += block.count(b"\n", counted, start)
                counted = start
                yield RawLine(offset, below, text, ended or stop < size)
            else:
                yield RawLine(offset + start, 0, text, ended or stop < size)


def line_number(path: Path, offset: int, below: int) -> int | None:
    """The number (from 1) of the line *below* line ends after *offset*.

    None where the file can't be read again.

    Counted only for the error that is reported: counting every newline of a large log would cost
    more than the whole search.
    """
    if not path.is_file():
        return None
    number = 1 + below
    with path.open("rb", buffering=0) as stream:
        while offset > 0:
            block = stream.read(min(BLOCK, offset))
            if not block:
                break
            number += block.count(b"\n")
            offset -= len(block)
    return number
