"""Faults of what a stack is fed: samples, their order, their preparation, and random numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from cpu import conversations, internvl3, pictures, qwen_vision, samples
from cpu.conversations import Conversations
from cpu.diffusion import Diffusion
from cpu.encoders import TextEncoder
from cpu.randomness import Draws
from cpu.samples import Samples
from plants.field import plant

SETS = (Samples, Conversations)


def ordered(index):
    """Return patches of both data sets: ``index(right, self, position)``."""
    rights = [(each, each.index) for each in SETS]
    return [
        (each, "index", lambda self, position, right=right: index(right, self, position))
        for each, right in rights
    ]


@plant("sample-one-late")
def sample_one_late():
    return ordered(lambda right, self, position: right(self, max(position - 1, 0)))


@plant("shuffle-ignored")
def shuffle_ignored():
    return ordered(lambda right, self, position: position % len(self.entries))


@plant("epochs-in-one-order")
def epochs_in_one_order():
    def index(right, self, position):
        return right(self, position % (len(self.entries) * getattr(self, "repeat", 1)))

    return ordered(index)


@plant("sample-read-twice")
def sample_read_twice():
    rights = [(each, each.sample) for each in SETS]

    def twice(self, position, right):
        right(self, position)
        return right(self, position)

    return [
        (each, "sample", lambda self, position, right=right: twice(self, position, right))
        for each, right in rights
    ]


@plant("frames-rounded")
def frames_rounded():
    right = samples.frame_numbers

    def frame_numbers(*given):
        whole, samples.np = (
            samples.np,
            SimpleNamespace(arange=np.arange, linspace=np.linspace, floor=np.rint),
        )
        try:
            return right(*given)
        finally:
            samples.np = whole

    return [(samples, "frame_numbers", frame_numbers)]


@plant("resize-one-pixel-off")
def resize_one_pixel_off():
    right = samples.resized

    def resized(video, height, width):
        made = right(video, height, width)
        return made if made.shape == video.shape else np.roll(made, 1, axis=2)

    return [(samples, "resized", resized)]


@plant("colours-by-default")
def colours_by_default():
    right = pictures.normalized

    def normalized(picture, mean, std):
        return right(picture, mean, (0.229, 0.224, 0.225))

    return [(conversations, "pictures", _with(pictures, normalized=normalized))]


@plant("thumbnail-first")
def thumbnail_first():
    right = pictures.tiles

    def tiles(picture, size, least, most, thumbnail):
        cut = right(picture, size, least, most, thumbnail)
        return [cut[-1], *cut[:-1]] if thumbnail and len(cut) > 1 else cut

    return [(conversations, "pictures", _with(pictures, tiles=tiles))]


def _with(module, **changed):
    """Return a stand-in of *module* with some functions changed, for one of its users."""
    names = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    return SimpleNamespace(**{**names, **changed})


@plant("labels-shifted-twice")
def labels_shifted_twice():
    right = internvl3.InternVL3.learned

    def learned(self, labels):
        moved = np.full_like(labels, conversations.UNLABELLED)
        moved[:, :-1] = labels[:, 1:]
        return right(self, moved)

    return [(internvl3.InternVL3, "learned", learned)]


@plant("sample-loss-as-token-loss")
def sample_loss_as_token_loss():
    right = internvl3.InternVL3.learned

    def learned(self, labels):
        asked, self.by_sample = self.by_sample, False
        found = right(self, labels)
        self.by_sample = asked
        return found

    return [(internvl3.InternVL3, "learned", learned)]


@plant("padding-is-text")
def padding_is_text():
    right = internvl3.tokenizer
    return [(internvl3, "tokenizer", _with(right, PAD=9))]


@plant("noise-of-first-step")
def noise_of_first_step():
    right = Draws.normal

    def normal(self, name, shape):
        kind, seed, _, *rest = self._keys
        return right(SimpleNamespace(_keys=(kind, seed, 1, *rest)), name, shape)

    return [(Draws, "normal", normal)]


@plant("caption-dropping-ignored")
def caption_dropping_ignored():
    right = TextEncoder.__init__

    def init(self, configuration):
        right(self, configuration)
        self.dropped = 0.0

    return [(TextEncoder, "__init__", init)]


@plant("strata-ignored")
def strata_ignored():
    right = Diffusion.time_steps

    def time_steps(self, draws, count, stratum, strata):
        return right(self, draws, count, 0, strata)

    return [(Diffusion, "time_steps", time_steps)]


@plant("least-pixels-ignored")
def least_pixels_ignored():
    return _pixels(lambda least, most: (0, most))


@plant("most-pixels-ignored")
def most_pixels_ignored():
    return _pixels(lambda least, most: (least, 10**9))


def _pixels(limits):
    right = qwen_vision.sizes_for

    def sizes_for(height, width, unit, least, most):
        return right(height, width, unit, *limits(least, most))

    return [(qwen_vision, "sizes_for", sizes_for)]
