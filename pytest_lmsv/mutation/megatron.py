"""Rules that Megatron (core_v0.12.1) and MindSpeed-MM (2.2.0) hold every model to.

MindSpeed-MM checks the arguments by its own copy of Megatron's ``validate_args`` and raises
``IsNotValidError`` where Megatron asserts. Each rule names the file that checks it.
"""

from __future__ import annotations

from typing import Any

from pytest_lmsv.mutation.constraints import Get, Layout, rule


@rule
def parallel_sizes(get: Get, layout: Layout) -> str | None:
    """The sizes that ``args`` names are those of the layout in model.yaml (DESIGN 5.6)."""
    for option, size in (
        ("tensor-model-parallel-size", layout.tp),
        ("pipeline-model-parallel-size", layout.pp),
        ("context-parallel-size", layout.cp),
        ("micro-batch-size", layout.mbs),
    ):
        found = get(f"/args/{option}", size)
        if found != size:
            return f"/args/{option} is {found}; the layout of model.yaml says {size}"
    return None


@rule
def heads_by_tp(get: Get, layout: Layout, heads: str) -> str | None:
    """Attention heads are a multiple of TP (megatron/core/transformer/transformer_config.py)."""
    if get(heads) % layout.tp:
        return f"{heads} ({get(heads)}) must be a multiple of TP ({layout.tp})"
    return None


@rule
def query_groups_by_tp(
    get: Get, layout: Layout, groups: str, heads: str | None = None
) -> str | None:
    """Query groups are a multiple of TP and divide the heads (transformer_config.py)."""
    value = get(groups)
    if value is None:
        return None  # Megatron then takes as many groups as heads
    if value % layout.tp:
        return f"{groups} ({value}) must be a multiple of TP ({layout.tp})"
    if heads is not None and get(heads) % value:
        return f"{heads} ({get(heads)}) must be a multiple of {groups} ({value})"
    return None


@rule
def hidden_by_heads(
    get: Get, layout: Layout, hidden: str, heads: str, even_head: bool = False
) -> str | None:
    """Hidden size is a multiple of the heads (megatron/training/arguments.py, kv_channels unset).

    ``even_head``: the size of one head must also be even, as rotary positions need it.
    """
    size, count = get(hidden), get(heads)
    if size % count:
        return f"{hidden} ({size}) must be a multiple of {heads} ({count})"
    if even_head and size // count % 2:
        return f"{hidden} / {heads} ({size // count}) must be even for rotary positions"
    return None


@rule
def global_batch(
    get: Get,
    layout: Layout,
    total: str = "/args/global-batch-size",
    micro: str = "/args/micro-batch-size",
) -> str | None:
    """GBS is a multiple of MBS * DP (megatron/core/num_microbatches_calculator.py)."""
    batch, step = get(total), get(micro, layout.mbs) * layout.dp
    if batch % step:
        return f"{total} ({batch}) must be a multiple of MBS * DP ({step})"
    return None


@rule
def sequence_by_cp(get: Get, layout: Layout, length: str = "/args/seq-length") -> str | None:
    """With CP above 1, seq-length is a multiple of 2 * CP (megatron/training/arguments.py)."""
    if layout.cp > 1 and get(length) % (2 * layout.cp):
        return f"{length} ({get(length)}) must be a multiple of 2 * CP ({2 * layout.cp})"
    return None


@rule
def positions_cover_sequence(
    get: Get,
    layout: Layout,
    positions: str = "/args/max-position-embeddings",
    length: str = "/args/seq-length",
) -> str | None:
    """Positions are at least as many as seq-length (megatron/training/arguments.py)."""
    if get(positions) < get(length):
        return f"{positions} ({get(positions)}) must be at least {length} ({get(length)})"
    return None


@rule
def min_lr_at_most_lr(get: Get, layout: Layout) -> str | None:
    """min-lr is at most lr (megatron/training/arguments.py, a bare assert)."""
    low, high = get("/args/min-lr", 0.0), get("/args/lr")
    if low > high:
        return f"/args/min-lr ({low}) must be at most /args/lr ({high})"
    return None


