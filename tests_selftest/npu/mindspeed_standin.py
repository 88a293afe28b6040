"""Writes a package with MindSpeed-MM's names: what the entry wrapper patches, and no more.

Its trainer and pipelines compute with real torch; only the networks are tiny.
"""

from __future__ import annotations

from pathlib import Path

CONFIG = """
import json, os

class ConfigReader:
    def __init__(self, values):
        for name, value in values.items():
            self.__dict__[name] = ConfigReader(value) if isinstance(value, dict) else value

    def to_dict(self):
        return {n: v.to_dict() if isinstance(v, ConfigReader) else v for n, v in vars(self).items()}

class MMConfig:
    def __init__(self, files):
        for name, path in files.items():
            with open(path) as file:
                setattr(self, name, ConfigReader(json.load(file)))

def args_external_path_checker(config):
    config.model.to_dict()
"""
MODEL_CONFIG = """
from mindspeed_mm.configs.config import ConfigReader

def get_model_config(config):
    return ConfigReader({**config.to_dict(), "kv_channels": 64})
"""
TRAINING = """
import os
import torch

# A steady difference of this stack, and one that the unmutated configuration does not have.
AWAY = 1.0
if os.environ.get("LMSV_STACK") == "msa":
    AWAY *= float(os.environ.get("STANDIN_AWAY", "1"))
    if "unmutated" not in os.environ["LMSV_RUN_ID"]:
        AWAY *= float(os.environ.get("STANDIN_NEW", "1"))

def setup_model_and_optimizer(model_provider):
    network = model_provider()
    class Optimizer(torch.optim.SGD):
        reloaded = 0
        def reload_model_params(self):
            Optimizer.reloaded += 1
    return [network], Optimizer(network.parameters(), lr=0.1), None

def train_step(network, optimizer):
    optimizer.zero_grad()
    loss = network(torch.randn(4, 3)).pow(2).mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(network.parameters(), 1e9)
    optimizer.step()
    return {"loss": loss.detach() * AWAY}, 0, float(norm) * AWAY, None

LINE = (" [2026-01-01 00:00:{step:02d}] iteration {step:8d}/{steps:8d} | consumed samples: "
        "{seen:12d} | elapsed time per iteration (ms): {ms:.1f} | learning rate: 2.000000E-05 | "
        "global batch size:   128 | loss: {loss:.6E} | loss scale: 1.0 | grad norm: {norm:.3f} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |")

def pretrain(model_provider, steps):
    networks, optimizer, _ = setup_model_and_optimizer(model_provider)
    for step in range(1, steps + 1):
        losses, _, norm, _ = train_step(networks[0], optimizer)
        print(LINE.format(step=step, steps=steps, seen=128 * step, ms=100.0,
                          loss=losses["loss"].item(), norm=norm), flush=True)
        if step == 1:
            print("[Rank 0] (after 1 iterations) memory (MB) | allocated: 10.0 | max allocated: "
                  "20.0 | reserved: 30.0 | max reserved: 30.0", flush=True)
    print("reloaded", optimizer.reloaded)
"""
MPU = """
def get_tensor_model_parallel_rank(): return 0
def get_tensor_model_parallel_world_size(): return 1
def get_pipeline_model_parallel_rank(): return 0
def get_data_parallel_rank(): return 0
"""
GET_ARGS = """
import argparse, json, sys
ARGS = argparse.Namespace(recompute_granularity=None, lr=2e-5, masked_softmax_fusion=False)
words = sys.argv[1:]
for at, word in enumerate(words):
    if word.startswith("--"):
        value = words[at + 1] if at + 1 < len(words) and not words[at + 1].startswith("--") else ""
        try:
            value = json.loads(value) if value else True
        except ValueError:
            pass
        setattr(ARGS, word[2:].replace("-", "_"), value)
def get_args(): return ARGS
"""
PRETRAIN_VLM = """
import os, sys
import torch
from mindspeed_mm.configs.config import MMConfig, args_external_path_checker
from mindspeed_mm.utils.transformer_model_config import get_model_config
from mindspeed_mm.training import pretrain

config = MMConfig({"model": os.environ["MM_MODEL"], "data": os.environ["MM_DATA"]})
args_external_path_checker(config)
if os.environ.get("STANDIN_READS_ALL"):  # a network that takes its configuration as keywords
    dict(**config.model.to_dict()), dict(**config.data.to_dict())

def model_provider():
    decoder = get_model_config(config.model.text_decoder)
    network = torch.nn.Sequential(torch.nn.Linear(3, decoder.hidden_size), torch.nn.ReLU(),
                                  torch.nn.Linear(decoder.hidden_size, 1))
    short = getattr(config.model, "dtype", "fp32")
    return network.to(torch.bfloat16 if short == "bf16" else torch.float32)

pretrain(model_provider, int(os.environ["TRAIN_ITERS"]))
"""
PIPELINE = """
import torch

class GenerationMixin:
    def generate(self, count):
        return torch.zeros(1, count)

class Qwen2VlPipeline(GenerationMixin):
    def __call__(self, count):
        return self.generate(count) if count else None
"""
INFERENCE_VLM = """
import os, torch
from mindspeed_mm.configs.config import MMConfig
from mindspeed_mm.tasks.inference.pipeline.parallel_wrapper import ParallelWrapper
from mindspeed_mm.tasks.inference.pipeline.qwen2vl_pipeline import Qwen2VlPipeline

ParallelWrapper(torch.nn.Linear(3, 2))
config = MMConfig({"model": os.environ["MM_MODEL"]})
Qwen2VlPipeline()(int(config.model.generation_config.max_new_tokens))
"""
PARALLEL_WRAPPER = """
def load_checkpoint(model, optimizer, scheduler, argument):
    return 0

class ParallelWrapper:
    def __init__(self, network):
        load_checkpoint([network], None, None, "load")
        self.network = network
"""
OPENSORA_PIPELINE = """
import torch

class OpenSoraPipeline:
    def __init__(self, vae, text_encoder, tokenizer, scheduler, predict_model, config=None):
        self.predict_model = predict_model

    def __call__(self, prompt):
        return torch.zeros(1, 2, 8, 8, 3)
"""
INFERENCE_SORA = """
import sys, torch
from mindspeed_mm.tasks.inference.pipeline.opensora_pipeline import OpenSoraPipeline

layer = lambda: torch.nn.Linear(2, 2)
pipeline = OpenSoraPipeline(vae=layer(), text_encoder=layer(), tokenizer=None, scheduler=None,
                            predict_model=layer())
pipeline(prompt=["x"])
with open("adaptor", "w") as file:
    file.write(str("mindspeed_mm.mindspore.mindspore_adaptor" in sys.modules))
"""
FILES = {
    "mindspeed_mm/configs/config.py": CONFIG,
    "mindspeed_mm/utils/transformer_model_config.py": MODEL_CONFIG,
    "mindspeed_mm/training.py": TRAINING,
    "mindspeed_mm/tasks/inference/pipeline/qwen2vl_pipeline.py": PIPELINE,
    "mindspeed_mm/tasks/inference/pipeline/parallel_wrapper.py": PARALLEL_WRAPPER,
    "mindspeed_mm/tasks/inference/pipeline/opensora_pipeline.py": OPENSORA_PIPELINE,
    "mindspeed_mm/mindspore/mindspore_adaptor.py": "",
    "mindspeed/megatron_adaptor.py": "",
    "megatron/core/mpu.py": MPU,
    "megatron/training/__init__.py": GET_ARGS,
    "pretrain_vlm.py": PRETRAIN_VLM,
    "inference_vlm.py": INFERENCE_VLM,
    "inference_sora.py": INFERENCE_SORA,
}


def write(folder: Path) -> Path:
    """Lays the package out in *folder* and returns it."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
