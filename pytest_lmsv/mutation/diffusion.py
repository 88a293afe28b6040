"""Rules of MindSpeed-MM's (2.2.0) diffusion transformers; each names the file it comes from.

Default paths are those of MindSpeed-MM's own documents, as ``/model/predictor``. A rule marked
"own" is not checked there: breaking it fails later or silently.
"""

from __future__ import annotations

from typing import Any

from pytest_lmsv.mutation.constraints import Get, Layout, equal, rule

_PREDICTOR = "/model/predictor"
_PREPROCESS = "/data/dataset_param/preprocess_parameters"


# CogVideoX: mindspeed_mm/models/predictor/dits/sat_dit.py, models/sora_model.py


@rule
def rope_split(get: Get, layout: Layout, predictor: str = _PREDICTOR) -> str | None:
    """With use_rope, head_dim is a multiple of 16 (sat_dit.py: 1/4, 3/8, 3/8 of it, each even)."""
    size = get(f"{predictor}/head_dim")
    if get(f"{predictor}/use_rope", False) and size % 16:
        return f"{predictor}/head_dim ({size}) must be a multiple of 16 with use_rope"
    return None


@rule
def norm_type(get: Get, layout: Layout, predictor: str = _PREDICTOR) -> str | None:
    """With patches norm_type is one of four, and ada_norm(_zero) needs num_embeds_ada_norm.

    sat_dit.py raises NotImplementedError and ValueError for them.
    """
    found = get(f"{predictor}/norm_type")
    allowed = ("ada_norm", "ada_norm_zero", "ada_norm_single", "qk_ln")
    if get(f"{predictor}/patch_size", None) is not None and found not in allowed:
        return f"{predictor}/norm_type is {found!r}; it must be one of {', '.join(allowed)}"
    embeds = get(f"{predictor}/num_embeds_ada_norm", None)
    if found in ("ada_norm", "ada_norm_zero") and embeds is None:
        return f"{predictor}/norm_type {found} needs {predictor}/num_embeds_ada_norm"
    return None


@rule
def latent_channels(
    get: Get, layout: Layout, predictor: str = _PREDICTOR, ae: str = "/model/ae"
) -> str | None:
    """in_channels, out_channels and the encoder's z_channels agree (sat_dit.py; own)."""
    return equal(
        get,
        layout,
        paths=[f"{predictor}/in_channels", f"{predictor}/out_channels", f"{ae}/z_channels"],
    )


@rule
def sigma_count(
    get: Get, layout: Layout, diffusion: str = "/model/diffusion", limit: int = 1000
) -> str | None:
    """num_idx of sampler and denoiser is 1 to 1000 (diffusion/cogvideo_diffusion: ValueError)."""
    for part in ("sigma_sampler_config", "denoiser_config"):
        found = get(f"{diffusion}/{part}/num_idx", limit)
        if not 1 <= found <= limit:
            return f"{diffusion}/{part}/num_idx is {found}; it must be 1 to {limit}"
    return None


def latent_grid(
    get: Get,
    frames: str,
    height: str,
    width: str,
    time_compression: int = 4,
    space_compression: int = 8,
) -> tuple[int, int, int]:
    """Latent time, height and width of a video: one frame first, then groups of frames."""
    return (
        (get(frames) - 1) // time_compression + 1,
        get(height) // space_compression,
        get(width) // space_compression,
    )


