"""Reads pictures with questions and answers from a set in MindSpeed-MM's layout, for training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpu import dataset, picture_set, pictures, tokenizer
from cpu.configuration import Configuration
from cpu.randomness import permutation
from cpu.samples import SAMPLERS, root

SYSTEM = "you are a helpful assistant"
PLACEHOLDER = "<image>"
UNLABELLED = -100


@dataclass(frozen=True)
class Sample:
    """One conversation: its tiles, its ids, and which of them are to be learned."""

    tiles: list[np.ndarray]
    ids: list[int]
    labels: list[int]


class Conversations:
    """The pictures and conversations of one set, as InternVL sees them."""

    def __init__(self, configuration: Configuration, seed: int, tokens: int, image: int) -> None:
        """*tokens*: image tokens of one tile; *image*: the id that stands for one."""

        def read(key, *default):
            return configuration.read(f"/data/{key}", *default)

        self.listing, self.folder = located(configuration)
        self.entries = entries(self.listing)
        self.repeat = int(read("dataset_param/basic_parameters/repeat_time", 1))
        self.dynamic = bool(read("dataset_param/dynamic_image_size"))
        self.thumbnail = bool(read("dataset_param/use_thumbnail"))
        self.least = int(read("dataset_param/min_dynamic_patch"))
        self.most = int(read("dataset_param/max_dynamic_patch"))
        self.size = int(read("dataset_param/image_size"))
        self.ending = bool(read("dataset_param/tokenizer_config/add_eos_token", False))
        self.sampler = str(read("dataloader_param/sampler_type"))
        self.shuffle = bool(read("dataloader_param/shuffle", False))
        self.longest = int(configuration.read("/args/seq-length"))
        self.steps = self._pipeline(configuration)
        self.seed, self.tokens, self.image = seed, tokens, image
        if self.sampler not in SAMPLERS:
            raise NotImplementedError(f"sampler_type {self.sampler!r} is none of {SAMPLERS}")
        if self.least > self.most:
            raise ValueError(f"min_dynamic_patch {self.least} > max_dynamic_patch {self.most}")

    @staticmethod
    def _pipeline(configuration: Configuration) -> dict[str, dict[str, Any]]:
        """Return the parameters of each transformation; the order is always MindSpeed-MM's."""
        place = "/data/dataset_param/preprocess_parameters/train_pipeline/image"
        found = {}
        for index, step in enumerate(configuration.read(place)):
            kind = configuration.read(f"{place}/{index}/trans_type")
            if kind not in {"Pad2Square", "Resize", "ToTensor", "norm_fun"}:
                raise NotImplementedError(f"{place}/{index}: {kind} is not known on cpu")
            names = step.get("param", {})
            found[kind] = {n: configuration.read(f"{place}/{index}/param/{n}") for n in names}
        return found

    def index(self, position: int) -> int:
        """Return which entry is at *position* of the endless stream of samples."""
        count = len(self.entries) * self.repeat
        epoch, place = divmod(position, count)
        if self.shuffle:
            place = int(permutation(count, self.sampler, self.seed, epoch)[place])
        return place % len(self.entries)

    def pixels(self, path: Path) -> list[np.ndarray]:
        """Return the tiles of the picture at *path*, float32 [3, size, size] each."""
        picture = pictures.array(path)
        if self.dynamic:
            cut = pictures.tiles(picture, self.size, self.least, self.most, self.thumbnail)
        else:
            cut = [picture]
        resize, colours = self.steps["Resize"], self.steps["norm_fun"]
        done = []
        for tile in cut:
            if "Pad2Square" in self.steps:
                tile = pictures.squared(tile, self.steps["Pad2Square"]["mean"])
            tile = pictures.resized(tile, *resize["size"], resize["interpolation"])
            done.append(pictures.normalized(tile, colours["mean"], colours["std"]))
        return done

    def sample(self, position: int) -> Sample:
        """Return the sample at *position*: the template is InternVL 2.5's, answers are learned."""
        entry = self.entries[self.index(position)]
        tiles = self.pixels(self.folder / entry["image"])
        ids = tokenizer.turn("system", tokenizer.encoded(SYSTEM))
        labels = [UNLABELLED] * len(ids)
        for said in entry["conversations"]:
            asked = said["from"] == "human"
            parts = said["value"].split(PLACEHOLDER)
            content = tokenizer.encoded(parts[0])
            for part in parts[1:]:
                places = [self.image] * (self.tokens * len(tiles))
                content += [tokenizer.IMAGE_START, *places, tokenizer.IMAGE_END]
                content += tokenizer.encoded(part)
            turn = tokenizer.turn("user" if asked else "assistant", content)
            head = len(turn) if asked else 1 + len(tokenizer.encoded("assistant\n"))
            ids += turn
            labels += [UNLABELLED] * head + turn[head:]
        if self.ending:
            ids, labels = [*ids, tokenizer.END], [*labels, tokenizer.END]
        if ids[self.longest :].count(self.image):
            raise ValueError(
                f"{len(tiles)} tiles of {self.tokens} tokens do not fit into seq-length "
                f"{self.longest}: lower max_dynamic_patch"
            )
        return Sample(tiles, ids[: self.longest], labels[: self.longest])


def located(configuration: Configuration) -> tuple[Path, Path]:
    """Return the listing and the folder that data.json names; the project's own is written."""
    base = "/data/dataset_param/basic_parameters"
    listing = str(configuration.read(f"{base}/data_path"))
    start = root(listing)
    folder = start / configuration.read(f"{base}/data_folder")
    if start / listing == folder / dataset.LISTING and not Path(listing).is_absolute():
        dataset.ensure(folder, picture_set.write)
    return start / listing, folder


def entries(listing: Path) -> list[dict[str, Any]]:
    """Return the entries of *listing*: a JSON list, or one object a line."""
    text = listing.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        found = json.loads(text)
    else:
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not found:
        raise ValueError(f"{listing} names no pictures")
    return found
