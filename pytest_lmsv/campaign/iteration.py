"""One iteration (DESIGN 4): draw, and run the baseline side until a mutation is valid."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_lmsv.campaign import archive, samples
from pytest_lmsv.campaign.place import Place, failed_folder, iteration_folder
from pytest_lmsv.campaign.run import Runner
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.judge.effect import has_effect
from pytest_lmsv.judge.output import Sample, is_finite
from pytest_lmsv.judge.policy import next_step, sentence
from pytest_lmsv.judge.verdicts import has_finite_loss
from pytest_lmsv.launch import ascend
from pytest_lmsv.mutation import apply, draw
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Attempt, Edit, Kind, Mutation, RunRecord
from pytest_lmsv.wording import counted

SPACE_LEFT_MB = 64
"""With less free space than this, a second failure is put down to the disk."""


@dataclass(frozen=True)
class Filled:
    """An iteration whose baseline side ran with a valid mutation that has effect."""

    place: Place
    mutation: Mutation
    attempts: tuple[Attempt, ...]
    run: RunRecord


@dataclass(frozen=True)
class Source:
    """Where the mutations of an iteration come from."""

    before: tuple[Edit, ...] = ()
    """With --lmsv-chain the edits of the iteration before, which every attempt starts from."""
    given: Mutation | None = None
    """A stored mutation to run again, instead of drawing."""


def fill(
    runner: Runner,
    spec: ModelSpec,
    number: int,
    side: Side,
    source: Source,
    unmutated: RunRecord,
) -> Filled:
    """Run the baseline side until a mutation fills iteration *number*.

    Raises EnvironmentProblem where the environment is to blame, or where all attempts are used up.
    """
    settings = runner.settings
    place = Place(iteration_folder(runner.campaign, spec.name, number), f"iter{number}")
    attempts: list[Attempt] = []
    for attempt in range(1, settings.attempts + 1):
        aside = failed_folder(runner.campaign, spec.name, number, attempt)
        stored = archive.read_attempt(aside)
        if stored is not None:  # a resumed campaign knows how this one ended
            attempts.append(stored)
            continue
        mutation = source.given or _drawn(runner, spec, number, attempt, source)
        place.clear()
        archive.write_mutation(place.folder, mutation)
        documents = apply.apply(spec.documents(settings.device), mutation.edits)
        place.write_inputs(documents, spec.stack_overrides)
        run = run_until_settled(runner, spec, side, place)
        made = samples.read(place.kept(side, "samples"))
        discarded = _discard(
            mutation, run, unmutated, made, spec.kind, number=attempt, folder=aside
        )
        if discarded is None:
            return Filled(place, mutation, tuple(attempts), run)
        archive.write_attempt(place.folder, discarded, run)
        if settings.save_weights != "always":
            runner.remove_weights(spec, place)
        place.set_aside(aside)
        attempts.append(discarded)
        if source.given:
            break
    reasons = "; ".join(f"attempt {a.number} {a.verdict}: {a.reason}" for a in attempts)
    raise EnvironmentProblem(
        f"no valid mutation for {spec.name} iteration {number} in "
        f"{counted(len(attempts), 'attempt')}: "
        f"{reasons}"
    )


def run_until_settled(runner: Runner, spec: ModelSpec, side: Side, place: Place) -> RunRecord:
    """Run *side*, once more where that may help (DESIGN 5.3), and return the run that counts.

    Raises EnvironmentProblem where the environment is to blame.
    """
    tries = 1
    while True:
        run = runner.run(spec, side, place)
        if run.outcome == "ok":
            return run
        step = next_step(run, tries, _resources_gone(runner.campaign))
        if step == "final":
            return run
        if step == "environment":
            category = run.error.category if run.error else None
            raise EnvironmentProblem(
                f"{side.label} could not run: {sentence(run.error)}; log: {place.log(side)}",
                category,
            )
        _keep_first_try(place, side)
        tries += 1


def _drawn(runner: Runner, spec: ModelSpec, number: int, attempt: int, source: Source) -> Mutation:
    settings = runner.settings
    home = spec.documents(settings.device)
    mutation = draw.draw(
        spec,
        settings.device,
        seed=settings.seed,
        iteration=number,
        attempt=attempt,
        count=settings.mutations,
        base=apply.apply(home, source.before) if source.before else None,
        only_fitting_checkpoint=ascend.starts_from_checkpoint(
            spec.name, settings.device, settings.dataset_root, settings.load_path
        ),
    )
    # Stored relative to the model's own documents, so that each can be repeated alone.
    return replace(mutation, edits=apply.merge(source.before, mutation.edits))


def _discard(
    mutation: Mutation,
    run: RunRecord,
    unmutated: RunRecord,
    made: Mapping[str, Sample],
    kind: Kind,
    *,
    number: int,
    folder: Path,
) -> Attempt | None:
    """Return why this attempt does not count, None where it does."""
    if run.outcome != "ok":
        return Attempt(number, "invalid", sentence(run.error), str(folder))
    if kind == "training" and not run.metrics.losses:
        return Attempt(number, "invalid", "it printed no loss", str(folder))
    if not has_finite_loss(run):
        return Attempt(number, "invalid", "its loss is NaN or infinite (numeric_nan)", str(folder))
    if not all(map(is_finite, made.values())):
        reason = "its output holds NaN or infinite numbers (numeric_nan)"
        return Attempt(number, "invalid", reason, str(folder))
    if not has_effect(mutation.edits, run, unmutated):
        reason = "the edits show neither in the echo, parameter count, loss, grad norm nor output"
        return Attempt(number, "no effect", reason, str(folder))
    return None


def _keep_first_try(place: Place, side: Side) -> None:
    """Keep what a run that is tried again wrote, so that the second one starts anew."""
    place.keep_first_try(side)
    first = place.log(side)
    for log in [first, *first.parent.glob(f"{first.stem}.*{first.suffix}")]:
        if log.exists():
            log.rename(log.with_name(f"{first.stem}_try1{log.name[len(first.stem) :]}"))


def _resources_gone(folder: Path) -> str | None:
    free = shutil.disk_usage(folder).free
    if free < SPACE_LEFT_MB * 1024 * 1024:
        return f"{folder} has {free // (1024 * 1024)} MB left"
    return None
