"""``lmsv score``: how many planted faults the rules catch, and how many clean pairs they accuse."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from pytest_lmsv import catalog, data
from pytest_lmsv.files import check_writable
from pytest_lmsv.judge.curves import FLOAT32, Limits
from pytest_lmsv.launch import environments
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.score import bank, caught, marks, plan, rules, running, table

STEPS = (0.05, 0.01)


def main(argv: Sequence[str]) -> int:
    """Score the rules; 1 where ``--only-ci`` misses a fault that was caught before."""
    given = _parsed(argv)
    limits = _limits(given.limit)
    folder = _folder(given.bank)
    whole = bank.load(folder / "bank")
    faults = bank.chosen(whole, given.faults)
    if given.list_faults:
        print(bank.listing(faults))
        return 0
    found = catalog.load(catalog.default_folders())
    specs = [catalog.find(found, name) for name in given.model or sorted(_known(found, faults))]
    if given.only_ci:
        planned = caught.plan(folder / "caught.yaml", found, whole, given.faults)
    else:
        planned = plan.make(
            specs,
            faults if given.configurations else (),
            seed=given.seed,
            configurations=given.configurations,
            clean=given.clean,
            count=given.mutations,
        )
    _check(given, planned, folder)
    used = rules.rules((*STEPS, *given.any_step), limits)
    begun = time.monotonic()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    where = given.env_dir or environments.default_folder()
    with tempfile.TemporaryDirectory(prefix="lmsv-score-") as work:
        sides = running.Sides(
            environments.ensure("pta", where, named=given.pta_env, say=say),
            environments.ensure("msa", where, named=given.msa_env, say=say),
            folder,
            Path(work),
        )
        ran = running.run(planned, sides, steps=given.steps, seed=given.seed, say=say)
    cells, clean, invalid = marks.judge(planned, ran.pair, used, limits)
    settings = {
        "models": [spec.name for spec in specs],
        "kinds": {spec.name: spec.kind for spec in found.values()},
        "seed": given.seed,
        "configurations": given.configurations,
        "steps": given.steps,
        "mutations": given.mutations,
        "limits": {each.name: getattr(limits, each.name) for each in fields(limits)},
        "stack_seconds": {name: round(each, 1) for name, each in ran.seconds.items()},
        "restarts": ran.restarts,
    }
    score = marks.Score(tuple(used), cells, clean, invalid, settings, time.monotonic() - begun)
    print(table.text(score))
    if given.json:
        given.json.write_text(json.dumps(table.to_json(score), indent=1) + "\n", encoding="utf-8")
    if given.write_caught:
        caught.write(folder / "caught.yaml", score)
    return 1 if given.only_ci and score.missed(rules.DRIFT) else 0


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lmsv score",
        description="Plant known faults into MSA on cpu, and count which rules catch them; and "
        "count the clean pairs that the rules accuse.",
    )
    add = parser.add_argument
    add("--model", action="append", metavar="NAME", help="this model (more than once: these)")
    add("--seed", type=int, default=43, metavar="N", help="of weights and mutations (43)")
    add("--configurations", type=_number, default=5, metavar="N",
        help="iterations in which each fault is planted (5; 0: clean pairs only)")  # fmt: skip
    add("--clean", type=_number, default=300, metavar="N", help="clean pairs of all models (300)")
    add("--steps", type=_number, default=5, metavar="N", help="steps of each run (5)")
    add("--mutations", type=_number, default=2, metavar="N", help="edits of each mutation (2)")
    add("--faults", nargs="+", default=[], metavar="NAME", help="only these faults")
    add("--list-faults", action="store_true", help="print the faults by name; run nothing")
    add("--bank", type=Path, metavar="DIR", help="folder of bank/, plants/ and caught.yaml "
        "(default: tests_selftest/faults of the source checkout)")  # fmt: skip
    add(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="a limit of the verdict drift: "
        + ", ".join(f"{each.name} ({getattr(FLOAT32, each.name):g})" for each in fields(Limits)),
    )
    add("--any-step", action="append", default=[], type=_share, metavar="SHARE",
        help="one more rule: the loss of any step differs by this share, as 0.002")  # fmt: skip
    add("--only-ci", action="store_true",
        help="only what caught.yaml holds; exit status 1 where one is missed")  # fmt: skip
    add("--write-caught", action="store_true", help="write caught.yaml from this score")
    add("--json", type=Path, metavar="FILE", help="write everything to FILE")
    add("--env-dir", type=Path, metavar="DIR", help="where the cpu environments are kept")
    add("--pta-env", type=Path, metavar="DIR", help="an own environment of PTA")
    add("--msa-env", type=Path, metavar="DIR", help="an own environment of MSA")
    return parser.parse_args(argv)


def _number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1 (0.05 is 5 %)")
    return value


def _limits(texts: Sequence[str]) -> Limits:
    known = {each.name for each in fields(Limits)}
    changed = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if name not in known or not value > 0:
            raise InputProblem(
                f"--limit {text}: expected NAME=NUMBER above 0, NAME one of "
                f"{', '.join(sorted(known))}"
            )
        changed[name] = value
    return replace(FLOAT32, **changed)


def _folder(named: Path | None) -> Path:
    folder = named or data.root() / "tests_selftest" / "faults"
    if not (folder / "bank").is_dir():
        raise InputProblem(
            f"lmsv score: no bank of faults in {folder}; it is part of the source checkout, not of "
            "the package: name one with --bank DIR"
        )
    return folder.resolve()


def _check(given: argparse.Namespace, planned: plan.Plan, folder: Path) -> None:
    """Refuse before an hour of runs what would fail, or say nothing, after it."""
    if not (planned.cells or planned.clean):
        raise InputProblem(
            "lmsv score: nothing to run; "
            + (
                "caught.yaml holds none of these --faults: leave out --only-ci"
                if given.only_ci
                else "give --clean or --configurations above 0, with --faults of these models"
            )
        )
    if given.write_caught and not planned.cells:
        raise InputProblem(
            "lmsv score: --write-caught without a planted fault would empty caught.yaml; give "
            "--configurations above 0"
        )
    targets = [given.json] if given.json else []
    if given.write_caught:
        targets.append(folder / "caught.yaml")
    for target in targets:
        try:
            check_writable(target)
        except OSError as problem:
            raise InputProblem(
                f"lmsv score: {target}: cannot be written ({problem.strerror}); nothing was run: "
                "name a file in a folder that is there and can be written"
            ) from None


def _known(found: dict[str, catalog.ModelSpec], faults: Sequence[bank.Fault]) -> set[str]:
    return {model for fault in faults for model in fault.when if model in found}
