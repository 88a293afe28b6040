"""A campaign: all that one pytest session runs, and its folder."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_lmsv.campaign import archive, experiment, judging, samples, steady
from pytest_lmsv.campaign.iteration import Filled, Source, fill, run_until_settled
from pytest_lmsv.campaign.place import Place, failed_folder, iteration_folder
from pytest_lmsv.campaign.run import Runner
from pytest_lmsv.campaign.sides import Side, sides
from pytest_lmsv.campaign.weights import check_space
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.files import locked
from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.classes import findings_of
from pytest_lmsv.judge.fairness import unequal_weights
from pytest_lmsv.judge.findings import Finding, in_gate
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.judge.output import differences
from pytest_lmsv.judge.policy import sentence
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import (
    Attempt,
    Edit,
    IterationRecord,
    Mutation,
    RunRecord,
    SampleDifference,
    Steady,
)
from pytest_lmsv.settings import Settings


@dataclass(frozen=True)
class Campaign:
    """One session's iterations; every method may be called from any xdist worker."""

    settings: Settings
    models: Mapping[str, ModelSpec]
    folder: Path
    bugs: tuple[KnownBug, ...] = ()
    """Of an analysis: what the stored errors are named by, anew."""
    nodes: tuple[str, ...] = ()
    """The machines of its runs, the master first; none: this one alone."""

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """The baseline side and the compare side."""
        return sides(self.settings.compare)

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the two sides in texts."""
        return self.sides[0].label, self.sides[1].label

    def begin(
        self, versions: Mapping[str, Any], numbers: Sequence[tuple[str, int]], command: str
    ) -> None:
        """Write campaign.json; *numbers* are the iterations that are to run, *command* asked so.

        With --lmsv-resume check that it is the same experiment: raises InputProblem naming the
        first setting that differs.
        """
        told = {
            "labels": list(self.labels),
            "versions": versions,
            "nodes": list(self.nodes),
            "command": command,
        }
        experiment.write(self.folder, self.settings, self.models, numbers, told)

    def unmutated(self, runner: Runner, spec: ModelSpec) -> RunRecord:
        """Return the run of the unmutated configuration, made once per campaign and model.

        Raises EnvironmentProblem, with one reason for all iterations, where it fails.
        """
        side = self.sides[0]
        place = Place(self.folder / "iters" / spec.name / "unmutated", "unmutated")
        with locked(self.folder / "live" / f"unmutated-{spec.name}.lock"):
            run = archive.read_run(place.folder)
            if run is None:
                place.clear()
                runner.write_datasets(spec)
                place.write_inputs(spec.documents(self.settings.device), spec.stack_overrides)
                try:
                    run = run_until_settled(runner, spec, side, place)
                except EnvironmentProblem as problem:
                    raise EnvironmentProblem(
                        f"the unmutated configuration of {spec.name}: {problem}", problem.category
                    ) from None
                archive.write_run(place.folder, run)
                if self.settings.save_weights != "always":
                    runner.remove_weights(spec, place)
        if run.outcome != "ok":
            raise EnvironmentProblem(
                f"the unmutated configuration of {spec.name} fails on {side.label}, so no mutation "
                f"can be judged: {sentence(run.error)}; log: {place.log(side)}",
                run.error.category if run.error else None,
            )
        return run

    def baseline(
        self, runner: Runner, spec: ModelSpec, number: int, given: Mutation | None
    ) -> Filled:
        """Fill iteration *number* on the baseline side; raises EnvironmentProblem."""
        source = Source(self._edits_before(spec, number), given)
        try:
            unmutated = self.unmutated(runner, spec)
            if self._saves_gigabytes(spec):
                check_space(self.folder, sides=len(self.sides))
            return fill(runner, spec, number, self.sides[0], source, unmutated)
        except OSError as problem:
            raise _not_writable(problem) from None
        except EnvironmentProblem as problem:
            self._store_untested(spec, number, problem)
            raise

    def compare(self, runner: Runner, spec: ModelSpec, filled: Filled) -> IterationRecord:
        """Run the compare side, judge both and store the iteration; raises EnvironmentProblem."""
        side = self.sides[1]
        number = filled.mutation.iteration
        try:
            run = run_until_settled(runner, spec, side, filled.place)
            unequal = unequal_weights(filled.run, run)
            if unequal:
                raise EnvironmentProblem(f"the two sides start unequal: {unequal}", "weights")
            sound = self._steady(runner, spec)
        except OSError as problem:
            raise _not_writable(problem) from None
        except EnvironmentProblem as problem:
            self._store_untested(spec, number, problem, filled)
            raise
        record = self.judged(
            IterationRecord(
                model=spec.name,
                iteration=number,
                mutation=filled.mutation,
                attempts=filled.attempts,
                baseline_run=filled.run,
                compare_run=run,
                verdicts=(),
                status="DONE",
                kind=spec.kind,
                samples=self._samples(spec, filled, run),
                steady=sound,
            )
        )
        archive.write_iteration(filled.place.folder, record)
        if self.settings.save_weights == "abnormal" and not self.failing(record):
            runner.remove_weights(spec, filled.place)
        return record

    def _steady(self, runner: Runner, spec: ModelSpec) -> Steady | None:
        """Return what sound runs differ by on npu; on cpu a run measures its own noise."""
        if self.settings.device == "cpu":
            return None
        unmutated = self.unmutated(runner, spec)
        return steady.measured(runner, spec, self.sides, unmutated, self.judged)

    def judged(self, record: IterationRecord) -> IterationRecord:
        """Return *record* with its verdicts and findings by this session's tolerances."""
        return judging.judged(record, self.settings, self.labels)

    def records(self) -> Iterator[IterationRecord]:
        """Yield all finished iterations, by model and number, as this session judges them."""
        return map(self.seen, archive.stored_iterations(self.folder))

    def record(self, model: str, number: int) -> IterationRecord | None:
        """Return a finished iteration as this session judges it, None where it was not finished."""
        found = archive.read_iteration(iteration_folder(self.folder, model, number))
        return None if found is None else self.seen(found)

    def seen(self, record: IterationRecord) -> IterationRecord:
        """Return *record*, a stored one, judged and named by this session's rules."""
        if record.status != "DONE":
            return record
        run = record.compare_run
        if self.settings.analyze is not None and run is not None:
            run = known_bugs.named(run, self.bugs, device=self.settings.device, model=record.model)
            record = replace(record, compare_run=run)
        return self.judged(record)

    def findings(self, record: IterationRecord) -> tuple[Finding, ...]:
        """Return what is wrong with *record*, whether it is in the gate or not."""
        return findings_of(record, self.labels)

    def failing(self, record: IterationRecord) -> tuple[Finding, ...]:
        """Return the findings of *record* that fail its test."""
        return in_gate(self.findings(record), self.settings.gate)

    def _samples(
        self, spec: ModelSpec, filled: Filled, run: RunRecord
    ) -> tuple[SampleDifference, ...]:
        """Return how what the two sides of an inference made differs."""
        if spec.kind != "inference" or run.outcome != "ok":
            return ()
        ours, theirs = (samples.read(filled.place.kept(side, "samples")) for side in self.sides)
        return differences(ours, theirs, self.labels)

    def stored(self, spec: ModelSpec, number: int) -> IterationRecord | None:
        """Return iteration *number* where an earlier session of this campaign finished it."""
        record = archive.read_iteration(iteration_folder(self.folder, spec.name, number))
        return None if record is None or record.status != "DONE" else self.judged(record)

    def _saves_gigabytes(self, spec: ModelSpec) -> bool:
        """Return whether runs of *spec* leave weights of full size."""
        keeps = self.settings.save_weights != "never"
        return keeps and self.settings.device == "npu" and spec.kind == "training"

    def _edits_before(self, spec: ModelSpec, number: int) -> tuple[Edit, ...]:
        """Return what a chained iteration starts from: the last valid mutation before it."""
        if not self.settings.chain:
            return ()
        for earlier in range(number - 1, 0, -1):
            record = archive.read_iteration(iteration_folder(self.folder, spec.name, earlier))
            if record is not None and record.status == "DONE" and record.mutation is not None:
                return record.mutation.edits
        return ()

    def _discarded(self, spec: ModelSpec, number: int) -> tuple[Attempt, ...]:
        folders = (
            failed_folder(self.folder, spec.name, number, attempt)
            for attempt in range(1, self.settings.attempts + 1)
        )
        return tuple(a for a in map(archive.read_attempt, folders) if a is not None)

    def untested(self, spec: ModelSpec, number: int, problem: EnvironmentProblem) -> None:
        """Store that iteration *number* could not even begin, where nothing is stored of it."""
        if archive.read_iteration(iteration_folder(self.folder, spec.name, number)) is None:
            self._store_untested(spec, number, problem)

    def _store_untested(
        self,
        spec: ModelSpec,
        number: int,
        problem: EnvironmentProblem,
        filled: Filled | None = None,
    ) -> None:
        archive.write_iteration(
            iteration_folder(self.folder, spec.name, number),
            IterationRecord(
                model=spec.name,
                iteration=number,
                mutation=filled.mutation if filled else None,
                attempts=filled.attempts if filled else self._discarded(spec, number),
                baseline_run=filled.run if filled else None,
                compare_run=None,
                verdicts=(),
                status="ENVIRONMENT",
                reason=str(problem),
                kind=spec.kind,
            ),
        )


def _not_writable(problem: OSError) -> EnvironmentProblem:
    """Return *problem*, met while files of the campaign were written, as one line."""
    full = problem.errno == errno.ENOSPC
    where = problem.filename or "the campaign folder"
    return EnvironmentProblem(f"{where}: {problem.strerror}", "no_space" if full else None)
