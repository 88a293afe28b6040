"""The command line of the cpu networks: MindSpeed-MM's options."""

from __future__ import annotations

import argparse
from typing import Any

FLOATS = """
    lr min-lr weight-decay clip-grad adam-beta1 adam-beta2 adam-eps lr-warmup-init
    lr-warmup-fraction attention-dropout hidden-dropout init-method-std norm-epsilon
"""
INTEGERS = """
    tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size
    micro-batch-size global-batch-size train-iters lr-warmup-iters lr-decay-iters seed
    num-workers log-interval save-interval eval-interval eval-iters seq-length num-layers
    hidden-size num-attention-heads max-position-embeddings vocab-size rotary-base
    recompute-num-layers distributed-timeout-minutes make-vocab-size-divisible-by
"""
TEXTS = """
    mm-model mm-data mm-tool load save lr-decay-style distributed-backend ai-framework
    ckpt-format recompute-granularity recompute-method tokenizer-type normalization
    position-embedding-type context-parallel-algo
"""
FLAGS = """
    bf16 fp16 no-gradient-accumulation-fusion no-load-optim no-load-rng no-save-optim
    no-save-rng use-distributed-optimizer overlap-grad-reduce overlap-param-gather allow-tf32
    sequence-parallel qk-layernorm use-flash-attn use-mcore-models use-fused-rmsnorm swiglu
    use-fused-swiglu no-masked-softmax-fusion variable-seq-lengths log-tps log-throughput
    calculate-per-token-loss calculate-per-sample-loss untie-embeddings-and-output-weights
"""


def parse(argv: list[str]) -> dict[str, Any]:
    """Return the options given, by name without dashes; exit 2 with one line for a wrong one."""
    parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS)
    for names, kind in ((FLOATS, float), (INTEGERS, int), (TEXTS, str)):
        for name in names.split():
            parser.add_argument(f"--{name}", dest=name, type=kind)
    for name in FLAGS.split():
        parser.add_argument(f"--{name}", dest=name, action="store_true")
    return vars(parser.parse_args(argv))
