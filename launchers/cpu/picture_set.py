"""Writes a small set of pictures with questions and answers, in MindSpeed-MM's layout.

``python picture_set.py FOLDER`` writes ``FOLDER/data.jsonl`` (one ``{"id", "image",
"conversations"}`` a line, images relative to the folder) and ``FOLDER/images/*.png``.
Needs the standard library and NumPy only.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cpu import dataset
from cpu.pictures import png

PICTURES = 12
SIZES = ((64, 96), (96, 64), (40, 40), (48, 112))
QUESTIONS = (
    ("What is the shape in this picture?", "a {colour} {shape}"),
    ("Which colour does the {shape} show?", "the {shape} is {colour}"),
    ("Where is the {colour} {shape}?", "it is at the {side} of the picture"),
    ("Describe this picture.", "a {colour} {shape} on a {ground} background, near the {side}"),
)


def picture(index: int) -> tuple[np.ndarray, dict[str, str]]:
    """Return the pixels of picture *index*, and the words that describe it."""
    height, width = SIZES[index % 4]
    colour = list(dataset.COLOURS)[(index // 2) % 4]
    shape = dataset.SHAPES[index % 3]
    ground = list(dataset.GROUNDS)[index % 2]
    side = ("left", "centre", "right")[(index // 3) % 3]
    top = height // 2 + 3 * (index % 5) - 6
    left = {"left": width // 4, "centre": width // 2, "right": 3 * width // 4}[side]
    shade = np.linspace(0, 40, width)[None, :, None] + np.linspace(0, 25, height)[:, None, None]
    pixels = np.broadcast_to(shade + dataset.GROUNDS[ground], (height, width, 3)).astype(np.uint8)
    rows, columns = np.arange(height)[:, None] - top, np.arange(width)[None, :] - left
    pixels[dataset.drawn(shape, rows, columns, 8 + 2 * (index % 4))] = dataset.COLOURS[colour]
    return pixels, {"colour": colour, "shape": shape, "ground": ground, "side": side}


def write(folder: Path) -> None:
    """Write the whole set into the new folder *folder*."""
    (folder / "images").mkdir(parents=True)
    lines = []
    for index in range(PICTURES):
        pixels, words = picture(index)
        name = f"images/{index:03d}.png"
        (folder / name).write_bytes(png(pixels))
        turns = []
        for number in range(1 + index % 2):
            question, answer = QUESTIONS[(index + number) % len(QUESTIONS)]
            image = "" if number else "<image>\n"
            turns.append({"from": "human", "value": image + question.format(**words)})
            turns.append({"from": "gpt", "value": answer.format(**words)})
        lines.append(json.dumps({"id": index, "image": name, "conversations": turns}))
    (folder / dataset.LISTING).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    print(dataset.ensure(Path(sys.argv[1]), write))
