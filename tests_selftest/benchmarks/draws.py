"""Draws per second of a model's space, beside a bare ``fuzz_one_input`` of as many choices.

    python tests_selftest/benchmarks/draws.py [MODEL] [--device cpu] [--count 2] [--draws 2000]

Prints both rates and their ratio: the ratio is what the constraints and edits cost, and compares
between machines. Both are taken in turns, the best of five.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_lmsv import catalog
from pytest_lmsv.mutation.draw import draw


def bare(keys: int, count: int) -> Callable[[int], None]:
    """A draw of *count* keys and values by ``fuzz_one_input`` with nothing around it."""
    choices = st.tuples(*[st.sampled_from(range(keys)), st.sampled_from(range(4))] * count)

    @settings(database=None, deadline=None)
    @given(choices)
    def keep(value: object) -> None:
        pass

    fuzz: Callable[[bytes], object] = keep.hypothesis.fuzz_one_input  # type: ignore[attr-defined]

    def one(number: int) -> None:
        fuzz(hashlib.shake_256(str(number).encode()).digest(1024))

    return one


def rate(one: Callable[[int], object], numbers: range) -> float:
    """Calls per second."""
    start = time.perf_counter()
    for number in numbers:
        one(number)
    return len(numbers) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="cogvideox")
    parser.add_argument("--device", choices=("cpu", "npu"), default="cpu")
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--draws", type=int, default=2000)
    given_ = parser.parse_args()
    spec = catalog.find(catalog.load(catalog.default_folders()), given_.model)
    keys = len(spec.space(given_.device).drawn())
    floor = bare(keys, given_.count)
    ours, theirs = [], []
    for turn in range(5):

        def one(number: int, seed: int = turn) -> object:
            return draw(
                spec, given_.device, seed=seed, iteration=number, attempt=1, count=given_.count
            )

        start = time.perf_counter()
        one(1)
        print(f"turn {turn}: first draw {(time.perf_counter() - start) * 1000:.1f} ms")
        ours.append(rate(one, range(2, 2 + given_.draws // 5)))
        theirs.append(rate(floor, range(given_.draws // 5)))
    print(
        f"{spec.name} on {given_.device}, {keys} keys, {given_.count} edits: "
        f"{max(ours):.0f} draws/s; bare fuzz_one_input {max(theirs):.0f} /s; "
        f"ratio {max(theirs) / max(ours):.2f}"
    )


if __name__ == "__main__":
    main()
