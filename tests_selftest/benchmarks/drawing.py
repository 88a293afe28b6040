"""Iterations until faults show that need a certain value, by three ways of drawing mutations.

    python tests_selftest/benchmarks/drawing.py [MODEL ...] [--device cpu] [--seeds 100]

A fault shows in an iteration whose configuration meets its condition. Kinds of conditions:

value       one key holds one certain value
key         one key holds any value but the unmutated one
threshold   one key holds its two highest or two lowest values (keys with three or more numbers)
two keys    two certain keys both hold values other than the unmutated ones
bank        with --bank: the planted faults of that folder that show only where the model is mutated

Ways: ``ours`` (mutation/draw.py); ``uniform``, a key and then a value, all as likely; ``walk``,
what Task6 did: each iteration starts from the one before, and of every component of the model
document as many keys of its top level as there are edits get another value; a walk that breaks a
constraint is rolled back (its run would have failed). ``walk, its pool`` may move only the keys
that Task6's pool reached. Conditions that a way never meets count as LIMIT + 1 iterations.
"""

from __future__ import annotations

import argparse
import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import combinations
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pytest_lmsv import catalog
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.mutation import pointer
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.draw import draw
from pytest_lmsv.mutation.space import Key, Space

LIMIT = 600
COUNT = 2
GROUP = 12
"""Faults of one bank that depend on the configuration."""
POOL = {
    "cogvideox": {"/model/text_encoder/ucg_rate", "/model/ae/conv_padding"},
    "opensora": {"/model/predictor/space_scale", "/model/predictor/time_scale"},
    "internvl3": {
        f"/model/text_decoder/{name}"
        for name in (
            *("max_position_embeddings", "vocab_size", "init_method_std", "activation_func"),
            *("attention_softmax_in_fp32", "use_fused_rotary_pos_emb", "parallel_output"),
            "group_query_attention",
        )
    },
}
POOL["qwenvl"] = POOL["internvl3"] | {
    "/model/text_decoder/untie_embeddings_and_output_weights",
    "/model/text_decoder/disable_bias_linear",
}
Changes = Mapping[str, Any]
"""The keys that are away from their unmutated value, and what they hold."""
Condition = Callable[[Changes], bool]
Way = Callable[[int], Iterator[Changes]]
"""From a seed to the configurations of iterations 1, 2, ..."""


def others(space: Space, key: Key) -> list[Any]:
    """The values of *key* other than the unmutated one."""
    present = pointer.get(space.documents, key.path)
    return [value for value in key.values if not pointer.same(value, present)]


def is_in(path: str, values: Sequence[Any]) -> Condition:
    """The condition that *path* was changed to one of *values*."""
    return lambda changes: path in changes and any(pointer.same(changes[path], v) for v in values)


def both(one: Condition, other: Condition) -> Condition:
    """The condition that *one* and *other* hold."""
    return lambda changes: one(changes) and other(changes)


def conditions(space: Space) -> dict[str, list[Condition]]:
    """All conditions of each kind; of two keys a sample."""
    keys = [(key.path, found) for key in space.drawn() if (found := others(space, key))]
    anything = [is_in(path, found) for path, found in keys]
    pairs = random.Random(1).sample(list(combinations(anything, 2)), min(60, len(keys)))
    ranges = []
    for path, found in keys:
        if len(found) > 2 and all(type(value) in (int, float) for value in found):
            ranges += [is_in(path, sorted(found)[-2:]), is_in(path, sorted(found)[:2])]
    return {
        "value": [is_in(path, [value]) for path, found in keys for value in found],
        "key": anything,
        "threshold": ranges,
        "two keys": [both(one, other) for one, other in pairs],
    }


def planted(folder: Path, spec: ModelSpec, device: Any) -> list[Condition]:
    """The faults of the bank in *folder* that show only where *spec* is mutated."""
    bank = import_module("pytest_lmsv.score.bank")  # only where a bank is given
    home = spec.documents(device)
    latest: list[Any] = [None, None]

    def mutated(changes: Changes) -> Any:
        if latest[0] is not changes:
            documents = copy.deepcopy(home)
            for path, value in changes.items():
                pointer.put(documents, path, value)
            latest[:] = [changes, documents]
        return latest[1]

    def shows(fault: Any) -> Condition:
        return lambda changes: fault.shows(spec.name, mutated(changes))

    faults = [f for f in bank.load(folder) if f.by_keys(spec.name, home) and not f.equivalent]
    return [shows(fault) for fault in faults]


def ours(spec: ModelSpec, device: Any) -> Way:
    """What a campaign draws."""

    def configurations(seed: int) -> Iterator[Changes]:
        for number in range(1, LIMIT + 1):
            mutation = draw(spec, device, seed=seed, iteration=number, attempt=1, count=COUNT)
            yield {edit.path: edit.new for edit in mutation.edits}

    return configurations


