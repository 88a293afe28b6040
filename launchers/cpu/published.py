"""Gives transformers' published networks the weights of ours, and compares what both compute.

``published.py FILE``: for each JSON line of FILE (``{"model": "internvl3" | "qwenvl",
"documents": {...}}``) one line out: ``{"logits", "loss" | "tokens", ...}``, relative differences
(to the largest value) and token ids. Runs where torch and transformers are installed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from cpu import weights
from cpu.configuration import Configuration

VISION, PROJECTOR, TEXT = (
    "model.vision_tower.",
    "model.multi_modal_projector.",
    "model.language_model.",
)
TEXT_NAMES = (
    (r"^text_decoder\.embeddings$", f"{TEXT}embed_tokens.weight"),
    (r"^text_decoder\.head\.", "lm_head."),
    (r"^text_decoder\.(layers\.\d+)\.norm1\.", rf"{TEXT}\1.input_layernorm."),
    (r"^text_decoder\.(layers\.\d+)\.norm2\.", rf"{TEXT}\1.post_attention_layernorm."),
    (r"^text_decoder\.(layers\.\d+)\.attention\.out\.", rf"{TEXT}\1.self_attn.o_proj."),
    (r"^text_decoder\.(layers\.\d+)\.attention\.([qkv])\.", rf"{TEXT}\1.self_attn.\2_proj."),
    (r"^text_decoder\.(layers\.\d+)\.mlp\.widen\.", rf"{TEXT}\1.mlp.up_proj."),
    (r"^text_decoder\.(layers\.\d+)\.mlp\.gate\.", rf"{TEXT}\1.mlp.gate_proj."),
    (r"^text_decoder\.(layers\.\d+)\.mlp\.narrow\.", rf"{TEXT}\1.mlp.down_proj."),
    (r"^text_decoder\.norm\.", f"{TEXT}norm."),
)
LAYER = r"^vision_encoder\.layers\.(\d+)"
INTERN_NAMES = (
    (r"^vision_encoder\.patch_embed\.", f"{VISION}embeddings.patch_embeddings.projection."),
    (r"^vision_encoder\.class_token$", f"{VISION}embeddings.cls_token"),
    (r"^vision_encoder\.position_table$", f"{VISION}embeddings.position_embeddings"),
    (LAYER + r"\.scale(\d)$", rf"{VISION}encoder.layer.\1.lambda_\2"),
    (LAYER + r"\.norm1\.", rf"{VISION}encoder.layer.\1.layernorm_before."),
    (LAYER + r"\.norm2\.", rf"{VISION}encoder.layer.\1.layernorm_after."),
    (LAYER + r"\.attention\.([qk]_norm)\.", rf"{VISION}encoder.layer.\1.attention.\2."),
    (LAYER + r"\.attention\.([qkv])\.", rf"{VISION}encoder.layer.\1.attention.\2_proj."),
    (LAYER + r"\.attention\.out\.", rf"{VISION}encoder.layer.\1.attention.projection_layer."),
    (LAYER + r"\.mlp\.widen\.", rf"{VISION}encoder.layer.\1.mlp.fc1."),
    (LAYER + r"\.mlp\.narrow\.", rf"{VISION}encoder.layer.\1.mlp.fc2."),
    (r"^projector\.norm\.", f"{PROJECTOR}layer_norm."),
    (r"^projector\.first\.", f"{PROJECTOR}linear_1."),
    (r"^projector\.second\.", f"{PROJECTOR}linear_2."),
)
QWEN, BLOCK = "model.visual.", r"model.visual.blocks.\1."
QWEN_NAMES = (
    (r"^vision_encoder\.patch_embed\.", f"{QWEN}patch_embed.proj."),
    (LAYER + r"\.(norm\d)\.", rf"{BLOCK}\2."),
    (LAYER + r"\.attention\.([qkv])\.(\w+)$", rf"{BLOCK}attn.qkv.\3#\2"),
    (LAYER + r"\.attention\.out\.", f"{BLOCK}attn.proj."),
    (LAYER + r"\.mlp\.gate\.", f"{BLOCK}mlp.gate_proj."),
    (LAYER + r"\.mlp\.widen\.", f"{BLOCK}mlp.up_proj."),
    (LAYER + r"\.mlp\.narrow\.", f"{BLOCK}mlp.down_proj."),
    (r"^projector\.norm\.", f"{QWEN}merger.ln_q."),
    (r"^projector\.first\.", f"{QWEN}merger.mlp.0."),
    (r"^projector\.second\.", f"{QWEN}merger.mlp.2."),
)


def given(theirs: Any, ours: Any, names: tuple[tuple[str, str], ...]) -> Any:
    """Return *theirs* with every weight of *ours*, reshaped where a convolution holds it."""
    shapes = {name: value.shape for name, value in theirs.state_dict().items()}
    state = {}
    for name, parameter in ours.named_parameters():
        for pattern, replacement in names:
            target, found = re.subn(pattern, replacement, name)
            if found:
                value = parameter.detach()
                state[target] = value if "#" in target else value.reshape(shapes[target])
                break
        else:
            raise KeyError(name)
    for joined in {name.split("#")[0] for name in state if "#" in name}:
        state[joined] = torch.cat([state.pop(f"{joined}#{part}") for part in "qkv"])
    theirs.load_state_dict(state, strict=True)
    return theirs.float().eval()


def difference(one: Any, other: Any) -> float:
    """Return the greatest difference, relative to the largest value of *one*."""
    if one.shape != other.shape:
        raise ValueError(f"{tuple(one.shape)} is not {tuple(other.shape)}")
    return float((one - other).abs().max() / one.abs().max())


def decoder_options(sizes: Any, decoder: Any, base: float) -> dict[str, Any]:
    """Return what transformers calls the keys of our text decoder."""
    return {
        "vocab_size": decoder.vocabulary,
        "hidden_size": sizes.width,
        "intermediate_size": sizes.ffn,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.groups,
        "hidden_act": sizes.activation,
        "rms_norm_eps": sizes.eps,
        "rope_theta": base,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "attention_dropout": 0.0,
    }


def internvl3(documents: dict[str, Any]) -> dict[str, Any]:
    """Compare logits and loss of one sample with InternVLForConditionalGeneration."""
    from transformers import InternVLConfig, InternVLForConditionalGeneration

    from cpu.internvl3 import InternVL3
    from cpu.randomness import Draws
    from cpu.training import Batches
    from cpu.workers import Workers

    documents["args"]["micro-batch-size"] = 1
    configuration = Configuration(documents)
    model = InternVL3(configuration, 43)
    weights.fill(model.network, 43)
    vision, text = model.network.vision_encoder, model.network.text_decoder
    base = float(configuration.read("/model/text_decoder/rotary_base"))
    options = InternVLConfig(
        vision_config={
            "hidden_size": vision.sizes.width,
            "num_hidden_layers": vision.sizes.layers,
            "num_attention_heads": vision.sizes.heads,
            "intermediate_size": vision.sizes.ffn,
            "attention_bias": vision.sizes.qkv_bias,
            "use_qk_norm": vision.layers[0].attention.qk_norm,
            "hidden_act": vision.sizes.activation,
            "layer_norm_eps": vision.sizes.eps,
            "norm_type": {"LayerNorm": "layer_norm", "RMSNorm": "rms_norm"}[
                vision.sizes.normalization
            ],
            "image_size": [vision.image] * 2,
            "patch_size": [vision.patch] * 2,
        },
        text_config={"model_type": "qwen2", **decoder_options(text.sizes, text, base)},
        image_token_id=model.image,
        downsample_ratio=model.network.projector.ratio,
        attn_implementation="eager",
    )
    theirs = given(
        InternVLForConditionalGeneration(options), model.network, INTERN_NAMES + TEXT_NAMES
    )
    batches = Batches(configuration, Workers())
    inputs = model.micro_batch(0, 1, batches, Draws(43, 1, 0, 0))
    sample = model.samples.sample(1)
    with torch.no_grad():
        ours = text.head(model.network(inputs[0], inputs[1]))
        loss = model.loss(*inputs[:-1], None)
        answer = theirs(
            pixel_values=inputs[0],
            input_ids=torch.tensor([sample.ids]),
            attention_mask=torch.ones(1, len(sample.ids), dtype=torch.long),
            labels=torch.tensor([sample.labels]),
        )
    return {
        "logits": difference(answer.logits, ours),
        "loss": difference(answer.loss.reshape(1), loss.reshape(1)),
        "tiles": len(sample.tiles),
        "length": len(sample.ids),
    }


def qwenvl(documents: dict[str, Any]) -> dict[str, Any]:
    """Compare logits and 16 greedy tokens with Qwen2_5_VLForConditionalGeneration."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    from cpu.qwenvl import QwenVL, places_of

    configuration = Configuration(documents)
    model = QwenVL(configuration, 16)
    weights.fill(model.network, 43)
    vision, text = model.network.vision_encoder, model.network.text_decoder
    base = float(configuration.read("/model/text_decoder/rope_theta"))
    sections = {"type": "default", "rope_type": "default", "mrope_section": model.network.sections}
    options = Qwen2_5_VLConfig(
        vision_config={
            "depth": vision.sizes.layers,
            "hidden_size": vision.sizes.width,
            "intermediate_size": vision.sizes.ffn,
            "num_heads": vision.sizes.heads,
            "hidden_act": vision.sizes.activation,
            "patch_size": vision.patch,
            "spatial_merge_size": vision.merge,
            "temporal_patch_size": vision.frames,
            "window_size": vision.window * vision.patch * vision.merge,
            "out_hidden_size": text.sizes.width,
            "fullatt_block_indexes": vision.whole,
        },
        text_config={**decoder_options(text.sizes, text, base), "rope_scaling": sections},
        image_token_id=model.image,
        vision_start_token_id=model.prompt[model.prompt.index(model.image) - 1],
        attn_implementation="eager",
    )
    options.text_config.bos_token_id = options.text_config.eos_token_id = None
    theirs = given(
        Qwen2_5_VLForConditionalGeneration(options), model.network, QWEN_NAMES + TEXT_NAMES
    )
    inputs = {
        "input_ids": torch.tensor([model.prompt]),
        "attention_mask": torch.ones(1, len(model.prompt), dtype=torch.long),
        "pixel_values": torch.tensor(model.picture.patches),
        "image_grid_thw": torch.tensor([[1, model.picture.rows, model.picture.columns]]),
    }
    with torch.no_grad():
        tokens = model.network.embedded(model.prompt, model.image, model.picture)
        angles = model.network.angles(places_of(model.prompt, model.image, model.grid))
        ours = text.head(text.hidden(tokens, angles)[0])
        logits = theirs(**inputs).logits
        written = theirs.generate(
            **inputs,
            max_new_tokens=16,
            do_sample=False,
            repetition_penalty=model.rules.penalty,
            no_repeat_ngram_size=model.rules.ngram or None,
            eos_token_id=model.rules.ends,
            pad_token_id=0,
        )
    return {
        "logits": difference(logits, ours),
        "tokens": written[0, len(model.prompt) :].tolist(),
        "ours": model.answer().ids,
        "grid": list(model.grid),
    }


COMPARE = {"internvl3": internvl3, "qwenvl": qwenvl}

if __name__ == "__main__":
    for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        job = json.loads(text)
        print(json.dumps(COMPARE[job["model"]](job["documents"])), flush=True)
