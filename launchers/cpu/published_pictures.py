"""Compares our handling of pictures with Pillow's and with transformers' image processors.

Prints one JSON object: the greatest difference of scaled pixels, how many sizes and grids of tiles
differ, the greatest difference of Qwen2-VL's patches, and whether PNG files are read alike. Runs
where Pillow and transformers are installed.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from PIL import Image
from transformers.models.got_ocr2.image_processing_got_ocr2 import get_optimal_tiled_canvas
from transformers.models.qwen2_vl.image_processing_qwen2_vl import (
    Qwen2VLImageProcessor,
    smart_resize,
)

from cpu import pictures
from cpu.qwen_vision import Picture, sizes_for

CHANNELS = {"RGB": 3, "L": 1, "RGBA": 4, "LA": 2}
numbers = np.random.RandomState(43)


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    return numbers.randint(0, 256, (height, width, channels)).astype(np.uint8)


def scaled() -> int:
    """Return the greatest difference from Pillow, which picks the order of directions itself."""
    worst = 0
    for _ in range(100):
        height, width, rows, columns = map(int, numbers.randint(5, 120, 4))
        pixels = noise(height, width)
        for name in pictures.FILTERS:
            kind = Image.Resampling[name]
            theirs = np.asarray(Image.fromarray(pixels).resize((columns, rows), kind)).astype(int)
            both = (
                pictures.resized(pictures.resized(pixels, *first, name), rows, columns, name)
                for first in ((height, columns), (rows, width))
            )
            worst = max(worst, min(int(np.abs(theirs - ours).max()) for ours in both))
    return worst


def differing() -> dict[str, int]:
    """Return how many of 2000 sizes and grids of tiles are not the published ones."""
    sizes = grids = 0
    for _ in range(2000):
        height, width = map(int, numbers.randint(10, 1500, 2))
        unit, size = int(numbers.choice([14, 16, 28])), int(numbers.choice([32, 64, 448]))
        low, least = int(numbers.randint(100, 50000)), int(numbers.randint(1, 5))
        high, most = low + int(numbers.randint(20000, 900000)), least + int(numbers.randint(0, 10))
        ours = sizes_for(height, width, unit, low, high)
        sizes += smart_resize(height, width, unit, low, high) != ours
        theirs = get_optimal_tiled_canvas((height, width), (size, size), least, most)
        grids += theirs != pictures.closest_grid(height, width, least, most, size)
    return {"sizes": sizes, "grids": grids}


def patches() -> float:
    """Return the greatest difference of the patches that the vision encoder takes."""
    worst = 0.0
    for patch, merge, frames in ((8, 2, 2), (4, 2, 1), (8, 4, 2)):
        pixels = noise(3 * patch * merge, 2 * patch * merge)
        processor = Qwen2VLImageProcessor(
            patch_size=patch, merge_size=merge, temporal_patch_size=frames, do_resize=False
        )
        found = processor(images=Image.fromarray(pixels), return_tensors="np")
        vision = SimpleNamespace(patch=patch, merge=merge, frames=frames)
        ours = Picture(pixels, vision, 1, 10**9)
        assert found["image_grid_thw"].tolist() == [[1, ours.rows, ours.columns]]
        worst = max(worst, float(np.abs(found["pixel_values"] - ours.patches).max()))
    return worst


def read_alike() -> bool:
    """Return whether PNG files come out as Pillow's pixels, and Pillow reads ours."""
    for mode, channels in CHANNELS.items():
        for _ in range(8):
            height, width = map(int, numbers.randint(1, 70, 2))
            pixels = np.cumsum(numbers.randint(0, 9, (height, width, channels)), axis=1)
            pixels = pixels.astype(np.uint8)
            file = io.BytesIO()
            flat = pixels[:, :, 0] if channels == 1 else pixels
            Image.fromarray(flat, mode).save(file, "PNG")
            colours = pixels[:, :, :3] if channels > 2 else np.repeat(pixels[:, :, :1], 3, axis=2)
            if not np.array_equal(pictures.decoded(file.getvalue(), Path(mode)), colours):
                return False
    pixels = noise(33, 21)
    written = Image.open(io.BytesIO(pictures.png(pixels)))
    return bool(np.array_equal(np.asarray(written), pixels))


if __name__ == "__main__":
    found = {"scaled": scaled(), **differing(), "patches": patches(), "read_alike": read_alike()}
    print(json.dumps(found))
