"""Writes a small set of videos with captions, in MindSpeed-MM's layout: moving shapes.

``python dataset.py FOLDER`` writes ``FOLDER/data.jsonl`` (one ``{"file", "captions", "fps"}`` a
line, files relative to the folder) and ``FOLDER/videos/*.npz``, each with an array ``video`` of
uint8 [frames, height, width, 3]. All in all less than 1 MB.
Needs the standard library and NumPy only.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

LISTING = "data.jsonl"
VIDEOS, FRAMES, HEIGHT, WIDTH, FPS = 12, 40, 64, 96, 16
COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 80, 230), "white": (240,) * 3}
SHAPES = ("circle", "square", "cross")
WAYS = {"right": (0, 2), "left": (0, -2), "down": (1, 0), "up": (-1, 0)}
GROUNDS = {"dark": 30, "grey": 110}


def drawn(shape: str, rows: np.ndarray, columns: np.ndarray, size: int) -> np.ndarray:
    """Return where *shape* of *size* around the origin covers the given places."""
    if shape == "circle":
        return rows**2 + columns**2 <= size**2
    across, along = np.abs(rows), np.abs(columns)
    if shape == "square":
        return np.maximum(across, along) <= size
    return (np.minimum(across, along) <= size // 3) & (np.maximum(across, along) <= size)


def video(index: int) -> tuple[np.ndarray, str]:
    """Return the frames and the caption of video *index*."""
    colour, shape = list(COLOURS)[index % 4], SHAPES[index % 3]
    way = list(WAYS)[(index // 2) % 4]
    ground = list(GROUNDS)[index % 2]
    size = 8 + 3 * (index % 5)
    frames = np.empty((FRAMES, HEIGHT, WIDTH, 3), np.uint8)
    shade = np.linspace(0, 40, WIDTH, dtype=np.float64)[None, :, None] + GROUNDS[ground]
    for number in range(FRAMES):
        down, right = WAYS[way]
        top = (HEIGHT // 2 + 7 * index + number * down) % HEIGHT
        left = (WIDTH // 2 + 11 * index + number * right) % WIDTH
        rows = (np.arange(HEIGHT)[:, None] - top + HEIGHT // 2) % HEIGHT - HEIGHT // 2
        columns = (np.arange(WIDTH)[None, :] - left + WIDTH // 2) % WIDTH - WIDTH // 2
        frames[number] = np.broadcast_to(shade, (HEIGHT, WIDTH, 3)).astype(np.uint8)
        frames[number][drawn(shape, rows, columns, size)] = COLOURS[colour]
    return frames, f"a {colour} {shape} moves {way} over a {ground} background"


def write(folder: Path) -> None:
    """Write the whole set into the new folder *folder*."""
    (folder / "videos").mkdir(parents=True)
    lines = []
    for index in range(VIDEOS):
        frames, caption = video(index)
        name = f"videos/{index:03d}.npz"
        np.savez_compressed(folder / name, video=frames)
        lines.append(json.dumps({"file": name, "captions": caption, "fps": FPS}))
    (folder / LISTING).write_text("\n".join(lines) + "\n", encoding="utf-8")


def ensure(folder: Path, write: Callable[[Path], None] = write) -> Path:
    """Write a set at *folder* by *write* unless it is there; whole or not at all, by one writer."""
    if (folder / LISTING).exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / LISTING).exists():
            return folder
        if folder.exists():
            raise FileExistsError(f"{folder} holds no {LISTING}, but other files: move it away")
        aside = folder.parent / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(aside, ignore_errors=True)
        write(aside)
        aside.rename(folder)
    return folder


if __name__ == "__main__":
    print(ensure(Path(sys.argv[1])))
