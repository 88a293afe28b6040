"""On npu: the unmutated configuration on both sides and with moved weights (docs/drift.md).

Once per campaign and model: what sound runs differ by there, which the verdict drift is judged by.
The entry script owns the training loop, so a noise run is a run of its own, from weights that the
entry wrapper moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_lmsv.campaign import archive, samples
from pytest_lmsv.campaign.iteration import run_until_settled
from pytest_lmsv.campaign.place import Place, iteration_folder
from pytest_lmsv.campaign.run import Runner
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.files import locked
from pytest_lmsv.judge.findings import summary_line
from pytest_lmsv.judge.output import differences
from pytest_lmsv.judge.policy import sentence
from pytest_lmsv.judge.steady import pairs, steady, with_history
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Curve, IterationRecord, RunRecord, SampleDifference, Steady

COMPARE = "compare.json"
Judge = Callable[[IterationRecord], IterationRecord]


def measured(
    runner: Runner,
    spec: ModelSpec,
    sides: tuple[Side, Side],
    unmutated: RunRecord,
    judge: Judge,
) -> Steady:
    """Return what sound runs of *spec* differ by, from the unmutated configuration and history.

    Measured once, in the folder of the unmutated run; *judge* gives its verdicts. Never raises for
    a run that fails: what could not be measured is missing, with the reason.
    """
    place = Place(runner.campaign / "iters" / spec.name / "unmutated", "unmutated")
    with locked(runner.campaign / "live" / f"steady-{spec.name}.lock"):
        found = archive.read_steady(place.folder)
        if found is None:
            found = _measure(runner, spec, sides, unmutated, place, judge)
            archive.write_steady(place.folder, found)
    compare = archive.read_run(place.folder, COMPARE)
    earlier = [
        (record.baseline_run, record.compare_run)
        for record in _iterations(runner, spec)
        if record.drift is not None and record.drift.result == "OK"
    ]
    return with_history(found, pairs([(unmutated, compare)]), pairs(earlier))


def _measure(
    runner: Runner,
    spec: ModelSpec,
    sides: tuple[Side, Side],
    unmutated: RunRecord,
    place: Place,
    judge: Judge,
) -> Steady:
    """Run the unmutated configuration on the compare side and with moved weights."""
    reasons: list[str] = []
    compare = None
    if sides[0].stack != sides[1].stack:
        compare = _run(runner, spec, sides[1], place, reasons)
    noise: list[Curve] = []
    outputs: list[SampleDifference] = []
    for number in range(1, runner.settings.noise + 1):
        aside = Place(place.folder / f"noise_{number}", f"noise{number}", noise=number)
        aside.clear()
        aside.write_inputs(spec.documents(runner.settings.device), spec.stack_overrides)
        run = _run(runner, spec, sides[0], aside, reasons)
        if run is None:
            continue
        noise += list(run.curves or ())[:1]
        made = [samples.read(each.kept(sides[0], "samples")) for each in (place, aside)]
        outputs += differences(made[0], made[1])
    reference = (unmutated.curves or (Curve(),))[0]
    found = steady(pairs([(unmutated, compare)]), reference, noise)
    if compare is not None:
        archive.write_run(place.folder, compare, COMPARE)
        record = judge(
            IterationRecord(
                model=spec.name,
                iteration=0,
                mutation=None,
                attempts=(),
                baseline_run=unmutated,
                compare_run=compare,
                verdicts=(),
                status="DONE",
                kind=spec.kind,
                steady=replace(found, bias=Curve(), spread=Curve()),
            )
        )
        found = replace(found, verdicts=record.verdicts)
        runner.reporter.say(
            f"lmsv {spec.name}-unmutated: {summary_line(record.verdicts)} (not asserted)"
        )
    return replace(
        found,
        floor=replace(found.floor, outputs=tuple(outputs)),
        reason="; ".join(reasons),
    )


def _run(
    runner: Runner, spec: ModelSpec, side: Side, place: Place, reasons: list[str]
) -> RunRecord | None:
    """Return a run that was ok; else None, and why in *reasons*."""
    try:
        run = run_until_settled(runner, spec, side, place)
    except EnvironmentProblem as problem:
        reasons.append(f"{place.name} on {side.label}: {problem}")
        return None
    if runner.settings.save_weights != "always":
        runner.remove_weights(spec, place)
    if run.outcome == "ok":
        return run
    reasons.append(f"{place.name} fails on {side.label}: {sentence(run.error)}")
    return None


def _iterations(runner: Runner, spec: ModelSpec) -> list[IterationRecord]:
    folders = [
        iteration_folder(runner.campaign, spec.name, number)
        for number in range(1, runner.settings.iters + 1)
    ]
    found = [archive.read_iteration(folder) for folder in folders]
    return [record for record in found if record is not None and record.status == "DONE"]
