"""Makes ``import torch`` mean mindtorch (PyTorch's interface on MindSpore) and mends it on cpu.

Each fix says what is wrong upstream, why, and what cures it; a fix stays only as long as the
operation sweep shows a defect without it (``LMSV_ADAPTER_WITHOUT=<name>[,<name>]`` takes single
fixes out, ``LMSV_ADAPTER_FIXES=off`` all of them). mindtorch looks its cpu functions up by name at
each call (``mindtorch.dispatcher``): a function set on ``mindtorch._apis.cpu`` is used everywhere.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Install = Callable[[Any, Any], None]
VERSIONS = "mindnlp 0.5.1 (its mindtorch) on MindSpore 2.7.1"
EXP_KERNEL = "MindSpore's cpu kernel approximates exp to about 17 bits of the 24 of float32"


@dataclass(frozen=True)
class Fix:
    """One defect of the adapter and its cure; ``install`` takes mindtorch and its cpu functions."""

    name: str
    symptom: str
    cause: str
    cure: str
    install: Install
    shown_by: tuple[str, ...]
    """Operations of the sweep that differ from PyTorch's without the fix."""
    versions: str = VERSIONS


def _move_to(mindtorch: Any, cpu: Any) -> None:
    original = mindtorch.Tensor._move_to

    def move_to(self: Any, device: Any, non_blocking: bool = False) -> Any:
        if device.type == "cpu" and self.device.type == "cpu":
            return self
        return original(self, device, non_blocking)

    mindtorch.Tensor._move_to = move_to


def _float(mindtorch: Any, cpu: Any) -> None:
    mindtorch.Tensor.__float__ = lambda self: float(self.item())


def _in_float64(name: str) -> Install:
    """Replaces the cpu function *name*: float32 goes through its float64 kernel, which is exact."""

    def install(mindtorch: Any, cpu: Any) -> None:
        original = getattr(cpu, name)

        def precise(tensor: Any, *arguments: Any, **options: Any) -> Any:
            if tensor.dtype != mindtorch.float32:
                return original(tensor, *arguments, **options)
            wide = original(cpu.cast(tensor, mindtorch.float64), *arguments, **options)
            return cpu.cast(wide, mindtorch.float32)

        setattr(cpu, name, precise)

    return install


def _log_softmax(mindtorch: Any, cpu: Any) -> None:
    original = cpu.log_softmax

    def log_softmax(tensor: Any, axis: int, dtype: Any = None) -> Any:
        result = tensor.dtype if dtype is None else dtype
        if result not in (mindtorch.float32, mindtorch.float64):
            return original(tensor, axis, dtype)
        wide = cpu.cast(tensor, mindtorch.float64)
        # The largest value of a row shifts the row and changes no result: it carries no gradient.
        shifted = cpu.sub(wide, cpu.stop_gradient(cpu.reduce_max(wide, axis, True)))
        total = cpu.log(cpu.sum(cpu.exp(shifted), axis, True, None))
        return cpu.cast(cpu.sub(shifted, total), result)

    cpu.log_softmax = log_softmax


def _addcdiv(mindtorch: Any, cpu: Any) -> None:
    def addcdiv(tensor: Any, numerator: Any, denominator: Any, value: float = 1.0) -> Any:
        return cpu.add(tensor, cpu.mul(cpu.div(numerator, denominator), value))

    cpu.addcdiv = addcdiv


def _inplace_copy(mindtorch: Any, cpu: Any) -> None:
    original = cpu.inplace_copy

    def inplace_copy(target: Any, value: Any) -> Any:
        if value.shape != target.shape and value.numel() > 1:
            value = cpu.broadcast_to(value, target.shape)
        return original(target, value)

    cpu.inplace_copy = inplace_copy


def _vector_norm(mindtorch: Any, cpu: Any) -> None:
    original = cpu.linalg_vector_norm

    def vector_norm(
        tensor: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
    ) -> Any:
        if dim is None:
            dim = tuple(range(tensor.ndim))
        return original(tensor, ord, dim, keepdim, dtype)

    cpu.linalg_vector_norm = vector_norm


def _profiler(mindtorch: Any, cpu: Any) -> None:
    mindtorch.autograd.profiler = mindtorch.profiler


def _reshape(mindtorch: Any, cpu: Any) -> None:
    from mindspore.ops.auto_generate import contiguous

    original = cpu.reshape

    def reshape(tensor: Any, shape: Any) -> Any:
        # A parameter that is made contiguous twice in one graph has no gradient any more.
        return original(tensor if tensor.is_contiguous() else contiguous(tensor), shape)

    cpu.reshape = reshape


