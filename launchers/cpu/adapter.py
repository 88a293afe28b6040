"""Boots mindtorch as ``torch`` on MindSpore's CPU and mends the defects that training meets."""

from __future__ import annotations

import os


def install(fixes: bool = True) -> None:
    """Make ``import torch`` mean mindtorch; with *fixes* off its known defects stay in place."""
    import mindspore

    mindspore.set_device("CPU")
    mindspore.runtime.launch_blocking()
    mindspore.device_context.cpu.op_tuning.threads_num(1)
    mindspore.runtime.dispatch_threads_num(1)
    import mindtorch
    from mindtorch._apis import cpu

    if not fixes or os.environ.get("LMSV_ADAPTER_FIXES") == "off":
        return
    move = mindtorch.Tensor._move_to

    def move_unless_there(self, device, non_blocking=False):
        # cpu to cpu rebuilt the tensor from numpy, which cut the graph (every `a - b` goes there).
        if device.type == "cpu" and self.device.type == "cpu":
            return self
        return move(self, device, non_blocking)

    mindtorch.Tensor._move_to = move_unless_there
    single = cpu.exp

    def exp(x):
        # MindSpore's float32 exp on CPU is off by up to 1e-5.
        if x.dtype != mindtorch.float32:
            return single(x)
        y = single(x.double())
        y._device = x._device
        return y.float()

    cpu.exp = exp