def uniform(space: Space) -> Way:
    """A key of those that may change, then a value of those that it may take."""
    choices = Choices(space.documents, space.drawn(), space.constraints, space.layout)
    remembered: dict[str, list[tuple[Key, tuple[Any, ...]]]] = {}

    def configurations(seed: int) -> Iterator[Changes]:
        chance = random.Random(seed)
        for _ in range(LIMIT):
            changes: dict[str, Any] = {}
            for left in range(COUNT, 0, -1):
                state = pointer.canonical([left, changes])
                if state not in remembered:
                    remembered[state] = list(choices.after(changes, left).items())
                key, values = chance.choice(remembered[state])
                changes.update(dict.fromkeys(key.paths, chance.choice(values)))
            yield changes

    return configurations


def walk(space: Space, paths: set[str] | None = None) -> Way:
    """Task6's walk over the keys at the top level of each component, or over *paths* of these."""
    choices = Choices(space.documents, space.drawn(), space.constraints, space.layout)
    components: dict[str, list[Key]] = {}
    for key in space.drawn():
        parts = key.path.split("/")
        if len(parts) == 4 and parts[1] == "model" and (paths is None or key.path in paths):
            components.setdefault(parts[2], []).append(key)

    def configurations(seed: int) -> Iterator[Changes]:
        chance = random.Random(seed)
        here: dict[str, Any] = {}
        for _ in range(LIMIT):
            for _attempt in range(10):
                there = dict(here)
                for keys in components.values():
                    for key in chance.sample(keys, min(COUNT, len(keys))):
                        home = pointer.get(space.documents, key.path)
                        present = there.get(key.path, home)
                        grid = [home, *others(space, key)]
                        value = chance.choice([v for v in grid if not pointer.same(v, present)])
                        there.update(dict.fromkeys(key.paths, value))
                if not choices.broken(there):
                    here = there
                    break
            yield {
                path: value
                for path, value in here.items()
                if not pointer.same(value, pointer.get(space.documents, path))
            }

    return configurations


def first_shown(way: Way, seed: int, faults: Sequence[Condition]) -> list[int]:
    """The iteration in which each of *faults* shows first; LIMIT + 1 where it never does."""
    found = [LIMIT + 1] * len(faults)
    hidden = set(range(len(faults)))
    for number, changes in enumerate(way(seed), start=1):
        for fault in [fault for fault in hidden if faults[fault](changes)]:
            found[fault] = number
            hidden.discard(fault)
        if not hidden:
            break
    return found


def figures(way: Way, faults: Sequence[Condition], seeds: int) -> tuple[float, ...]:
    """Mean and median until one shows, mean until GROUP of them show, and the shares shown."""
    singles: list[int] = []
    groups: list[int] = []
    for seed in range(seeds):
        found = first_shown(way, seed, faults)
        singles += found
        chance = random.Random(seed)
        groups += [max(chance.sample(found, min(GROUP, len(found)))) for _ in range(20)]
    size = len(singles)
    return (
        fmean(singles),
        median(singles),
        fmean(groups),
        100 * sum(number <= 10 for number in singles) / size,
        100 * sum(number <= 50 for number in singles) / size,
        100 * sum(number > LIMIT for number in singles) / size,
    )


def main() -> None:
    models = catalog.load(catalog.default_folders())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "models", nargs="*", default=["cogvideox", "internvl3", "qwenvl", "opensora"]
    )
    parser.add_argument("--device", choices=("cpu", "npu"), default="cpu")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--bank", type=Path)
    given = parser.parse_args()
    print(
        f"{given.seeds} seeds, {COUNT} edits, {given.device}; iterations until a fault shows (mean "
        f"and median), until {GROUP} of them show (mean); faults shown within 10 and 50 "
        f"iterations, and never within {LIMIT} (counted as {LIMIT + 1})"
    )
    print("| model | faults by | way | mean | median | all 12 | in 10 | in 50 | never |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.models:
        spec = catalog.find(models, name)
        space = spec.space(given.device)
        ways = {
            "ours": ours(spec, given.device),
            "uniform": uniform(space),
            "walk": walk(space),
            "walk, its pool": walk(space, POOL.get(spec.name, set())),
        }
        kinds = conditions(space)
        if given.bank:
            kinds = {"bank": planted(given.bank, spec, given.device)}
        for kind, faults in kinds.items():
            for way, configurations in ways.items():
                # A walk that can't reach a key is the same for every seed.
                seeds = given.seeds if way in ("ours", "uniform") else max(1, given.seeds // 10)
                *numbers, ten, fifty, never = figures(configurations, faults, seeds)
                shown = " | ".join(f"{number:.1f}" for number in numbers)
                print(
                    f"| {spec.name} | {kind} ({len(faults)}) | {way} | {shown} | {ten:.0f} % | "
                    f"{fifty:.0f} % | {never:.0f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
