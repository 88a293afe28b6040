"""What the harness costs: an iteration under the plugin beside the bare launcher commands.

``python -m tests_selftest.benchmarks.iteration [REPETITIONS]`` runs one mutation of CogVideoX by
turns through the campaign and through plain ``bash launcher``, paired and in alternating order, and
prints seconds and their difference. Needs the CPU environments.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_lmsv import catalog, data
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.launchers import find_launcher
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.progress import Reporter
from pytest_lmsv.campaign.run import Runner
from pytest_lmsv.launch import devices, environments
from pytest_lmsv.mutation import apply, draw
from pytest_lmsv.records import Mutation
from pytest_lmsv.settings import resolve


def bare(campaign: Campaign, runner: Runner, mutation: Mutation, folder: Path) -> float:
    """Return the seconds of the two launchers alone, with the same documents and environment."""
    spec = campaign.models["cogvideox"]
    place = Place(folder, "bare")
    documents = apply.apply(spec.documents("cpu"), mutation.edits)
    place.write_inputs(documents, spec.stack_overrides)
    seconds = 0.0
    for side in campaign.sides:
        place.run_folder(side).mkdir(parents=True)
        env = runner.variables(spec, side, place, "bare")
        launcher = find_launcher(campaign.settings, side, spec)
        with (folder / f"{side.slug}.log").open("wb") as log:
            began = time.perf_counter()
            subprocess.run(
                ["bash", launcher], env=env, cwd=place.run_folder(side), stdout=log, stderr=log,
                check=True,
            )  # fmt: skip
            seconds += time.perf_counter() - began
    shutil.rmtree(folder)
    return seconds


def under_harness(campaign: Campaign, runner: Runner, mutation: Mutation) -> tuple[float, float]:
    """Return the seconds of the iteration under the plugin, and those outside of its two runs.

    From documents to stored verdicts; a run here is the launcher under its guard.
    """
    spec = campaign.models["cogvideox"]
    began = time.perf_counter()
    filled = campaign.baseline(runner, spec, 1, mutation)
    record = campaign.compare(runner, spec, filled)
    seconds = time.perf_counter() - began
    assert not record.findings or all("accuracy" not in text for text in record.findings)
    shutil.rmtree(filled.place.folder)
    assert record.compare_run is not None
    return seconds, seconds - filled.run.seconds - record.compare_run.seconds


def main(repetitions: int) -> None:
    models = catalog.load([data.mm_configs()])
    folder = Path(tempfile.mkdtemp(prefix="lmsv-benchmark-"))
    settings = resolve(folder, [], npu_devices=())
    spec = models["cogvideox"]
    campaign = Campaign(settings, {"cogvideox": spec}, folder / "campaign")
    mutation = draw.draw(spec, "cpu", seed=settings.seed, iteration=1, attempt=1, count=2)
    where = environments.default_folder()
    stacks = {s: environments.ensure(s, where) for s in settings.sides}
    sets = devices.cpu_sets(devices.cores())
    with devices.lease(devices.default_folder(), sets) as lease:
        reporter = Reporter(campaign.folder, "benchmark")
        runner = Runner(settings, campaign.folder, lease, stacks, reporter, ())
        campaign.unmutated(runner, spec)
        pairs, outsides = [], []
        for number in range(repetitions):
            first = bare(campaign, runner, mutation, folder / "bare") if number % 2 else None
            ours, outside = under_harness(campaign, runner, mutation)
            outsides.append(outside)
            theirs = first or bare(campaign, runner, mutation, folder / "bare")
            pairs.append((ours, theirs))
            print(f"harness {ours:.2f} s, bare {theirs:.2f} s, {ours - theirs:+.2f} s", flush=True)
    difference = statistics.median(ours - theirs for ours, theirs in pairs)
    share = statistics.median(ours / theirs - 1 for ours, theirs in pairs)
    print(f"median of {repetitions} pairs: {difference:+.3f} s, {100 * share:+.2f} %")
    print(f"of it outside of the two runs: {statistics.median(outsides):.3f} s")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
