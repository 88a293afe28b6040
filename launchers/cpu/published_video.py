"""Gives diffusers' CogVideoXTransformer3DModel the weights of our SatDiT, and compares the results.

``published_video.py FILE``: for each JSON line of FILE (``{"documents": {...}}``) one line out:
``{"blocks", "output"}``, relative differences (to the largest value) behind the last block and of
the whole. The published eps of the last norm is that of all others, so 1e-6 is compared.
Runs where torch and diffusers are installed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from diffusers import CogVideoXTransformer3DModel
from diffusers.models.embeddings import get_3d_rotary_pos_embed

from cpu import positions, weights
from cpu.configuration import Configuration
from cpu.randomness import generator
from cpu.satdit import SatDiT, Shape

BLOCK = r"^blocks\.(\d+)"
NAMES = (
    (r"^norm_out\.", "norm_out.norm."),
    (r"^patch_embed\.", "patch_embed.proj."),
    (r"^caption_projection\.", "patch_embed.text_proj."),
    (r"^time_in\.", "time_embedding.linear_1."),
    (r"^time_out\.", "time_embedding.linear_2."),
    (BLOCK + r"\.norm([12])\.", r"transformer_blocks.\1.norm\2.norm."),
    (BLOCK + r"\.attention\.([qkv])\.", r"transformer_blocks.\1.attn1.to_\2."),
    (BLOCK + r"\.attention\.out\.", r"transformer_blocks.\1.attn1.to_out.0."),
    (BLOCK + r"\.attention\.([qk])_norm\.", r"transformer_blocks.\1.attn1.norm_\2."),
    (BLOCK + r"\.feed_forward\.widen\.", r"transformer_blocks.\1.ff.net.0.proj."),
    (BLOCK + r"\.feed_forward\.narrow\.", r"transformer_blocks.\1.ff.net.2."),
    (r"^modulation_final\.", "norm_out.linear."),
    (r"^out\.", "proj_out."),
)


def paired(value: Any, head_dim: int) -> Any:
    """Return the rows of *value* with the two halves of each head interleaved.

    We turn a head's halves against each other, diffusers turns neighbours.
    """
    heads = value.reshape(-1, 2, head_dim // 2, *value.shape[1:])
    return heads.transpose(1, 2).reshape(value.shape)


def state_of(ours: SatDiT, shapes: dict[str, Any]) -> dict[str, Any]:
    """Return the weights of *ours* by diffusers' names and shapes."""
    state = {}
    for name, parameter in ours.named_parameters():
        value = parameter.detach()
        if re.search(r"attention\.[qk](_norm)?\.", name):
            value = paired(value, ours.shape.head_dim)
        found = re.match(BLOCK + r"\.modulation\.(\w+)$", name)
        if found:  # ours: six for the video, six for the text; theirs: three and three, twice
            parts = value.reshape(4, 3, ours.shape.width, *value.shape[1:])
            for place in (0, 1):
                target = f"transformer_blocks.{found[1]}.norm{place + 1}.linear.{found[2]}"
                state[target] = torch.cat([parts[place], parts[2 + place]]).flatten(0, 1)
            continue
        target = name
        for pattern, replacement in NAMES:
            target = re.sub(pattern, replacement, target)
        state[target] = value.reshape(shapes[target])
    return state


def difference(one: Any, other: Any) -> float:
    return float((one - other).abs().max() / one.abs().max())


def compared(documents: dict[str, Any]) -> dict[str, float]:
    """Compare one forward pass of one configuration, on random latents."""
    shape = Shape(Configuration(documents))
    ours = SatDiT(shape)
    weights.fill(ours, 43)
    data = documents["data"]["dataset_param"]["preprocess_parameters"]
    frames, rows, columns = (data["num_frames"] - 1) // 4 + 1, data["max_height"], data["max_width"]
    size = (2, shape.channels, frames, rows // 8, columns // 8)
    numbers = generator("published video")
    latents = torch.tensor(numbers.standard_normal(size), dtype=torch.float32)
    text = numbers.standard_normal((2, shape.text_length, shape.text_width))
    text, steps = torch.tensor(text, dtype=torch.float32), torch.tensor([17, 803])
    theirs = CogVideoXTransformer3DModel(
        num_attention_heads=shape.heads,
        attention_head_dim=shape.head_dim,
        in_channels=shape.channels,
        out_channels=shape.out_channels,
        time_embed_dim=shape.time_width,
        text_embed_dim=shape.text_width,
        num_layers=shape.layers,
        attention_bias=shape.attention_bias,
        patch_size=shape.patch[1],
        max_text_seq_length=shape.text_length,
        activation_fn=shape.activation,
        norm_elementwise_affine=shape.affine,
        norm_eps=shape.eps,
        use_rotary_positional_embeddings=True,
    ).eval()
    shapes = {name: value.shape for name, value in theirs.state_dict().items()}
    theirs.load_state_dict(state_of(ours, shapes), strict=True)
    grid = positions.grid_of(size[2:], shape.patch, shape.grid)
    turning = get_3d_rotary_pos_embed(shape.head_dim, ((0, 0), grid[1:]), grid[1:], grid[0])
    kept: dict[str, Any] = {}
    theirs.norm_final.register_forward_hook(lambda _, given, made: kept.update(theirs=made))
    ours.norm_final.register_forward_hook(lambda _, given, made: kept.update(ours=made))
    with torch.no_grad():
        answer = theirs(latents.transpose(1, 2), text, steps, image_rotary_emb=turning).sample
        table = torch.tensor(positions.sinusoids(steps.numpy(), shape.width))
        made = ours(latents, table, text)
    return {
        "blocks": difference(kept["theirs"], kept["ours"][:, shape.text_length :]),
        "output": difference(answer.transpose(1, 2), made),
    }


if __name__ == "__main__":
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        print(json.dumps(compared(json.loads(line)["documents"])), flush=True)
