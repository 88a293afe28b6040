"""Reads what an inference made: ``samples/`` of an iteration, token ids and text, or videos."""

from __future__ import annotations

import ast
import json
import math
import struct
import sys
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_lmsv.judge.output import Sample, Text, Unreadable, Video

MAGIC = b"\x93NUMPY"
TYPES = {"<f4": "f", "<f8": "d", "|u1": "B"}


def read(folder: Path) -> dict[str, Sample]:
    """Return the samples in *folder* that can be compared, by file name.

    ``.json``: an object with ``token_ids`` and ``text``; ``.npy``: a video's numbers. Others (GIF,
    MP4) are there for people.
    """
    found: dict[str, Sample] = {}
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        if path.suffix not in (".json", ".npy"):
            continue
        try:
            found[path.name] = _text(path) if path.suffix == ".json" else video(path)
        except (OSError, ValueError, KeyError, TypeError, SyntaxError, struct.error) as problem:
            found[path.name] = Unreadable(f"{path}: not a sample ({problem})")
    return found


def _text(path: Path) -> Text:
    content: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    return Text(
        tuple(int(token) for token in content["token_ids"]),
        str(content.get("text", "")),
        tuple(float(value) for value in content.get("logprobs") or ()),
    )


def video(path: Path) -> Video:
    """Read a ``.npy`` file without NumPy, which this environment need not have (NEP 1).

    Raises ValueError for a type or layout that a video is not saved in.
    """
    with path.open("rb") as file:
        if file.read(6) != MAGIC:
            raise ValueError("it is no .npy file")
        long = file.read(2)[0] > 1
        (length,) = struct.unpack("<I" if long else "<H", file.read(4 if long else 2))
        header = ast.literal_eval(file.read(length).decode("latin1"))
        code = TYPES.get(header["descr"])
        if code is None or header["fortran_order"]:
            raise ValueError(f"its numbers are {header['descr']}, expected one of {list(TYPES)}")
        values = array(code)
        values.frombytes(file.read())
    if sys.byteorder == "big":
        values.byteswap()
    shape = tuple(header["shape"])
    if len(values) != math.prod(shape):
        raise ValueError(f"it holds {len(values)} numbers, its shape is {shape}")
    return Video(shape, values)