@rule
def one_precision(get: Get, layout: Layout, at: str = "/args") -> str | None:
    """Not both fp16 and bf16 (megatron/core/transformer/transformer_config.py)."""
    if get(f"{at}/fp16", False) and get(f"{at}/bf16", False):
        return f"{at}/fp16 and {at}/bf16 are both true; at most one may be"
    return None


@rule
def recompute(
    get: Get, layout: Layout, layers: str | None = None, full_only: bool = False
) -> str | None:
    """The recompute options fit together (megatron/training/arguments.py, transformer_config.py).

    full needs method uniform or block and a number of layers (at most those of *layers*: a limit of
    our own, more has no meaning); selective has no method; saved activations can't be distributed
    under sequence parallelism. ``full_only``: as CogVideoX's sat_dit.py, which refuses selective
    and distributed activations.
    """
    granularity = get("/args/recompute-granularity", None) or None
    method = get("/args/recompute-method", None) or None
    number = get("/args/recompute-num-layers", None) or None
    if full_only and granularity == "selective":
        return "/args/recompute-granularity must be full or absent, not selective"
    if full_only and get("/args/distribute-saved-activations", False):
        return "/args/distribute-saved-activations must be absent"
    if granularity == "full":
        if method not in ("uniform", "block"):
            return f"/args/recompute-method must be uniform or block with full, not {method}"
        if not _positive(number):
            return f"/args/recompute-num-layers must be 1 or more with full, not {number}"
        if layers is not None and number > get(layers):
            return f"/args/recompute-num-layers ({number}) must be at most {layers} ({get(layers)})"
    elif granularity == "selective" and method is not None:
        return f"/args/recompute-method must be absent with selective, not {method}"
    elif granularity not in (None, "selective"):
        return f"/args/recompute-granularity must be full or selective, not {granularity}"
    if get("/args/distribute-saved-activations", False) and get("/args/sequence-parallel", False):
        return "/args/distribute-saved-activations and /args/sequence-parallel exclude each other"
    return None


@rule
def overlap_needs_distributed_optimizer(get: Get, layout: Layout) -> str | None:
    """overlap-param-gather needs two options more (megatron/training/arguments.py)."""
    if get("/args/overlap-param-gather", False):
        for option in ("use-distributed-optimizer", "overlap-grad-reduce"):
            if not get(f"/args/{option}", False):
                return f"/args/overlap-param-gather needs /args/{option}"
    return None


@rule
def intervals_not_zero(get: Get, layout: Layout) -> str | None:
    """save, log and eval intervals are not 0 (mindspeed_mm/training.py)."""
    for option in ("save-interval", "log-interval", "eval-interval"):
        if get(f"/args/{option}", 1) == 0:
            return f"/args/{option} is 0; it must be 1 or more"
    return None


@rule
def pipeline_split(get: Get, layout: Layout, split: str, layers: str) -> str | None:
    """The pipeline split has PP stages that add up to the layers; null only without PP.

    mindspeed_mm/models/predictor/predict_model.py checks both, models/vlm_model.py only the length:
    a wrong sum there silently builds another network. Virtual stages are a list of such lists.
    """
    stages, total = get(split), get(layers)
    if stages is None:
        return f"{split} must be a list: PP is {layout.pp}" if layout.pp > 1 else None
    chunks = stages if stages and isinstance(stages[0], list) else [stages]
    for chunk in chunks:
        if len(chunk) != layout.pp:
            return f"{split} has {len(chunk)} stages; it must have {layout.pp} (PP)"
    built = sum(map(sum, chunks))
    if built != total:
        return f"{split} adds up to {built} layers; it must give {layers} ({total})"
    return None


def _positive(value: Any) -> bool:
    return isinstance(value, int) and value > 0
