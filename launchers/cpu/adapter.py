"""Makes ``import torch`` mean mindtorch (PyTorch's interface on MindSpore) and mends its defects on cpu.

Each fix says what is wrong upstream, why, and what cures it; a fix stays only as long as the operation
sweep shows a defect without it (``LMSV_ADAPTER_WITHOUT=<name>[,<name>]`` takes single fixes out,
``LMSV_ADAPTER_FIXES=off`` all of them). mindtorch looks its cpu functions up by name at each call
(``mindtorch.dispatcher``), so that a function set on ``mindtorch._apis.cpu`` is used everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fix:
    """One defect of the adapter and its cure."""

    name: str
    versions: str
    symptom: str
    cause: str
    cure: str
    install: Callable[[Any, Any], None]
    """Called with the modules ``mindtorch`` and ``mindtorch._apis.cpu``."""


def _move_to(mindtorch: Any, cpu: Any) -> None:
    original = mindtorch.Tensor._move_to

    def move_to(self: Any, device: Any, non_blocking: bool = False) -> Any:
        if device.type == "cpu" and self.device.type == "cpu":
            return self
        return original(self, device, non_blocking)

    mindtorch.Tensor._move_to = move_to


def _exp(mindtorch: Any, cpu: Any) -> None:
    original = cpu.exp

    def exp(tensor: Any) -> Any:
        if tensor.dtype != mindtorch.float32:
            return original(tensor)
        return cpu.cast(original(cpu.cast(tensor, mindtorch.float64)), mindtorch.float32)

    cpu.exp = exp


def _addcmul(mindtorch: Any, cpu: Any) -> None:
    def addcmul(tensor: Any, first: Any, second: Any, value: float = 1.0) -> Any:
        return cpu.add(tensor, cpu.mul(cpu.mul(first, second), value))

    cpu.addcmul = addcmul


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


VERSIONS = "mindnlp 0.5.1 (mindtorch), MindSpore 2.7.1"

FIXES = (
    Fix(
        name="move_to",
        versions=VERSIONS,
        symptom="`a - b` and `x.to(x.device)` have zero gradient, silently",
        cause="Tensor._move_to rebuilds a cpu tensor from NumPy even where it is on cpu already, "
        "which cuts the graph; ops.sub calls .to(device) on its inputs",
        cure="a tensor that is on cpu already is returned as it is",
        install=_move_to,
    ),
    Fix(
        name="exp",
        versions=VERSIONS,
        symptom="torch.exp of float32 is off by up to 1.3e-5 relative (torch: 6e-8)",
        cause="MindSpore's float32 cpu kernel of Exp is a low-order approximation",
        cure="computed in float64 and rounded to float32",
        install=_exp,
    ),
    Fix(
        name="addcmul",
        versions=VERSIONS,
        symptom="torch.addcmul fails or ignores its value",
        cause="the primitive wants `value` as a tensor of the inputs' type",
        cure="written as input + value * tensor1 * tensor2",
        install=_addcmul,
    ),
    Fix(
        name="addcdiv",
        versions=VERSIONS,
        symptom="torch.addcdiv, and with it torch.optim.AdamW.step, is missing",
        cause="mindtorch has no cpu implementation",
        cure="written as input + value * (tensor1 / tensor2)",
        install=_addcdiv,
    ),
    Fix(
        name="inplace_copy",
        versions=VERSIONS,
        symptom="copying a smaller tensor into a larger one (broadcast) fails",
        cause="cpu.inplace_copy fills with the value as if it were a scalar",
        cure="the value is broadcast to the target's shape first",
        install=_inplace_copy,
    ),
)


def selected(fixes: bool = True) -> tuple[Fix, ...]:
    """The fixes to install, after the switches of the environment; an unknown name is a ValueError."""
    if not fixes or os.environ.get("LMSV_ADAPTER_FIXES", "on") == "off":
        return ()
    without = {name for name in os.environ.get("LMSV_ADAPTER_WITHOUT", "").split(",") if name}
    unknown = without - {fix.name for fix in FIXES}
    if unknown:
        known = ", ".join(fix.name for fix in FIXES)
        raise ValueError(f"LMSV_ADAPTER_WITHOUT: no fix named {sorted(unknown)}; known: {known}")
    return tuple(fix for fix in FIXES if fix.name not in without)


def boot() -> Any:
    """Starts MindSpore on cpu, single-threaded and synchronous, and returns mindtorch."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("GLOG_v", "3")
    import mindspore

    # Without these a step of a small network takes 1.4-3 s instead of 0.1 s.
    mindspore.set_device("CPU")
    mindspore.runtime.launch_blocking()
    mindspore.runtime.dispatch_threads_num(1)
    mindspore.device_context.cpu.op_tuning.threads_num(1)
    import mindtorch

    return mindtorch


def install(fixes: bool = True) -> tuple[str, ...]:
    """Boots mindtorch as ``torch``, installs the fixes, and returns the names of those installed."""
    chosen = selected(fixes)
    mindtorch = boot()
    from mindtorch._apis import cpu

    for fix in chosen:
        fix.install(mindtorch, cpu)
    return tuple(fix.name for fix in chosen)
