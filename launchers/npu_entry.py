"""What the entry wrapper does on npu: patch points in MindSpeed-MM, installed as it is imported.

The entry script and MindSpeed-MM stay as they are on disk. Each patch wraps one function when its
module has been imported, before anything else can bind the name: initial weights filled or taken
note of, loss and grad norm of each step at full precision, the generation call timed, configuration
keys noted as they are read. At the end the peak memory is asked of the stack itself.

Limits: a patch point that this version of MindSpeed-MM does not have is left out with one line on
stderr, and what it would have told is missing from the record, never guessed.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import npu_msprobe
import npu_reads
import npu_weights
from lmsv_record import RECORD

MB = 1024 * 1024
Patch = Callable[[Any], None]
PACKAGES = ("torch", "torch_npu", "mindspore", "msadapter", "mindspeed", "mindspeed_mm")
LIBRARIES = ("megatron_core", "transformers", "diffusers", "safetensors", "numpy")


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a patch with its module right after the module was executed."""

    def __init__(self, patches: dict[str, list[Patch]]) -> None:
        self.patches = dict(patches)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in self.patches:
            return None
        patches = self.patches.pop(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            for patch in patches:
                try:
                    patch(module)
                except AttributeError as missing:
                    print(f"lmsv: {name}: no patch point: {missing}", file=sys.stderr)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install(script: str) -> None:
    """Prepare the patches that belong to the entry *script*."""
    npu_msprobe.demand()
    patches: dict[str, list[Patch]] = {
        "mindspeed_mm.configs.config": [npu_reads.watch],
        "mindspeed_mm.utils.transformer_model_config": [npu_reads.follow],
        "mindspeed_mm.training": [training],
        "mindspeed_mm.tasks.inference.pipeline.parallel_wrapper": [loading],
        "mindspeed_mm.tasks.inference.pipeline.opensora_pipeline": [sora_parts],
    }
    point = os.environ.get("LMSV_PATCH_POINT", "")
    if point:
        module, _, function = point.partition(":")
        if npu_msprobe.steps():
            patches.setdefault(module, []).append(
                lambda found: npu_msprobe.generation(found, function)
            )
        patches.setdefault(module, []).append(lambda found: timed(found, function))
    if npu_msprobe.steps():  # inside of what tells the record
        patches["mindspeed_mm.training"].insert(0, npu_msprobe.training)
    sys.meta_path.insert(0, AfterImport(patches))
    adaptor = os.environ.get("LMSV_OPENSORA_MSA_ADAPTOR", "off") == "on"
    if script == "inference_sora.py" and os.environ.get("LMSV_STACK") == "msa" and adaptor:
        # The script never imports it; with it another configuration than the shipped one is tested.
        importlib.import_module("mindspeed.megatron_adaptor")
        importlib.import_module("mindspeed_mm.mindspore.mindspore_adaptor")


def training(module: Any) -> None:
    """Patch MindSpeed-MM's trainer: weights after set-up, loss and grad norm after each step."""
    set_up, step = module.setup_model_and_optimizer, module.train_step

    def setup_model_and_optimizer(*args: Any, **kwargs: Any) -> Any:
        made = set_up(*args, **kwargs)
        begin(made[0], made[1])
        if os.environ.get("LMSV_SHARED_RANDOMNESS") == "on":
            import npu_randomness

            npu_randomness.install()
        return made

    count = 0

    def train_step(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        result = step(*args, **kwargs)
        count += 1
        if count == 1:
            npu_reads.stop()
        if os.environ.get("LMSV_SHARED_RANDOMNESS") == "on":
            import npu_randomness

            npu_randomness.next_step()
        losses, norm = result[0], result[2]
        if losses:
            loss = losses.get("loss", next(iter(losses.values())))
            RECORD.step(count, plain(loss), plain(norm), None)
        else:
            RECORD.facts["steps"] = count  # a rank before the last pipeline stage has no loss
        return result

    module.setup_model_and_optimizer = setup_model_and_optimizer
    module.train_step = train_step


def loading(module: Any) -> None:
    """Patch the inference wrapper: note the weights once they are loaded, or fill them."""
    load = module.load_checkpoint

    def load_checkpoint(model: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = load(model, *args, **kwargs)
        begin(model, None)
        return loaded

    module.load_checkpoint = load_checkpoint


def sora_parts(module: Any) -> None:
    """Patch OpenSora's pipeline: note the weights of its three networks."""
    make = module.OpenSoraPipeline.__init__

    def init(self: Any, vae: Any, text_encoder: Any, *args: Any, **kwargs: Any) -> None:
        make(self, vae, text_encoder, *args, **kwargs)
        parts = {"vae": vae, "text_encoder": text_encoder, "predictor": self.predict_model}
        held = {}
        npu_msprobe.NETWORKS[:] = parts.values()
        for prefix, network in parts.items():
            if noise := int(os.environ.get("LMSV_NOISE_RUN") or 0):
                npu_weights.move(network, int(os.environ.get("LMSV_SEED") or 43), noise)
            for name, facts in npu_weights.held(network).items():
                held[f"{prefix}.{name}"] = facts
        note(held)

    module.OpenSoraPipeline.__init__ = init


def begin(model: Any, optimizer: Any) -> None:
    """Fill the weights where fresh ones are asked for, and note what the run starts from.

    A noise run moves them (docs/drift.md).
    """
    networks = model if isinstance(model, list) else [model]
    npu_msprobe.NETWORKS[:] = networks
    seed = int(os.environ.get("LMSV_SEED") or 43)
    noise = int(os.environ.get("LMSV_NOISE_RUN") or 0)
    fresh = os.environ.get("LMSV_FRESH_WEIGHTS") == "1"
    if fresh:
        for network in networks:
            npu_weights.fill(network, seed)
    for network in networks if noise else ():
        npu_weights.move(network, seed, noise)
    if optimizer is not None and (fresh or noise):
        # The optimizer holds its own copies of the weights.
        optimizer.reload_model_params()
    held: dict[str, Any] = {}
    for number, network in enumerate(networks):
        prefix = f"chunk{number}." if len(networks) > 1 else ""
        for name, facts in npu_weights.held(network).items():
            held[prefix + name] = facts
    note(held)


def note(held: dict[str, Any]) -> None:
    """Begin the record with the weights, versions and what is known of the ranks."""
    RECORD.begin(parameters=held, versions=versions(), rank=RECORD.rank)


def timed(module: Any, function: str) -> None:
    """Patch ``Class.method`` or a function of *module*: add its seconds to generation_s."""
    *owners, name = function.split(".")
    owner = module
    for part in owners:
        owner = getattr(owner, part)
    call = getattr(owner, name)

    def generation(*args: Any, **kwargs: Any) -> Any:
        synchronize()
        start = time.perf_counter()
        result = call(*args, **kwargs)
        synchronize()
        seconds = time.perf_counter() - start
        RECORD.facts["generation_s"] = (RECORD.facts["generation_s"] or 0.0) + seconds
        RECORD.facts["steps"] = int(os.environ.get("TRAIN_ITERS", "0")) or None
        shape = getattr(result, "shape", None)
        RECORD.facts["output_shape"] = [int(size) for size in shape] if shape is not None else None
        npu_reads.stop()
        return result

    setattr(owner, name, generation)


def complete() -> None:
    """Add to the record what is known only at the end; stop where an inference made nothing."""
    point = os.environ.get("LMSV_PATCH_POINT", "")
    if point and RECORD.rank == 0 and RECORD.facts["generation_s"] is None:
        sys.exit(f"lmsv: error: the generation call {point} never ended: no output was made")
    allocated, reserved = memory()
    RECORD.facts.update(
        memory_mb=allocated,
        memory_kind="allocated" if allocated is not None else None,
        memory_reserved_mb=reserved,
        echo=npu_reads.values(),
        versions=RECORD.facts["versions"] or versions(),
    )


def memory() -> tuple[float | None, float | None]:
    """Return the peak of allocated and of reserved device memory (MB), by the stack's own call."""
    for device in devices():
        try:
            allocated, reserved = device.max_memory_allocated(), device.max_memory_reserved()
        except (AttributeError, RuntimeError, TypeError):
            continue
        return round(allocated / MB, 3), round(reserved / MB, 3)
    return None, None


def synchronize() -> None:
    """Wait until the device has done all that it was asked for: operations are asynchronous."""
    for device in devices():
        try:
            device.synchronize()
        except (AttributeError, RuntimeError, TypeError):
            continue
        return


def devices() -> list[Any]:
    """Return the modules that may speak for the device, the stack's own first."""
    if os.environ.get("LMSV_STACK") == "msa":
        runtime = getattr(sys.modules.get("mindspore"), "runtime", None)
        found = [runtime, getattr(sys.modules.get("mindspore"), "hal", None)]
    else:
        found = [getattr(sys.modules.get("torch"), "npu", None)]
    return [device for device in found if device is not None]


def plain(value: Any) -> float:
    """Return a loss or norm as a number."""
    if value is None:
        return float("nan")
    return float(value.item() if hasattr(value, "item") else value)


def versions() -> dict[str, str]:
    """Return the versions of what decides the figures."""
    found = {"python": sys.version.split()[0]}
    for name in (*PACKAGES, *LIBRARIES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    cann = cann_version()
    return {**found, "cann": cann} if cann else found


def cann_version() -> str | None:
    """Return CANN's version from the file that its installer leaves, None where there is none."""
    home = os.environ.get("ASCEND_HOME_PATH", "")
    for name in ("version.cfg", "compiler/version.info", "ascend_toolkit_install.info"):
        path = Path(home, name)
        if home and path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                key, equals, value = line.partition("=")
                if equals and key.strip().lower() in {"version", "toolkit_installed_version"}:
                    return value.strip().strip("[]").split(":")[-1]
    return None
