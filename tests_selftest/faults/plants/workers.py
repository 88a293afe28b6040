"""Faults between workers: they show from two workers on."""

from __future__ import annotations

import torch
from cpu.randomness import Draws
from cpu.training import Batches
from cpu.workers import Workers
from plants.field import plant


@plant("all-reduce-missing")
def all_reduce_missing():
    return [(Workers, "sum", lambda self, tensor: tensor)]


@plant("all-reduce-doubled")
def all_reduce_doubled():
    right = Workers.sum
    return [(Workers, "sum", lambda self, tensor: right(self, right(self, tensor)))]


@plant("all-reduce-averages")
def all_reduce_averages():
    right = Workers.sum
    return [(Workers, "sum", lambda self, tensor: right(self, tensor) / float(self.size))]


@plant("all-reduce-loses-last-bucket")
def all_reduce_loses_last_bucket():
    right = Workers.sum

    def total(self, tensor):
        whole, kept = right(self, tensor), tensor.shape[0] * 7 // 8
        # The loss, the last number, is reduced by itself.
        return torch.cat([whole[:kept], tensor[kept:-1] * float(self.size), whole[-1:]])

    return [(Workers, "sum", total)]


@plant("workers-read-the-same")
def workers_read_the_same():
    def stratum(self, number):
        return number * self._workers.size * self.micro

    return [(Batches, "stratum", stratum)]


@plant("workers-draw-the-same")
def workers_draw_the_same():
    right = Draws.__init__

    def init(self, seed, step, micro_batch, rank):
        right(self, seed, step, micro_batch, 0)

    return [(Draws, "__init__", init)]