FIXES = (
    Fix(
        name="move_to",
        symptom="`a - b`, `x.to(x.device)` and all that is built on them (mse_loss, guidance ...) "
        "have zero gradient, silently",
        cause="Tensor._move_to rebuilds a cpu tensor from NumPy even where it is on cpu already, "
        "which cuts the graph; ops.sub calls .to(device) on its inputs",
        cure="a tensor that is on cpu already is returned as it is",
        install=_move_to,
        shown_by=("sub", "mse_loss", "to_same_device", "guidance"),
    ),
    Fix(
        name="float",
        symptom="float(tensor) is rounded to 5 decimals: a loss loses digits, 1e-6 becomes 0",
        cause="Tensor.__float__ returns round(float(self.item()), 5)",
        cure="the number itself",
        install=_float,
        shown_by=("number_float",),
    ),
    Fix(
        name="exp",
        symptom="torch.exp of float32 is off by up to 2e-5 relative (torch: 6e-8); through the "
        "time-step frequencies this was nearly the whole gap between the stacks",
        cause=EXP_KERNEL,
        cure="computed in float64 and rounded to float32",
        install=_in_float64("exp"),
        shown_by=("exp", "time_frequencies"),
    ),
    Fix(
        name="tanh",
        symptom="torch.tanh of float32 is off by up to 1e-4 near +-5 (torch: 6e-8)",
        cause="MindSpore's float32 cpu kernel of Tanh is a rational approximation with a clamp",
        cure="computed in float64 and rounded to float32",
        install=_in_float64("tanh"),
        shown_by=("tanh",),
    ),
    Fix(
        name="sigmoid",
        symptom="torch.sigmoid of float32 is off by 2e-6 relative (torch: 1e-7)",
        cause=EXP_KERNEL,
        cure="computed in float64 and rounded to float32",
        install=_in_float64("sigmoid"),
        shown_by=("sigmoid",),
    ),
    Fix(
        name="silu",
        symptom="F.silu of float32 is off by 2e-6 relative (torch: 1e-7)",
        cause=EXP_KERNEL + "; cpu.silu calls the kernel of Sigmoid itself",
        cure="computed in float64 and rounded to float32",
        install=_in_float64("silu"),
        shown_by=("silu",),
    ),
    Fix(
        name="softmax",
        symptom="torch.softmax of float32 is off by 5e-6 relative (torch: 3e-7)",
        cause=EXP_KERNEL,
        cure="computed in float64 and rounded to float32",
        install=_in_float64("softmax"),
        shown_by=("softmax",),
    ),
    Fix(
        name="log_softmax",
        symptom="F.log_softmax of float32, and with it cross_entropy, is off by 4e-6 absolute",
        cause=EXP_KERNEL + "; the float64 kernel of LogSoftmax is no better",
        cure="written with exp and log in float64 and rounded",
        install=_log_softmax,
        shown_by=("log_softmax", "float64_functions"),
    ),
    Fix(
        name="addcdiv",
        symptom="torch.addcdiv, and with it the step of torch.optim.AdamW, is missing",
        cause="mindtorch has no cpu implementation",
        cure="written as input + value * (tensor1 / tensor2)",
        install=_addcdiv,
        shown_by=("addcdiv", "adamw"),
    ),
    Fix(
        name="inplace_copy",
        symptom="p.copy_(x) fails where x has to be broadcast",
        cause="cpu.inplace_copy fills the target with the value as if it were a single number",
        cure="the value is broadcast to the target's shape first",
        install=_inplace_copy,
        shown_by=("copy_broadcast",),
    ),
    Fix(
        name="vector_norm",
        symptom="torch.norm(x) and torch.nn.utils.clip_grad_norm_ fail",
        cause="cpu.linalg_vector_norm gives dim=None on to LpNorm, which wants axes",
        cure="None becomes all axes",
        install=_vector_norm,
        shown_by=("clip_grad_norm",),
    ),
    Fix(
        name="reshape",
        symptom="the process dies when it ends (malloc: unaligned fastbin chunk), or earlier",
        cause="with launch_blocking, MindSpore's Reshape of a transposed tensor on cpu damages the "
        "heap where no gradient is recorded",
        cure="the tensor is laid out in memory first",
        install=_reshape,
        shown_by=(),  # its results are right: a test of its own sees how the process ends
    ),
    Fix(
        name="profiler",
        symptom="optimizer.zero_grad() fails",
        cause="optim.Optimizer uses autograd.profiler.record_function; mindtorch.autograd has no "
        "profiler, mindtorch.profiler has the function",
        cure="mindtorch.autograd.profiler is mindtorch.profiler",
        install=_profiler,
        shown_by=("zero_grad",),
    ),
)


def selected(fixes: bool = True) -> tuple[Fix, ...]:
    """The fixes to install, by the switches of the environment; ValueError for an unknown name."""
    if not fixes or os.environ.get("LMSV_ADAPTER_FIXES", "on") == "off":
        return ()
    without = {name for name in os.environ.get("LMSV_ADAPTER_WITHOUT", "").split(",") if name}
    unknown = without - {fix.name for fix in FIXES}
    if unknown:
        known = ", ".join(fix.name for fix in FIXES)
        raise ValueError(f"LMSV_ADAPTER_WITHOUT: no fix named {sorted(unknown)}; known: {known}")
    return tuple(fix for fix in FIXES if fix.name not in without)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keeps the garbage collector off while modules load: 0.17 s of 1.4 s, nothing is garbage.

    What was loaded is then left out of later collections too.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def boot() -> Any:
    """Starts MindSpore on cpu, single-threaded and synchronous, and returns mindtorch."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GLOG_v", "3")
    with _without_collections():
        import mindspore

        # Without these a step of a small network takes 1.4-3 s instead of 0.1 s.
        mindspore.set_device("CPU")
        mindspore.runtime.launch_blocking()
        mindspore.runtime.dispatch_threads_num(1)
        mindspore.device_context.cpu.op_tuning.threads_num(1)
        import mindtorch

    return mindtorch


def install(fixes: bool = True) -> tuple[str, ...]:
    """Boots mindtorch as ``torch`` and installs the fixes; returns their names."""
    chosen = selected(fixes)
    mindtorch = boot()
    from mindtorch._apis import cpu

    for fix in chosen:
        fix.install(mindtorch, cpu)
    return tuple(fix.name for fix in chosen)