@rule
def latent_within_input_size(
    get: Get,
    layout: Layout,
    predictor: str = _PREDICTOR,
    frames: str = f"{_PREPROCESS}/num_frames",
    height: str = f"{_PREPROCESS}/max_height",
    width: str = f"{_PREPROCESS}/max_width",
    time_compression: int = 4,
    space_compression: int = 8,
) -> str | None:
    """The latent fits the position table of input_size and splits into whole patches (sat_dit.py).

    frames - 1 is a multiple of the time compression, height and width of compression * patch. The
    table holds (input_size[0] - 1) // interpolation_scale[0] + 1 latent frames.
    """
    patch, limit = get(f"{predictor}/patch_size"), list(get(f"{predictor}/input_size"))
    scale = get(f"{predictor}/interpolation_scale", None)
    if scale:
        limit[0] = int((limit[0] - 1) // scale[0] + 1)
    if (get(frames) - 1) % time_compression:
        return f"{frames} ({get(frames)}) must be 1 more than a multiple of {time_compression}"
    for path, side in ((height, patch[1]), (width, patch[2])):
        if get(path) % (space_compression * side):
            return f"{path} ({get(path)}) must be a multiple of {space_compression} * patch {side}"
    latent = latent_grid(get, frames, height, width, time_compression, space_compression)
    if latent[0] % patch[0]:
        return f"{latent[0]} latent frames of {frames} must be a multiple of patch {patch[0]}"
    for path, size, most in zip((frames, height, width), latent, limit, strict=True):
        if size > most:
            return (
                f"{path} ({get(path)}) gives a latent of {size}, "
                f"more than the positions of {predictor}/input_size ({most})"
            )
    return None


@rule
def sequence_parallel_tokens(
    get: Get,
    layout: Layout,
    predictor: str = _PREDICTOR,
    frames: str = f"{_PREPROCESS}/num_frames",
    height: str = f"{_PREPROCESS}/max_height",
    width: str = f"{_PREPROCESS}/max_width",
    time_compression: int = 4,
    space_compression: int = 8,
) -> str | None:
    """Under sequence parallelism the tokens are a multiple of TP.

    megatron/core/tensor_parallel/mappings.py: "First dimension of the tensor should be divisible by
    tensor parallel size". Tokens: text_length (where concat_text_embed) plus the video's patches.
    """
    if layout.tp == 1 or not get("/args/sequence-parallel", False):
        return None
    sizes = latent_grid(get, frames, height, width, time_compression, space_compression)
    tokens = 1
    for size, patch in zip(sizes, get(f"{predictor}/patch_size"), strict=True):
        tokens *= size // patch
    if get(f"{predictor}/concat_text_embed", True):
        tokens += get(f"{predictor}/text_length")
    if tokens % layout.tp:
        return f"{tokens} tokens (text and video) must be a multiple of TP ({layout.tp})"
    return None


# OpenSora 1.2: mindspeed_mm/tasks/inference/pipeline/opensora_pipeline.py


@rule
def video_size(
    get: Get,
    layout: Layout,
    size: str = "/model/pipeline_config/input_size",
    number: int = 8,
) -> str | None:
    """Height and width are multiples of 8 ("Input size must be divisible by patch size")."""
    frames, height, width = get(size)
    if frames < 1:
        return f"{size}: {frames} frames; there must be 1 or more"
    for name, value in (("height", height), ("width", width)):
        if value < number or value % number:
            return f"{size}: {name} {value} must be a multiple of {number}"
    return None


@rule
def shifted_frames(
    get: Get,
    layout: Layout,
    size: str = "/model/pipeline_config/input_size",
    diffusion: str = "/model/diffusion",
) -> str | None:
    """With use_timestep_transform a video has 1 frame or at least 17 (rflow.py; own).

    The shift counts whole groups of 17 frames: with none the first time is 0 / 0.
    """
    frames = get(size)[0]
    if get(f"{diffusion}/use_timestep_transform", True) and frames != 1 and frames < 17:
        return f"{size}: {frames} frames; use_timestep_transform needs 1, or at least 17"
    return None


@rule
def head_pairs(get: Get, layout: Layout, predictor: str = _PREDICTOR) -> str | None:
    """hidden_size / num_heads is even: temporal RoPE turns pairs (stdit3.py)."""
    width, heads = get(f"{predictor}/hidden_size"), get(f"{predictor}/num_heads")
    if width % heads == 0 and width // heads % 2:
        return f"{predictor}/hidden_size / num_heads is {width // heads}; it must be even"
    return None


@rule
def sample_method(
    get: Get, layout: Layout, path: str = "/model/diffusion/sample_method"
) -> str | None:
    """sample_method is uniform or logit-normal (mindspeed_mm's rflow raises for another)."""
    found: Any = get(path)
    if found not in ("uniform", "logit-normal"):
        return f"{path} is {found!r}; it must be uniform or logit-normal"
    return None
