"""Faults of layers: attention, masks, positions, modulations."""

from __future__ import annotations

import numpy as np
import torch
from cpu import decoder, internvit, positions, satdit, stdit3, transformer
from cpu.qwen_vision import QwenVision
from cpu.qwenvl import Network as QwenNetwork
from cpu.randomness import Draws
from plants.field import Turns, plant


@plant("attention-scale-fixed")
def attention_scale_fixed():
    right, turns = torch.matmul, Turns()

    def matmul(left, other):
        found = right(left, other)
        # Scores and their use come in turns; the scale of the fused kernel is that of 16.
        return found * (left.shape[-1] / 16) ** 0.5 if turns.first() else found

    return [(torch, "matmul", matmul)]


@plant("key-groups-rolled")
def key_groups_rolled():
    right = transformer.Attention.split

    def split(self, tokens):
        heads = right(self, tokens)
        if heads.shape[1] in (1, self.sizes.heads):
            return heads
        return torch.cat([heads[:, 1:], heads[:, :1]], dim=1)

    return [(transformer.Attention, "split", split)]


@plant("causal-late")
def causal_late():
    right = decoder.causal

    def causal(count, before=0):
        mask = right(count, before)
        return torch.cat([mask[1:], mask[-1:]], dim=0)

    return [(decoder, "causal", causal)]


@plant("causal-soft")
def causal_soft():
    right = decoder.causal
    return [(decoder, "causal", lambda *given: torch.clamp(right(*given), -10.0, 0.0))]


@plant("window-ignored")
def window_ignored():
    return [(QwenVision, "mask", lambda self, picture: None)]


@plant("text-mask-ignored")
def text_mask_ignored():
    right = stdit3.STDiT3.text

    def text(self, embedded, counted):
        made, bias = right(self, embedded, counted)
        return made, bias * 0.0

    return [(stdit3.STDiT3, "text", text)]


@plant("interpolation-ignored")
def interpolation_ignored():
    right = positions.rotary_tables

    def rotary_tables(grid, head_dim, stretch, text):
        return right(grid, head_dim, (1.0,) * 3, text)

    return [(positions, "rotary_tables", rotary_tables)]


@plant("rotary-base-fixed")
def rotary_base_fixed():
    right = decoder.frequencies
    return [(decoder, "frequencies", lambda dims, base: right(dims, 10000.0))]


@plant("mrope-by-time-only")
def mrope_by_time_only():
    def angles(self, places):
        return places[:, [0] * sum(self.sections)] * self.text_decoder.frequencies

    return [(QwenNetwork, "angles", angles)]


@plant("position-rows-late")
def position_rows_late():
    right = positions.table_rows
    return [(positions, "table_rows", lambda *given: np.roll(right(*given), 1))]


@plant("patch-transposed")
def patch_transposed():
    right = positions.patches

    def patches(latents, patch):
        cells = right(latents, patch)
        h, w = patch[1:]
        return cells.reshape(-1, h, w).permute(0, 2, 1).reshape(cells.shape) if h != w else cells

    return [(positions, "patches", patches)]


@plant("modulation-of-first-sample")
def modulation_of_first_sample():
    right = satdit.Block.modulations

    def modulations(self, time, shared):
        if shared is not None:
            shared = shared[:1].expand(*shared.shape)
        return right(self, time, shared)

    return [(satdit.Block, "modulations", modulations)]


@plant("vision-key-norm-skipped")
def vision_key_norm_skipped():
    attend, norm = transformer.Attention.forward, transformer.RMSNorm.forward

    def forward(self, *given, **named):
        if self.qk_norm:
            self.k_norm.is_skipped = True
        return attend(self, *given, **named)

    def normed(self, tokens):
        return tokens if getattr(self, "is_skipped", False) else norm(self, tokens)

    return [(transformer.Attention, "forward", forward), (transformer.RMSNorm, "forward", normed)]


@plant("pixel-shuffle-v2-always")
def pixel_shuffle_v2_always():
    right = internvit.shuffled
    return [(internvit, "shuffled", lambda features, ratio, version: right(features, ratio, "v2"))]


@plant("dropout-unscaled")
def dropout_unscaled():
    right = Draws.kept

    def kept(self, name, shape, probability):
        mask = right(self, name, shape, probability)
        return None if mask is None else mask * np.float32(1.0 - probability)

    return [(Draws, "kept", kept)]


@plant("attention-dropout-skipped")
def attention_dropout_skipped():
    right = Draws.kept

    def kept(self, name, shape, probability):
        return None if name.endswith(".weights") else right(self, name, shape, probability)

    return [(Draws, "kept", kept)]


@plant("dropout-own-generator")
def dropout_own_generator():
    right = Draws.kept

    def kept(self, name, shape, probability):
        return right(self, f"{name} of the stack's own generator", shape, probability)

    return [(Draws, "kept", kept)]


@plant("vision-key-bias-lost")
def vision_key_bias_lost():
    right = transformer.Attention.forward

    def forward(self, *given, **named):
        if self.name.startswith("vision_encoder") and self.k.bias is not None:
            held, self.k.bias = self.k.bias, None
            try:
                return right(self, *given, **named)
            finally:
                self.k.bias = held
        return right(self, *given, **named)

    return [(transformer.Attention, "forward", forward)]


@plant("temporal-turns-late")
def temporal_turns_late():
    right = stdit3.turns

    def turns(frames, head_dim):
        return tuple(table[1:] for table in right(frames + 1, head_dim))

    return [(stdit3, "turns", turns)]
