"""Writes a video as an animated GIF (GIF89a), in the 216 colours of a cube of 6 x 6 x 6."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LEVELS = 6
BITS = 8
CLEAR, END, LAST_CODE = 1 << BITS, (1 << BITS) + 1, 4095


def write(path: Path, video: np.ndarray, fps: float) -> None:
    """Write *video*, [frames, height, width, 3] from -1 to 1, to *path*; it plays for ever."""
    _, height, width, _ = video.shape
    levels = np.clip(np.rint((video + 1.0) / 2.0 * (LEVELS - 1)), 0, LEVELS - 1).astype(np.int64)
    indices = (levels[..., 0] * LEVELS + levels[..., 1]) * LEVELS + levels[..., 2]
    delay = max(2, round(100.0 / fps))  # hundredths of a second; viewers take less for a mistake
    screen = struct.pack("<HHBBB", width, height, 0x80 | (BITS - 1), 0, 0)
    parts = [b"GIF89a", screen, palette(), b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"]
    for frame in indices:
        parts.append(struct.pack("<BBBBHBB", 0x21, 0xF9, 4, 0, delay, 0, 0))
        parts.append(struct.pack("<BHHHHB", 0x2C, 0, 0, width, height, 0))
        parts.append(bytes([BITS]) + blocks(packed(codes(frame.reshape(-1).tolist()))))
    path.write_bytes(b"".join([*parts, b"\x3b"]))


def palette() -> bytes:
    """Return the table of 256 colours; those after the cube are black."""
    shades = [round(255 * level / (LEVELS - 1)) for level in range(LEVELS)]
    cube = [bytes((red, green, blue)) for red in shades for green in shades for blue in shades]
    return b"".join(cube).ljust(3 * 256, b"\0")


def codes(indices: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the LZW codes of *indices* with their widths in bits."""
    table: dict[tuple[int, int], int] = {}
    following, width = END + 1, BITS + 1
    yield CLEAR, width
    prefix = indices[0]
    for index in indices[1:]:
        known = table.get((prefix, index))
        if known is not None:
            prefix = known
            continue
        yield prefix, width
        if following > LAST_CODE:
            yield CLEAR, width
            table, following, width = {}, END + 1, BITS + 1
        else:
            table[prefix, index] = following
            if following == 1 << width:  # the reader's table is one entry behind
                width += 1
            following += 1
        prefix = index
    yield prefix, width
    yield END, width


def packed(pairs: Iterator[tuple[int, int]]) -> bytes:
    """Return codes as bytes, lowest bits first."""
    out, held, bits = bytearray(), 0, 0
    for code, width in pairs:
        held |= code << bits
        bits += width
        while bits >= 8:
            out.append(held & 255)
            held >>= 8
            bits -= 8
    if bits:
        out.append(held)
    return bytes(out)


def blocks(data: bytes) -> bytes:
    """Return *data* in blocks of at most 255 bytes, each with its length before it."""
    parts = [data[start : start + 255] for start in range(0, len(data), 255)]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"
