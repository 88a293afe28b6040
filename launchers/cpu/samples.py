"""Reads videos and captions from a set in MindSpeed-MM's jsonl layout, in the sampler's order."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from cpu import dataset
from cpu.configuration import Configuration
from cpu.randomness import permutation

SAMPLERS = ("SequentialSampler", "BaseRandomBatchSampler")


def root(listing: str) -> Path:
    """Return the folder that relative paths of ``data.json`` start from.

    ``DATASET_ROOT`` where it has the *listing*, else the run's own folder: a run writes nowhere
    else (DESIGN 6.3).
    """
    named = os.environ.get("DATASET_ROOT")
    if named and (Path(named) / listing).exists():
        return Path(named)
    return Path(os.environ.get("LMSV_RUN_DIR", ".")) / "dataset"


def array(path: Path) -> np.ndarray:
    """Return the video at *path*, uint8 [frames, height, width, 3]."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            video = file[file.files[0]]
    elif path.suffix == ".npy":
        video = np.load(path, mmap_mode="r")
    else:
        raise ValueError(f"{path}: on cpu a video is a .npy or .npz array; convert it")
    if video.dtype != np.uint8 or video.ndim != 4 or video.shape[-1] != 3:
        raise ValueError(
            f"{path}: found {video.dtype} {video.shape}, expected uint8 [frames, height, width, 3]"
        )
    return video


def frame_numbers(available: int, fps: float, train_fps: float, skip: int, count: int):
    """Return *count* frame numbers, train_fps apart, without *skip* frames at either end.

    A video that is too short for that lends its frames evenly spread.
    """
    first, last = skip, available - 1 - skip
    if first > last:
        raise ValueError(f"skip_frame_num {skip} leaves nothing of {available} frames")
    numbers = first + np.arange(count) * fps / train_fps
    if numbers[-1] > last:
        numbers = np.linspace(first, last, count)
    return np.floor(numbers).astype(int)


def resized(video: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return *video* scaled to cover height x width (nearest), its centre cut out."""
    scale = max(height / video.shape[1], width / video.shape[2])
    for axis, wanted in ((1, height), (2, width)):
        whole = round(video.shape[axis] * scale)
        places = np.arange(wanted) + (whole - wanted) // 2
        taken = np.minimum(np.floor((places + 0.5) / scale), video.shape[axis] - 1).astype(int)
        video = np.take(video, taken, axis=axis)
    return video


class Samples:
    """The videos and captions of one set."""

    def __init__(self, configuration: Configuration, seed: int) -> None:
        def read(key, *default):
            return configuration.read(f"/data/{key}", *default)

        base, clip = "dataset_param/basic_parameters", "dataset_param/preprocess_parameters"
        listing = str(read(f"{base}/data_path"))
        start = root(listing)
        self.folder = start / read(f"{base}/data_folder")
        self.listing = start / listing
        if self.listing == self.folder / dataset.LISTING and not Path(listing).is_absolute():
            dataset.ensure(self.folder)
        self.entries = self._entries(self.listing)
        self.train_fps = float(read(f"{clip}/train_fps"))
        self.skip = int(read(f"{clip}/skip_frame_num"))
        self.frames = int(read(f"{clip}/num_frames"))
        self.height = int(read(f"{clip}/max_height"))
        self.width = int(read(f"{clip}/max_width"))
        self.sampler = str(read("dataloader_param/sampler_type"))
        self.shuffle = bool(read("dataloader_param/shuffle", False))
        self.seed = seed
        if self.sampler not in SAMPLERS:
            raise NotImplementedError(f"sampler_type {self.sampler!r} is none of {SAMPLERS}")

    @staticmethod
    def _entries(listing: Path) -> list[dict[str, Any]]:
        lines = listing.read_text(encoding="utf-8").splitlines()
        entries = [json.loads(line) for line in lines if line.strip()]
        if not entries:
            raise ValueError(f"{listing} names no videos")
        return entries

    def index(self, position: int) -> int:
        """Return which entry is at *position* of the endless stream of samples."""
        epoch, place = divmod(position, len(self.entries))
        if self.sampler == "BaseRandomBatchSampler":
            return int(permutation(len(self.entries), self.sampler, self.seed, epoch)[place])
        if self.shuffle:
            return int(permutation(len(self.entries), self.seed, epoch)[place])
        return place

    def sample(self, position: int) -> tuple[np.ndarray, str]:
        """Return a clip, uint8 [frames, height, width, 3], and its caption."""
        entry = self.entries[self.index(position)]
        video = array(self.folder / entry["file"])
        fps = float(entry.get("fps", self.train_fps))
        numbers = frame_numbers(len(video), fps, self.train_fps, self.skip, self.frames)
        clip = resized(np.asarray(video[numbers]), self.height, self.width)
        return clip, str(entry["captions"])
