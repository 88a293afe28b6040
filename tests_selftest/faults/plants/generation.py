"""Faults of generation: cache, choice of tokens, guidance, sampling of a video."""

from __future__ import annotations

import torch
from cpu import flow
from cpu.decoder import Decoder
from cpu.flow import RectifiedFlow
from cpu.generation import Rules
from cpu.opensora import OpenSora
from cpu.qwen_vision import Merger
from cpu.stdit3 import Attention as SoraAttention
from cpu.stdit3 import Shape as SoraShape
from cpu.stdit3 import STDiT3
from cpu.video_decoder import VideoDecoder
from plants.field import plant


def hidden_with(change):
    """Return a patch of the decoder: ``change(right, self, tokens, angles, caches)`` if cached."""
    right = Decoder.hidden

    def hidden(self, tokens, angles, caches=None, draws=None):
        if caches is None:
            return right(self, tokens, angles, None, draws)
        return change(right, self, tokens, angles, caches)

    return [(Decoder, "hidden", hidden)]


@plant("cache-position-one-late")
def cache_position_one_late():
    def late(right, self, tokens, angles, caches):
        return right(self, tokens, angles + self.frequencies, caches)

    return hidden_with(late)


@plant("cache-loses-first-token")
def cache_loses_first_token():
    def cut(right, self, tokens, angles, caches):
        return right(
            self, tokens, angles, [(key[:, :, 1:], value[:, :, 1:]) for key, value in caches]
        )

    return hidden_with(cut)


@plant("cache-not-extended")
def cache_not_extended():
    def stale(right, self, tokens, angles, caches):
        return right(self, tokens, angles, caches)[0], caches

    return hidden_with(stale)


@plant("cache-half")
def cache_half():
    def rounded(right, self, tokens, angles, caches):
        from plants.field import cut

        return right(
            self, tokens, angles, [tuple(cut(part, 11) for part in pair) for pair in caches]
        )

    return hidden_with(rounded)


def ruled(change):
    """Return a patch of the rules of choosing that lets *change* alter new ones."""
    right = Rules.__init__

    def init(self, configuration, steps):
        right(self, configuration, steps)
        change(self)

    return [(Rules, "__init__", init)]


@plant("repetition-penalty-ignored")
def repetition_penalty_ignored():
    def change(self):
        self.penalty = 1.0

    return ruled(change)


@plant("repetition-penalty-of-answer-only")
def repetition_penalty_of_answer_only():
    right = Rules.scores

    def scores(self, logits, before, made):
        held = self.penalty
        if not made:
            self.penalty, made = 1.0, len(before)
        found = right(self, logits, before[len(before) - made :], made)
        self.penalty = held
        return found

    return [(Rules, "scores", scores)]


@plant("ngram-one-longer")
def ngram_one_longer():
    def change(self):
        self.ngram += 1 if self.ngram else 0

    return ruled(change)


@plant("merger-one-off")
def merger_one_off():
    right = Merger.forward

    def forward(self, tokens):
        return right(self, torch.cat([tokens[:, 1:], tokens[:, :1]], dim=1))

    return [(Merger, "forward", forward)]


@plant("guidance-ignored")
def guidance_ignored():
    def guided(self, predicted):
        velocity, _ = torch.chunk(predicted, 2, dim=1)
        return torch.chunk(velocity, 2, dim=0)[0]

    return [(RectifiedFlow, "guided", guided)]


@plant("guidance-truncated")
def guidance_truncated():
    right = RectifiedFlow.__init__

    def init(self, configuration, steps):
        right(self, configuration, steps)
        self.guidance = float(int(self.guidance))

    return [(RectifiedFlow, "__init__", init)]


@plant("guidance-halves-exchanged")
def guidance_halves_exchanged():
    right = RectifiedFlow.guided

    def guided(self, predicted):
        first, second = torch.chunk(predicted, 2, dim=0)
        return right(self, torch.cat([second, first], dim=0))

    return [(RectifiedFlow, "guided", guided)]


def sampled(change):
    """Return a patch of sampling: ``change(right, self, latents, times, predict, on_step)``."""
    right = RectifiedFlow.sample
    return [(RectifiedFlow, "sample", lambda *given: change(right, *given))]


@plant("scheduler-time-of-next-step")
def scheduler_time_of_next_step():
    def sample(right, self, latents, times, predict, on_step):
        following = dict(zip(times, [*times[1:], 0.0], strict=True))
        return right(
            self, latents, times, lambda both, time: predict(both, following[time]), on_step
        )

    return sampled(sample)


@plant("scheduler-one-step-fewer")
def scheduler_one_step_fewer():
    def sample(right, self, latents, times, predict, on_step):
        return right(self, latents, times[:-1], predict, on_step)

    return sampled(sample)


@plant("scheduler-times-as-integers")
def scheduler_times_as_integers():
    def sample(right, self, latents, times, predict, on_step):
        return right(
            self, latents, times, lambda both, time: predict(both, float(int(time))), on_step
        )

    return sampled(sample)


@plant("time-shift-ignored")
def time_shift_ignored():
    return [(flow, "shifted", lambda times, *size: times)]


@plant("frame-rate-fixed")
def frame_rate_fixed():
    right = OpenSora.__init__

    def init(self, configuration, seed, steps):
        right(self, configuration, seed, steps)
        self.fps = 24

    return [(OpenSora, "__init__", init)]


@plant("frame-groups-of-17")
def frame_groups_of_17():
    right = VideoDecoder.__init__

    def init(self, configuration):
        right(self, configuration)
        self.group = 17

    return [(VideoDecoder, "__init__", init)]


@plant("square-size-fixed")
def square_size_fixed():
    right = SoraShape.__init__

    def init(self, configuration):
        right(self, configuration)
        self.square = 512.0

    return [(SoraShape, "__init__", init)]


@plant("temporal-turns-missing")
def temporal_turns_missing():
    right = SoraAttention.forward

    def forward(self, tokens, rotation):
        # The kernel takes the turns of the first frame for all of them.
        if rotation is not None:
            rotation = tuple(table[:1].expand(*table.shape) for table in rotation)
        return right(self, tokens, rotation)

    return [(SoraAttention, "forward", forward)]


@plant("padding-of-patches-in-front")
def padding_of_patches_in_front():
    right = STDiT3.padded

    def padded(self, latents):
        whole = right(self, latents)
        for axis in (2, 3, 4):
            more = whole.shape[axis] - latents.shape[axis]
            if more:
                parts = torch.split(whole, [latents.shape[axis], more], dim=axis)
                whole = torch.cat([parts[1], parts[0]], dim=axis)
        return whole

    return [(STDiT3, "padded", padded)]
