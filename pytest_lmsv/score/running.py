"""Runs a plan: both stacks at once, each in a process that lives long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.score.plan import Configuration, Plan
from pytest_lmsv.score.rules import Answer, Pair, is_valid
from pytest_lmsv.score.servers import Request, Server, of_two_workers

Name = tuple[tuple[str, int, int], str, int]
"""Configuration, fault (empty without one) and number of the noise run (0: none) of a run."""


@dataclass
class Ran:
    """What the runs of a plan answered."""

    pta: dict[Name, Answer] = field(default_factory=dict)
    msa: dict[Name, Answer] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)

    def pair(self, configuration: Configuration, fault: str = "") -> Pair | None:
        """Return the runs to compare; None where PTA's is not valid."""
        pta = self.pta[(configuration.key, "", 0)]
        noise = self.pta[(configuration.key, "", 1)]
        if not (is_valid(pta) and is_valid(noise)):
            return None
        return Pair(pta, noise, self.msa[(configuration.key, fault, 0)])


@dataclass(frozen=True)
class Sides:
    """The two stacks, where the plants are, and the folder to work in."""

    pta: StackEnvironment
    msa: StackEnvironment
    plants: Path
    folder: Path


def run(
    plan: Plan, sides: Sides, *, steps: int, seed: int, say: Callable[[str], None] = print
) -> Ran:
    """Run everything that *plan* names. A baseline and its noise run are made once."""
    ran = Ran()
    stop = threading.Event()

    def request(configuration: Configuration, fault: str, noise: int) -> tuple[Name, Request]:
        asked: dict[str, Any] = {
            "model": configuration.model,
            "documents": configuration.documents,
            "steps": steps,
            "seed": seed,
        }
        if fault:
            asked["fault"] = fault
        if noise:
            asked["noise"] = noise
        return (configuration.key, fault, noise), asked

    def wanted(workers: int) -> tuple[dict[Name, Request], dict[Name, Request]]:
        pta = [request(each, "", k) for each in plan.configurations(workers) for k in (0, 1)]
        msa = [request(each, "", 0) for each in plan.clean if each.workers == workers]
        msa += [
            request(each, cell.fault.name, 0)
            for cell in plan.cells
            for each in cell.configurations
            if each.workers == workers
        ]
        return dict(pta), dict(msa)

    def serve(environment: StackEnvironment, asked: dict[Name, Request]) -> dict[Name, Answer]:
        begun, stack = time.monotonic(), environment.stack
        server = Server(environment, sides.plants, sides.folder / stack)
        answers: dict[Name, Answer] = {}
        try:
            for number, (name, each) in enumerate(asked.items(), start=1):
                if stop.is_set():
                    break
                answers[name] = server.ask(each)
                if number % 50 == 0 or number == len(asked):
                    passed = time.monotonic() - begun
                    say(f"{stack.upper()}: {number} of {len(asked)} runs, {passed:.0f} s")
        finally:
            server.close()
        ran.restarts[stack] = server.restarts
        ran.seconds[stack] = time.monotonic() - begun
        return answers

    pta, msa = wanted(1)
    with ThreadPoolExecutor(2) as both:
        halves = [both.submit(serve, sides.pta, pta), both.submit(serve, sides.msa, msa)]
        try:
            for half in as_completed(halves):  # a stack that does not start ends the other one too
                half.result()
        except BaseException:
            stop.set()
            raise
        ran.pta.update(halves[0].result())
        ran.msa.update(halves[1].result())
    pta, msa = wanted(2)
    for environment, asked, into in ((sides.pta, pta, ran.pta), (sides.msa, msa, ran.msa)):
        if asked:
            into.update(_together(environment, asked, sides, say))
    return ran


def _together(
    environment: StackEnvironment,
    asked: dict[Name, Request],
    sides: Sides,
    say: Callable[[str], None],
) -> dict[Name, Answer]:
    say(f"{environment.stack.upper()}: {len(asked)} runs with two workers")
    requests: Sequence[Request] = list(asked.values())
    folder = sides.folder / f"{environment.stack}-2"
    answers = of_two_workers(environment, sides.plants, folder, requests)
    return dict(zip(asked, answers, strict=True))
