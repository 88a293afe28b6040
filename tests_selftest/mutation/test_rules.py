"""Every rule of space.yaml: a configuration that keeps it, one that breaks it, and what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.mutation.constraints import REQUIRED, RULES, Layout, constraint
from pytest_lmsv.mutation.pointer import Missing

P = "/model/predictor"
D = "/data/dataset_param"
V = "/model/image_encoder/vision_encoder"
T = "/model/text_decoder"
SIZE = {
    f"{P}/patch_size": [1, 2, 2],
    f"{P}/input_size": [7, 60, 90],
    f"{P}/text_length": 226,
    f"{P}/interpolation_scale": [1.0, 1.0, 1.0],
    f"{D}/preprocess_parameters/num_frames": 17,
    f"{D}/preprocess_parameters/max_height": 480,
    f"{D}/preprocess_parameters/max_width": 720,
}
FRAMES, HEIGHT, WIDTH = list(SIZE)[4:]
SP = {**SIZE, "/args/sequence-parallel": True}
IMAGE = {
    f"{V}/image_size": 448,
    f"{V}/patch_size": 14,
    f"{V}/downsample_ratio": 0.5,
    f"{D}/dynamic_image_size": True,
    f"{D}/use_thumbnail": True,
    f"{D}/min_dynamic_patch": 1,
    f"{D}/max_dynamic_patch": 12,
    "/args/seq-length": 4096,
}
WINDOW = {
    f"{V}/window_attn_size": 112,
    f"{V}/fullatt_block_indexes": [7, 15, 23, 31],
    f"{V}/num_layers": 32,
    f"{V}/patch_size": 14,
    f"{V}/spatial_merge_size": 2,
}
FULL = {
    "/args/recompute-granularity": "full",
    "/args/recompute-method": "block",
    "/args/recompute-num-layers": 42,
    "/model/layers": 42,
}
TP4, TP8 = Layout(devices=8, tp=4), Layout(devices=8, tp=8)
PP4, CP2, ONE = Layout(devices=8, pp=4), Layout(devices=8, cp=2), Layout()

ROWS: list[tuple[str, dict[str, Any], Layout, dict[str, Any], dict[str, Any], str]] = [
    # rule, parameters, layout, values that keep it, changes that break it, part of the sentence
    ("equal", {"paths": ["/a", "/b", "/c"]}, ONE, {"/a": 1, "/b": 1.0, "/c": 1}, {"/c": 2},
     "/a is 1 but /c is 2; they must be equal"),
    ("equal", {"paths": ["/a", "/b"]}, ONE, {"/a": "x", "/b": "x"}, {"/a": True, "/b": 1},
     "/a is true but /b is 1"),
    ("divisible", {"path": "/a", "by": "/b"}, ONE, {"/a": 64, "/b": 4}, {"/b": 3},
     "/a (64) must be a multiple of /b (3)"),
    ("divisible", {"path": "/a", "by": "/b"}, ONE, {"/a": 0, "/b": 4}, {"/b": 0}, "of /b (0)"),
    ("multiple_of", {"path": "/a", "number": 8}, ONE, {"/a": [8, 16]}, {"/a": [8, 12]},
     "/a ([8, 12]) must be a multiple of 8"),
    ("multiple_of", {"path": "/a", "number": 8}, ONE, {"/a": 8}, {"/a": 9}, "/a (9) must be"),
    ("at_most", {"path": "/a", "limit": 3}, ONE, {"/a": 3}, {"/a": 4}, "/a is 4; it must be at m"),
    ("at_most", {"path": "/a", "other": "/b"}, ONE, {"/a": 3, "/b": 3}, {"/b": 2},
     "/a is 3; it must be at most 2 (/b)"),
    ("at_least", {"path": "/a", "limit": 3}, ONE, {"/a": 3}, {"/a": 2}, "it must be at least 3"),
    ("at_least", {"path": "/a", "other": "/b"}, ONE, {"/a": 3, "/b": 3}, {"/b": 4},
     "/a is 3; it must be at least 4 (/b)"),
    ("one_of", {"path": "/a", "values": ["x", 1]}, ONE, {"/a": 1}, {"/a": 1.0},
     '/a is 1.0; it must be one of "x", 1'),
    ("sum_equals", {"path": "/a", "total": "/n"}, ONE, {"/a": [1, 2], "/n": 3}, {"/n": 4},
     "/a [1, 2] adds up to 3; it must give /n (4)"),
    ("sum_equals", {"path": "/a", "total": "/n"}, ONE, {"/a": None, "/n": 3}, {"/a": []}, "up to"),
    ("length_equals", {"path": "/a", "number": 2}, ONE, {"/a": [1, 2]}, {"/a": [1]},
     "/a has 1 items; it must have 2"),
    ("length_equals", {"path": "/a", "other": "/b"}, ONE, {"/a": None, "/b": [1]}, {"/a": []},
     "it must have 1, as /b has"),
    ("product_equals", {"path": "/a", "factors": ["/b", "/c"]}, ONE, {"/a": 6, "/b": 2, "/c": 3},
     {"/c": 4}, "/a is 6; it must be /b * /c (8)"),
    ("parallel_sizes", {}, TP4, {"/args/tensor-model-parallel-size": 4},
     {"/args/tensor-model-parallel-size": 2}, "is 2; the layout of model.yaml says 4"),
    ("parallel_sizes", {}, CP2, {}, {"/args/micro-batch-size": 3}, "layout of model.yaml says 1"),
    ("heads_by_tp", {"heads": "/h"}, TP4, {"/h": 48}, {"/h": 42}, "/h (42) must be a multiple of"),
    ("query_groups_by_tp", {"groups": "/g"}, TP4, {"/g": 4}, {"/g": 2}, "/g (2) must be a multipl"),
    ("query_groups_by_tp", {"groups": "/g", "heads": "/h"}, ONE, {"/g": None, "/h": 28}, {"/g": 5},
     "/h (28) must be a multiple of /g (5)"),
    ("hidden_by_heads", {"hidden": "/x", "heads": "/h"}, ONE, {"/x": 3584, "/h": 28}, {"/h": 30},
     "/x (3584) must be a multiple of /h (30)"),
    ("hidden_by_heads", {"hidden": "/x", "heads": "/h", "even_head": True}, ONE,
     {"/x": 64, "/h": 4}, {"/x": 60}, "/x / /h (15) must be even"),
    ("global_batch", {}, TP4, {"/args/global-batch-size": 8, "/args/micro-batch-size": 2},
     {"/args/micro-batch-size": 3}, "(8) must be a multiple of MBS * DP (6)"),
    ("global_batch", {}, TP4, {"/args/global-batch-size": 8}, {"/args/global-batch-size": 7},
     "(7) must be a multiple of MBS * DP (2)"),
    ("sequence_by_cp", {}, CP2, {"/args/seq-length": 4096}, {"/args/seq-length": 4098},
     "must be a multiple of 2 * CP (4)"),
    ("positions_cover_sequence", {}, ONE,
     {"/args/max-position-embeddings": 8, "/args/seq-length": 8}, {"/args/seq-length": 9},
     "(8) must be at least /args/seq-length (9)"),
    ("min_lr_at_most_lr", {}, ONE, {"/args/lr": 1e-5, "/args/min-lr": 1e-5}, {"/args/lr": 1e-6},
     "/args/min-lr (1e-05) must be at most /args/lr (1e-06)"),
    ("one_precision", {}, ONE, {"/args/bf16": True, "/args/fp16": False}, {"/args/fp16": True},
     "/args/fp16 and /args/bf16 are both true"),
    ("recompute", {}, ONE, {}, {"/args/recompute-granularity": "full"}, "uniform or block with fu"),
    ("recompute", {"layers": "/model/layers"}, ONE, FULL, {"/model/layers": 41}, "(42) must be at"),
    ("recompute", {}, ONE, FULL, {"/args/recompute-num-layers": None}, "1 or more with full"),
    ("recompute", {}, ONE, FULL, {"/args/recompute-granularity": "some"}, "full or selective, not"),
    ("recompute", {}, ONE, FULL, {"/args/recompute-granularity": "selective"}, "absent with selec"),
    ("recompute", {"full_only": True}, ONE, FULL,
     {"/args/recompute-granularity": "selective", "/args/recompute-method": None},
     "must be full or absent, not selective"),
    ("recompute", {"full_only": True}, ONE, FULL, {"/args/distribute-saved-activations": True},
     "must be absent"),
    ("recompute", {}, ONE, {**FULL, "/args/distribute-saved-activations": True},
     {"/args/sequence-parallel": True}, "exclude each other"),
    ("overlap_needs_distributed_optimizer", {}, ONE,
     {"/args/overlap-param-gather": True, "/args/use-distributed-optimizer": True,
      "/args/overlap-grad-reduce": True},
     {"/args/overlap-grad-reduce": False}, "needs /args/overlap-grad-reduce"),
    ("intervals_not_zero", {}, ONE, {"/args/log-interval": 1}, {"/args/log-interval": 0},
     "/args/log-interval is 0"),
    ("pipeline_split", {"split": "/s", "layers": "/n"}, PP4, {"/s": [6, 8, 8, 6], "/n": 28},
     {"/n": 27}, "/s adds up to 28 layers; it must give /n (27)"),
    ("pipeline_split", {"split": "/s", "layers": "/n"}, PP4, {"/s": [24, 0, 0, 0], "/n": 24},
     {"/s": [24]}, "/s has 1 stages; it must have 4 (PP)"),
    ("pipeline_split", {"split": "/s", "layers": "/n"}, PP4,
     {"/s": [[1, 1, 1, 1], [2, 2, 2, 2]], "/n": 12}, {"/s": None}, "must be a list: PP is 4"),
    ("pipeline_split", {"split": "/s", "layers": "/n"}, ONE, {"/s": None, "/n": 2}, {"/s": []},
     "/s has 0 stages"),
    ("rope_split", {}, ONE, {f"{P}/head_dim": 64, f"{P}/use_rope": True}, {f"{P}/head_dim": 40},
     "head_dim (40) must be a multiple of 16 with use_rope"),
    ("rope_split", {}, ONE, {f"{P}/head_dim": 40, f"{P}/use_rope": False}, {f"{P}/use_rope": True},
     "must be a multiple of 16"),
    ("norm_type", {}, ONE, {f"{P}/norm_type": "qk_ln", f"{P}/patch_size": [1, 2, 2]},
     {f"{P}/norm_type": "layer_norm"}, "it must be one of ada_norm"),
    ("norm_type", {}, ONE, {f"{P}/norm_type": "ada_norm", f"{P}/num_embeds_ada_norm": 1000},
     {f"{P}/num_embeds_ada_norm": None}, "ada_norm needs /model/predictor/num_embeds_ada_norm"),
    ("latent_channels", {}, ONE,
     {f"{P}/in_channels": 16, f"{P}/out_channels": 16, "/model/ae/z_channels": 16},
     {"/model/ae/z_channels": 8}, "but /model/ae/z_channels is 8"),
    ("sigma_count", {}, ONE, {"/model/diffusion/denoiser_config/num_idx": 1000},
     {"/model/diffusion/denoiser_config/num_idx": 1001}, "is 1001; it must be 1 to 1000"),
    ("sigma_count", {}, ONE, {}, {"/model/diffusion/sigma_sampler_config/num_idx": 0}, "is 0"),
    ("latent_within_input_size", {}, ONE, SIZE, {FRAMES: 29}, "gives a latent of 8, more than"),
    ("latent_within_input_size", {}, ONE, SIZE, {FRAMES: 18}, "must be 1 more than a multiple of"),
    ("latent_within_input_size", {}, ONE, SIZE, {HEIGHT: 488}, "must be a multiple of 8 * patch 2"),
    ("latent_within_input_size", {}, ONE, SIZE, {WIDTH: 736}, "(90)"),
    ("latent_within_input_size", {}, ONE, SIZE, {f"{P}/patch_size": [2, 2, 2]}, "5 latent frames"),
    ("latent_within_input_size", {}, ONE, SIZE, {f"{P}/interpolation_scale": [2.0, 1.0, 1.0]}, "("),
    # The token counts are those of MindSpeed-MM's CogVideoX documents: 6976 at 17 frames.
    ("sequence_parallel_tokens", {}, TP8, SP, {FRAMES: 25}, "9676 tokens"),
    ("sequence_parallel_tokens", {}, TP8, {**SP, FRAMES: 33}, {FRAMES: 25}, "multiple of TP (8)"),
    ("sequence_parallel_tokens", {}, TP4, SP, {f"{P}/concat_text_embed": False}, "6750 tokens"),
    ("sequence_parallel_tokens", {}, TP4, {**SP, FRAMES: 25}, {FRAMES: 13}, "multiple of TP (4)"),
    ("sequence_parallel_tokens", {}, TP8,
     {**SP, FRAMES: 25, "/args/sequence-parallel": False}, {"/args/sequence-parallel": True},
     "9676 tokens"),
    ("video_size", {}, ONE, {"/model/pipeline_config/input_size": [102, 720, 1280]},
     {"/model/pipeline_config/input_size": [102, 721, 1280]}, "height 721 must be a multiple of 8"),
    ("video_size", {}, ONE, {"/model/pipeline_config/input_size": [1, 8, 8]},
     {"/model/pipeline_config/input_size": [0, 8, 8]}, "0 frames"),
    ("shifted_frames", {}, ONE, {"/model/pipeline_config/input_size": [17, 8, 8]},
     {"/model/pipeline_config/input_size": [16, 8, 8]}, "needs 1, or at least 17"),
    ("shifted_frames", {}, ONE, {"/model/pipeline_config/input_size": [16, 8, 8],
                                 "/model/diffusion/use_timestep_transform": False},
     {"/model/diffusion/use_timestep_transform": True}, "16 frames"),
    ("head_pairs", {}, ONE, {f"{P}/hidden_size": 48, f"{P}/num_heads": 4},
     {f"{P}/num_heads": 16}, "is 3; it must be even"),
    ("sample_method", {}, ONE, {"/model/diffusion/sample_method": "uniform"},
     {"/model/diffusion/sample_method": "normal"}, "it must be uniform or logit-normal"),
    ("downsample_ratio", {}, ONE,
     {"/model/downsample_ratio": 0.5, f"{V}/downsample_ratio": 0.5,
      "/model/image_encoder/vision_projector/downsample_ratio": 0.5,
      f"{D}/down_sample_ratio": 0.5},
     {f"{D}/down_sample_ratio": 1.0}, "down_sample_ratio is 1.0; they must be equal"),
    ("image_tokens", {}, ONE, IMAGE, {f"{D}/max_dynamic_patch": 16}, "4352 image tokens (17 tiles"),
    ("image_tokens", {}, ONE, {**IMAGE, "/args/seq-length": 3328}, {"/args/seq-length": 3327},
     "3328 image tokens (13 tiles) must fit into /args/seq-length (3327)"),
    ("image_tokens", {}, ONE, {**IMAGE, f"{D}/dynamic_image_size": False, "/args/seq-length": 256},
     {"/args/seq-length": 255}, "256 image tokens (1 tiles)"),
    ("image_tokens", {}, ONE, IMAGE, {f"{V}/image_size": 440}, "must be a multiple of patch_size"),
    ("image_tokens", {}, ONE, IMAGE, {f"{V}/image_size": 434}, "must give whole tokens, not 15.5"),
    ("image_tokens", {}, ONE, IMAGE, {f"{D}/min_dynamic_patch": 13}, "at most max_dynamic_patch ("),
    ("token_in_vocabulary", {"token": "/t", "vocabulary": "/v"}, ONE, {"/t": 9, "/v": 10},
     {"/v": 9}, "/t (9) must be below /v (9)"),
    ("rope_scaling", {}, ONE, {f"{T}/rope_scaling": None}, {f"{T}/rope_scaling": {"type": "yarn"}},
     "type is 'yarn'; it must be dynamic"),
    ("mrope_section", {}, ONE,
     {f"{T}/mrope_section": [16, 24, 24], f"{T}/hidden_size": 3584, f"{T}/num_attention_heads": 28},
     {f"{T}/mrope_section": [16, 24, 20]}, "adds up to 60, not 64"),
    ("window_attention", {}, ONE, WINDOW, {f"{V}/fullatt_block_indexes": None}, "is needed with w"),
    ("window_attention", {}, ONE, WINDOW, {f"{V}/num_layers": 31}, "must lie below num_layers (31"),
    ("window_attention", {}, ONE, WINDOW, {f"{V}/window_attn_size": 100}, "multiple of 28"),
    ("window_attention", {}, ONE, {}, {f"{V}/window_attn_size": 112}, "is needed"),
    ("pixel_limits", {}, ONE, {"/model/min_pixels": 1003520, "/model/max_pixels": 12845056},
     {"/model/min_pixels": 1003521}, "/model/min_pixels (1003521) must be a multiple of 784"),
    ("pixel_limits", {}, ONE, {"/model/min_pixels": 784, "/model/max_pixels": 784},
     {"/model/min_pixels": 1568}, "(1568) must be at most /model/max_pixels (784)"),
]  # fmt: skip


def ask(
    name: str, parameters: dict[str, Any], layout: Layout, values: dict[str, Any]
) -> str | None:
    def get(pointer: str, default: Any = REQUIRED, /) -> Any:
        if pointer not in values and default is REQUIRED:
            raise Missing(pointer)
        return values.get(pointer, default)

    return constraint(name, parameters)(get, layout)


@pytest.mark.parametrize(
    ("name", "parameters", "layout", "values", "change", "sentence"),
    ROWS,
    ids=[f"{row[0]}-{n}" for n, row in enumerate(ROWS)],
)
def test_a_rule_holds_and_says_in_one_sentence_where_it_is_broken(
    name: str,
    parameters: dict[str, Any],
    layout: Layout,
    values: dict[str, Any],
    change: dict[str, Any],
    sentence: str,
) -> None:
    assert ask(name, parameters, layout, values) is None
    said = ask(name, parameters, layout, {**values, **change})
    assert said is not None
    assert sentence in said
    assert "\n" not in said


def test_no_rule_is_without_a_row_and_every_one_says_what_it_means() -> None:
    constraint("equal", {"paths": ["/a"]})  # all rules are known from here on
    assert sorted(RULES) == sorted({row[0] for row in ROWS})
    assert all(rule.__doc__ for rule in RULES.values())


def test_without_tensor_parallelism_any_count_of_tokens_is_fine() -> None:
    assert ask("sequence_parallel_tokens", {}, ONE, {}) is None
    assert ask("sequence_by_cp", {}, ONE, {"/args/seq-length": 7}) is None


def test_the_manual_names_every_rule_and_no_other() -> None:
    constraint("equal", {"paths": ["/a"]})
    manual = (Path(__file__).parents[2] / "docs" / "mutation.md").read_text(encoding="utf-8")
    table = manual[manual.index("| rule |") :].split("\n\n", 1)[0]
    named = [word for row in table.splitlines()[2:] for word in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(RULES)
