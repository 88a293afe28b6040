"""Faults of optimizer, gradient accumulation and schedule."""

from __future__ import annotations

import numpy as np
import torch
from cpu import stack
from cpu.optimizer import AdamW, Schedule
from cpu.training import Batches
from plants.field import plant


def prepared(change):
    """Return a patch of AdamW that lets *change* alter a new optimizer."""
    right = AdamW.__init__

    def init(self, configuration, named_parameters):
        right(self, configuration, named_parameters)
        change(self, configuration)

    return [(AdamW, "__init__", init)]


def planned(change):
    """Return a patch of Schedule that lets *change* alter a new schedule."""
    right = Schedule.__init__

    def init(self, configuration, steps):
        right(self, configuration, steps)
        change(self, steps)

    return [(Schedule, "__init__", init)]


@plant("no-bias-correction")
def no_bias_correction():
    def change(self, configuration):
        self._updates = 10**6

    return prepared(change)


@plant("beta2-default")
def beta2_default():
    def change(self, configuration):
        self.beta2 = 0.999

    return prepared(change)


@plant("adam-eps-in-root")
def adam_eps_in_root():
    right, update, held = torch.sqrt, AdamW.update, {}

    def told(self, gradient, norm, rate):
        held["eps"] = self.eps
        update(self, gradient, norm, rate)

    return [(AdamW, "update", told), (torch, "sqrt", lambda x: right(x + held["eps"]))]


@plant("decay-everywhere")
def decay_everywhere():
    def change(self, configuration):
        decay = float(configuration.read("/args/weight-decay", 0.01))
        self._decay = torch.tensor(np.full(sum(self.sizes), decay, np.float32))

    return prepared(change)


@plant("decay-ignored")
def decay_ignored():
    def change(self, configuration):
        self._decay = self._decay * 0.0

    return prepared(change)


@plant("decay-in-gradient")
def decay_in_gradient():
    right = AdamW.update

    def update(self, gradient, norm, rate):
        decay, self._decay = self._decay, self._decay * 0.0
        right(self, gradient + decay * self._flat, norm, rate)
        self._decay = decay

    return [(AdamW, "update", update)]


@plant("clip-ignored")
def clip_ignored():
    def change(self, configuration):
        self.clip = 0.0

    return prepared(change)


@plant("clip-by-parameter")
def clip_by_parameter():
    right = AdamW.update

    def update(self, gradient, norm, rate):
        _, norms = self.norms(gradient.detach().numpy())
        shares = [min(1.0, self.clip / (each + 1e-6)) for each in norms.values()]
        factors = np.repeat(np.asarray(shares, np.float32), self.sizes)
        right(self, gradient * torch.tensor(factors), 0.0, rate)

    return [(AdamW, "update", update)]


@plant("first-moment-bfloat16")
def first_moment_bfloat16():
    from plants.field import cut

    right = AdamW.update

    def update(self, gradient, norm, rate):
        right(self, gradient, norm, rate)
        self._first = cut(self._first, 8)

    return [(AdamW, "update", update)]


@plant("vectors-not-updated")
def vectors_not_updated():
    right, update, held = stack.assign, AdamW.update, {"updating": False}

    def assign(parameter, values):
        if not (held["updating"] and len(parameter.shape) == 1):
            right(parameter, values)

    def told(self, gradient, norm, rate):
        held["updating"] = True
        update(self, gradient, norm, rate)
        held["updating"] = False

    return [(stack, "assign", assign), (AdamW, "update", told)]


@plant("accumulation-keeps-last")
def accumulation_keeps_last():
    return _accumulated(lambda place, count: place == count - 1)


@plant("accumulation-stops-at-three")
def accumulation_stops_at_three():
    return _accumulated(lambda place, count: place < 3)


def _accumulated(is_kept):
    """Return patches that drop the gradients of the micro-batches that are not kept."""
    init, right, held = Batches.__init__, stack.value_and_gradients, {}

    def told(self, configuration, workers):
        init(self, configuration, workers)
        held["count"], held["place"] = self.accumulation, 0

    def value_and_gradients(function, parameters):
        whole = right(function, parameters)

        def on_stack(*inputs):
            loss, gradients = whole(*inputs)
            place = held["place"]
            held["place"] = (place + 1) % held["count"]
            if is_kept(place, held["count"]):
                return loss, gradients
            return loss, [gradient * 0.0 for gradient in gradients]

        return on_stack

    return [(Batches, "__init__", told), (stack, "value_and_gradients", value_and_gradients)]


@plant("rate-one-step-late")
def rate_one_step_late():
    right = Schedule.rate
    return [(Schedule, "rate", lambda self, done: right(self, max(done - 1, 0)))]


@plant("warmup-ignored")
def warmup_ignored():
    def change(self, steps):
        self.warmup = 0

    return planned(change)


@plant("warmup-from-zero")
def warmup_from_zero():
    def change(self, steps):
        self.start = 0.0

    return planned(change)


@plant("decay-steps-are-run-steps")
def decay_steps_are_run_steps():
    def change(self, steps):
        self.length = steps

    return planned(change)


@plant("min-rate-ignored")
def min_rate_ignored():
    def change(self, steps):
        self.bottom = 0.0

    return planned(change)


@plant("inverse-root-is-linear")
def inverse_root_is_linear():
    def change(self, steps):
        if self.style == "inverse-square-root":
            self.style = "linear"

    return planned(change)


@plant("linear-is-cosine")
def linear_is_cosine():
    def change(self, steps):
        if self.style == "linear":
            self.style = "cosine"

    return planned(change)
