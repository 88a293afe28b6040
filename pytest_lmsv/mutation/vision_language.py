"""Rules of MindSpeed-MM's (2.2.0) vision-language models; each names the file it comes from.

Default paths are those of MindSpeed-MM's own documents. A rule marked "own" is not checked there:
breaking it fails later or silently.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_lmsv.mutation.constraints import Get, Layout, equal, rule

_VISION = "/model/image_encoder/vision_encoder"
_PROJECTOR = "/model/image_encoder/vision_projector"


@rule
def downsample_ratio(
    get: Get,
    layout: Layout,
    paths: Sequence[str] = (
        "/model/downsample_ratio",
        f"{_VISION}/downsample_ratio",
        f"{_PROJECTOR}/downsample_ratio",
        "/data/dataset_param/down_sample_ratio",
    ),
) -> str | None:
    """InternVL's downsample ratio is the same in all four places (examples/internvl3; own)."""
    return equal(get, layout, paths=paths)


@rule
def image_tokens(
    get: Get,
    layout: Layout,
    vision: str = _VISION,
    dataset: str = "/data/dataset_param",
    length: str = "/args/seq-length",
) -> str | None:
    """The image tokens of the largest picture fit into seq-length (InternVL; own).

    Per tile (image_size / patch_size * downsample_ratio) squared; max_dynamic_patch tiles and a
    thumbnail, or one tile without dynamic_image_size.
    """
    image, patch = get(f"{vision}/image_size"), get(f"{vision}/patch_size")
    if image % patch:
        return f"{vision}/image_size ({image}) must be a multiple of patch_size ({patch})"
    side = image // patch * get(f"{vision}/downsample_ratio")
    if side != int(side) or side < 1:
        return f"{vision}: {image // patch} patches a side must give whole tokens, not {side}"
    tiles = 1
    if get(f"{dataset}/dynamic_image_size", False):
        most = get(f"{dataset}/max_dynamic_patch")
        if get(f"{dataset}/min_dynamic_patch", 1) > most:
            return f"{dataset}/min_dynamic_patch must be at most max_dynamic_patch ({most})"
        # A picture of one tile gets no thumbnail.
        tiles = most + 1 if get(f"{dataset}/use_thumbnail", False) and most > 1 else most
    tokens = tiles * int(side) ** 2
    if tokens > get(length):
        return f"{tokens} image tokens ({tiles} tiles) must fit into {length} ({get(length)})"
    return None


@rule
def token_in_vocabulary(get: Get, layout: Layout, token: str, vocabulary: str) -> str | None:
    """A token's number is below the size of the vocabulary (an embedding lookup; own)."""
    if not 0 <= get(token) < get(vocabulary):
        return f"{token} ({get(token)}) must be below {vocabulary} ({get(vocabulary)})"
    return None


@rule
def rope_scaling(
    get: Get, layout: Layout, path: str = "/model/text_decoder/rope_scaling"
) -> str | None:
    """rope_scaling is null or of type dynamic (mindspeed_mm/models/common/mm_gpt_model.py)."""
    found = get(path)
    if found is not None and found.get("type") != "dynamic":
        return f"{path}/type is {found.get('type')!r}; it must be dynamic, or {path} null"
    return None


@rule
def mrope_section(get: Get, layout: Layout, decoder: str = "/model/text_decoder") -> str | None:
    """mrope_section adds up to half of a head's size (Qwen2.5-VL's rotary embedding; own)."""
    sections = get(f"{decoder}/mrope_section")
    half = get(f"{decoder}/hidden_size") // get(f"{decoder}/num_attention_heads") // 2
    if sum(sections) != half:
        return f"{decoder}/mrope_section {sections} adds up to {sum(sections)}, not {half}"
    return None


@rule
def window_attention(get: Get, layout: Layout, vision: str = _VISION) -> str | None:
    """With window_attn_size, fullatt_block_indexes is given and lies within the layers.

    mindspeed_mm's qwen2vit raises ValueError without it. The window is whole merged patches (own):
    a multiple of patch_size * spatial_merge_size.
    """
    window = get(f"{vision}/window_attn_size", None)
    if window is None:
        return None
    indexes = get(f"{vision}/fullatt_block_indexes", None)
    if indexes is None:
        return f"{vision}/fullatt_block_indexes is needed with window_attn_size"
    layers = get(f"{vision}/num_layers")
    if any(not 0 <= index < layers for index in indexes):
        return f"{vision}/fullatt_block_indexes {indexes} must lie below num_layers ({layers})"
    unit = get(f"{vision}/patch_size") * get(f"{vision}/spatial_merge_size")
    if window < unit or window % unit:
        return f"{vision}/window_attn_size ({window}) must be a multiple of {unit} (merged patch)"
    return None


@rule
def pixel_limits(
    get: Get,
    layout: Layout,
    least: str = "/model/min_pixels",
    most: str = "/model/max_pixels",
    unit: int = 784,
) -> str | None:
    """min_pixels and max_pixels are multiples of 28 * 28 = 784, and min is at most max.

    Qwen2.5-VL's image processor works in merged patches of 28 x 28 pixels (own).
    """
    low, high = get(least), get(most)
    for path, value in ((least, low), (most, high)):
        if value < unit or value % unit:
            return f"{path} ({value}) must be a multiple of {unit}"
    if low > high:
        return f"{least} ({low}) must be at most {most} ({high})"
    return None
