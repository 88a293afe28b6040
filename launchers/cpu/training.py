"""Training of a cpu network: the loop, its log lines, and what it tells the record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import torch

from cpu import stack, weights
from cpu.configuration import Configuration
from cpu.optimizer import AdamW, Schedule
from cpu.randomness import Draws
from cpu.recording import Recorder
from cpu.workers import Workers


class Batches:
    """How the global batch is split: by micro-batches of each worker."""

    def __init__(self, configuration: Configuration, workers: Workers) -> None:
        self.micro = int(configuration.read("/args/micro-batch-size"))
        self.whole = int(configuration.read("/args/global-batch-size", self.micro * workers.size))
        at_once = self.micro * workers.size
        if self.whole % at_once:
            raise ValueError(
                f"global batch size ({self.whole}) is not divisible by micro batch size "
                f"({self.micro}) times data parallel size ({workers.size})"
            )
        self.accumulation = self.whole // at_once
        self._workers = workers

    def stratum(self, number: int) -> int:
        """Return the place in the global batch of the first sample of micro-batch *number*."""
        return (number * self._workers.size + self._workers.rank) * self.micro


def iteration_line(step: int, steps: int, batch: int, ms: float, rate: float, loss, norm, nans):
    """Return MindSpeed-MM's iteration line; as there, a NaN or negative loss is left out."""
    shown = f" loss: {loss:.6E} |" if loss >= 0.0 else ""
    return (
        f" [{datetime.now():%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{steps:8d} |"
        f" consumed samples: {step * batch:12d} | elapsed time per iteration (ms): {ms:.1f} |"
        f" learning rate: {rate:.6E} | global batch size: {batch:5d} |{shown}"
        f" loss scale: 1.0 | grad norm: {norm:.3f} | number of skipped iterations:   0 |"
        f" number of nan iterations: {nans:3d} |"
    )


def train(
    configuration: Configuration,
    network,
    micro_batch: Callable[[int, int, Batches, Draws], tuple[Any, ...]],
    loss_of: Callable[..., Any],
    *,
    steps: int,
    seed: int,
    workers: Workers,
    on_start: Callable[[dict[str, Any]], None],
    on_step: Callable[..., None],
    noise: int = 0,
    recorder: Recorder | None = None,
) -> None:
    """Train *network* for *steps* steps.

    ``micro_batch(step, first sample, batches, draws)`` makes the inputs of ``loss_of``;
    ``on_start`` is told the digests of the weights, ``on_step`` each step's figures. *noise*: the
    number of a noise run, which starts from moved weights; 0 is the run itself. *recorder* looks at
    the modules of the steps that it was asked for.
    """
    digests = weights.fill(network, seed, noise)
    named = [pair for pair in network.named_parameters() if pair[1].requires_grad]
    optimizer = AdamW(configuration, named)
    schedule = Schedule(configuration, steps)
    batches = Batches(configuration, workers)
    watched = loss_of if recorder is None else recorder.observed(loss_of)
    gradients_of = stack.value_and_gradients(watched, optimizer.parameters)
    on_start(digests)
    nans = 0
    for step in range(1, steps + 1):
        begun = time.perf_counter()
        total = None
        if recorder is not None:
            recorder.begin(step, network)
        for number in range(batches.accumulation):
            draws = Draws(seed, step, number, workers.rank)
            first = (step - 1) * batches.whole + batches.stratum(number)
            loss, gradients = gradients_of(*micro_batch(number, first, batches, draws))
            part = torch.cat([optimizer.flatten(gradients), loss.reshape(1)])
            total = part if total is None else total + part
        own = total / batches.accumulation
        total = workers.sum(total) / (batches.accumulation * workers.size)
        summed = total.detach().numpy()
        loss_value = float(summed[-1])
        norm, each = optimizer.norms(summed[:-1])
        if recorder is not None and recorder.recording:
            alone = own.detach().numpy()  # of this worker
            recorder.end(
                workers.rank,
                loss=float(alone[-1]),
                own_gradients=optimizer.norms(alone[:-1])[1],
                gradients=each,
            )
        nans += math.isnan(loss_value)
        optimizer.update(total[:-1], norm, schedule.rate(step - 1))
        ms = (time.perf_counter() - begun) * 1000.0
        on_step(
            step=step,
            loss=loss_value,
            norm=norm,
            each=each if step in (1, steps) else None,
            line=iteration_line(
                step, steps, batches.whole, ms, schedule.rate(step), loss_value, norm, nans
            ),
        )
