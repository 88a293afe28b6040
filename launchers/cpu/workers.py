"""The workers of one run: torch.distributed (gloo) on PTA, mindspore.communication on MSA."""

from __future__ import annotations

import os

from cpu import stack


class Workers:
    """Rank, number of workers, and the sum over them."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    def sum(self, tensor):
        """Return the sum of *tensor* over all workers."""
        if self.size == 1:
            return tensor
        if stack.NAME == "msa":
            from mindspore import ops

            total = ops.AllReduce()(tensor)
            total._device = tensor._device
            return total
        import torch.distributed

        total = tensor.clone()
        torch.distributed.all_reduce(total)
        return total

    def close(self) -> None:
        """Leave the group, so that no worker dies of another's exit."""
        if stack.NAME == "pta" and "RANK" in os.environ:
            import torch.distributed

            torch.distributed.destroy_process_group()


def join() -> Workers:
    """Join the group that the launcher started; outside a launcher, be the only worker."""
    if stack.NAME == "msa":
        if "MS_ROLE" not in os.environ:
            return Workers()
        from mindspore import communication

        communication.init()
        return Workers(communication.get_rank(), communication.get_group_size())
    if "RANK" not in os.environ:
        return Workers()
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    return Workers(torch.distributed.get_rank(), torch.distributed.get_world_size())
