"""Pictures as arrays: PNG files, scaling as image libraries do it, and InternVL's tiles.

Needs the standard library and NumPy only: the stacks' environments hold no image library, and two
of them would not round alike.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Colour type to channels: grey, RGB, grey with alpha, RGBA (PNG 11.2.2)."""


def png(picture: np.ndarray) -> bytes:
    """Return *picture*, uint8 [height, width, 3], as a PNG file."""
    height, width, _ = picture.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(rows.tobytes(), 9)
    return SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def array(path: Path) -> np.ndarray:
    """Return the picture at *path*, uint8 [height, width, 3]; ValueError says what it can't be."""
    if path.suffix == ".npy":
        picture = np.load(path)
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[-1] != 3:
            raise ValueError(
                f"{path}: found {picture.dtype} {picture.shape}, expected uint8 [height, width, 3]"
            )
        return picture
    content = path.read_bytes()
    if not content.startswith(SIGNATURE):
        raise ValueError(f"{path}: on cpu a picture is a .png file or a .npy array; convert it")
    return decoded(content, path)


def decoded(content: bytes, path: Path) -> np.ndarray:
    """Return the pixels of the PNG file *content*: 8 bits, not interlaced; alpha is dropped."""
    place, packed = len(SIGNATURE), b""
    width = height = channels = 0
    while place < len(content):
        (length,) = struct.unpack_from(">I", content, place)
        kind, body = content[place + 4 : place + 8], content[place + 8 : place + 8 + length]
        place += length + 12
        if kind == b"IHDR":
            width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            if bits != 8 or colour not in CHANNELS or interlaced:
                raise ValueError(
                    f"{path}: {bits} bits, colour type {colour}, interlaced {interlaced}; "
                    "save it as plain 8-bit RGB"
                )
            channels = CHANNELS[colour]
        elif kind == b"IDAT":
            packed += body
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    pixels = unfiltered(rows, channels).reshape(height, width, channels)
    colours = pixels[:, :, :1] if channels < 3 else pixels[:, :, :3]
    return np.ascontiguousarray(np.broadcast_to(colours, (height, width, 3)))


def unfiltered(rows: np.ndarray, channels: int) -> np.ndarray:
    """Undo the filter that each row names in its first byte (PNG 9.2)."""
    above = np.zeros(rows.shape[1] - 1, np.uint8)
    result = []
    for row in rows:
        kind, line = int(row[0]), row[1:].copy()
        if kind == 2:
            line += above
        elif kind:
            for index in range(len(line)):
                left = int(line[index - channels]) if index >= channels else 0
                corner = int(above[index - channels]) if index >= channels else 0
                over = int(above[index])
                guess = (0, left, over, (left + over) // 2, paeth(left, over, corner))[kind]
                line[index] = (int(line[index]) + guess) % 256
        result.append(line)
        above = line
    return np.stack(result)


def paeth(left: int, over: int, corner: int) -> int:
    """Return the neighbour that is nearest to left + over - corner (PNG 9.4)."""
    return min(
        (left, over, corner), key=lambda near: abs(left + over - corner - near)
    )  # the first of equals, as the standard says


def cubic(places: np.ndarray) -> np.ndarray:
    """Return Keys' cubic weights with a = -0.5."""
    x = np.abs(places)
    near = 1.5 * x**3 - 2.5 * x**2 + 1.0
    far = -0.5 * x**3 + 2.5 * x**2 - 4.0 * x + 2.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def triangle(places: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, 1.0 - np.abs(places))


FILTERS = {"BICUBIC": (cubic, 2.0), "BILINEAR": (triangle, 1.0)}


def weights(size: int, wanted: int, interpolation: str) -> np.ndarray:
    """Return [wanted, size]: what each new pixel takes of the old ones; smooth when shrinking."""
    if interpolation not in FILTERS:
        raise ValueError(f"interpolation {interpolation!r} is none of {', '.join(FILTERS)}")
    curve, support = FILTERS[interpolation]
    step = size / wanted
    stretch = max(step, 1.0)
    centres = (np.arange(wanted)[:, None] + 0.5) * step
    distances = (np.arange(size)[None, :] + 0.5 - centres) / stretch
    taken = np.where(np.abs(distances) < support, curve(distances), 0.0)
    return taken / taken.sum(axis=1, keepdims=True)


def resized(picture: np.ndarray, height: int, width: int, interpolation: str = "BICUBIC"):
    """Return *picture* scaled to height x width, rounded to uint8 after each direction."""
    for axis, wanted in ((1, width), (0, height)):
        if picture.shape[axis] == wanted:
            continue
        taken = weights(picture.shape[axis], wanted, interpolation)
        mixed = np.moveaxis(np.tensordot(taken, picture.astype(np.float64), (1, axis)), 0, axis)
        picture = np.clip(np.floor(mixed + 0.5), 0, 255).astype(np.uint8)
    return picture


def closest_grid(height: int, width: int, least: int, most: int, size: int) -> tuple[int, int]:
    """Return columns and rows of tiles whose ratio is the picture's: InternVL's rule.

    Of equally near ratios a larger one wins where the picture fills more than half of it.
    """
    grids = [
        (columns, rows)
        for columns in range(1, most + 1)
        for rows in range(1, most + 1)
        if least <= columns * rows <= most
    ]
    best, nearest = (1, 1), float("inf")
    for columns, rows in sorted(grids, key=lambda grid: (grid[0] * grid[1], grid)):
        distance = abs(width / height - columns / rows)
        enough = width * height > 0.5 * size * size * columns * rows
        if distance < nearest or (distance == nearest and enough):
            best, nearest = (columns, rows), distance
    return best


def tiles(picture: np.ndarray, size: int, least: int, most: int, thumbnail: bool):
    """Return the tiles of *picture*, each size x size; behind several the whole as *thumbnail*."""
    columns, rows = closest_grid(*picture.shape[:2], least, most, size)
    whole = resized(picture, rows * size, columns * size)
    cut = [
        whole[row * size : (row + 1) * size, column * size : (column + 1) * size]
        for row in range(rows)
        for column in range(columns)
    ]
    if thumbnail and len(cut) > 1:
        cut.append(resized(picture, size, size))
    return cut


def squared(picture: np.ndarray, colour) -> np.ndarray:
    """Return *picture* centred in a square of *colour* (0 to 1 for each channel)."""
    height, width, _ = picture.shape
    size = max(height, width)
    filled = np.empty((size, size, 3), np.uint8)
    filled[:] = [int(part * 255) for part in colour]
    top, left = (size - height) // 2, (size - width) // 2
    filled[top : top + height, left : left + width] = picture
    return filled


def normalized(picture: np.ndarray, mean, std) -> np.ndarray:
    """Return float32 [3, height, width] of *picture*, less *mean* and over *std* by channel."""
    scaled = picture.astype(np.float32) / np.float32(255.0)
    scaled = (scaled - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))
