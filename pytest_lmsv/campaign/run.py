"""One launch of one stack, by the contract of DESIGN 6.3, read and judged as sound or not."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.campaign import several
from pytest_lmsv.campaign.company import Company
from pytest_lmsv.campaign.contract import Seat, variables
from pytest_lmsv.campaign.launchers import find_launcher
from pytest_lmsv.campaign.place import Place
from pytest_lmsv.campaign.progress import Reporter
from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.judge import known_bugs
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.judge.outcome import run_record
from pytest_lmsv.launch import ascend, evidence, local, npus
from pytest_lmsv.launch.devices import Lease
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.launch.job import Ended, Job
from pytest_lmsv.logs.echo import echo
from pytest_lmsv.logs.follow import Follower
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Note, RunRecord, Stack
from pytest_lmsv.settings import Settings

NO_NOISE = Note("noise", "no figures of a noise run: drift has the limits without one")
NPU_WAIT_S = 1800.0
"""How long a run waits for NPUs that others use."""
ECHO_LINES = 20_000
"""MindSpeed-MM shows its configuration before the first step."""


@dataclass(frozen=True)
class Runner:
    """Starts runs of one session on one device set."""

    settings: Settings
    campaign: Path
    lease: Lease
    environments: Mapping[Stack, StackEnvironment]
    reporter: Reporter
    known_bugs: tuple[KnownBug, ...]
    company: Company | None = None
    """The machines of a campaign over several; None: this one alone."""
    further: Mapping[str, str] = field(default_factory=dict)
    """Variables beside the contract's."""

    def run(self, spec: ModelSpec, side: Side, place: Place) -> RunRecord:
        """Launch *side* in *place*, wait for its end and return how it went.

        The documents of the attempt are already in *place*.
        """
        run_id = f"{self.campaign.name}-{spec.name}-{place.name}-{side.slug}-{secrets.token_hex(4)}"
        place.log(side).parent.mkdir(parents=True, exist_ok=True)
        began = time.time()
        if self.company is not None:
            return self._judged_together(self.company, spec, side, place, run_id)
        run_folder, log = place.run_folder(side), place.log(side)
        run_folder.mkdir(parents=True)
        seat = self.seat(spec, side, place)
        job = self.job(spec, side, run_id, find_launcher(self.settings, side, spec), seat, log)
        if self.settings.device == "npu":
            npus.wait_until_free(
                self.lease.device_set.devices, limit=NPU_WAIT_S, say=self.reporter.say
            )
        began = time.time()
        ended = self._run(job, spec, side, place)
        found = self.read(spec, side, place, ended, run_id, (log,), began)
        if self.settings.device == "npu":
            left = npus.left_over(npus.look(), run_id)
            notes = (Note("left_over", npus.named(left)),) if left else ()
            found = replace(found, notes=(*found.notes, *notes))
        return self._finished(found, job, spec, side, place)

    def job(
        self,
        spec: ModelSpec,
        side: Side,
        run_id: str,
        launcher: PurePath,
        seat: Seat,
        log: PurePath,
    ) -> Job:
        """What one machine does in a run."""
        settings = self.settings
        return Job(
            argv=("bash", str(launcher)),
            env={**variables(settings, spec, side, run_id, seat), **self.further},
            cwd=Path(seat.run_folder),
            log=Path(log),
            run_id=run_id,
            time_limit=settings.pta_timeout if side.stack == "pta" else settings.msa_timeout,
            silence_limit=settings.silence_timeout,
            outputs=(Path(seat.run_folder / "msrun_log"),),
        )

    def read(
        self,
        spec: ModelSpec,
        side: Side,
        place: Place,
        ended: Ended,
        run_id: str,
        logs: Sequence[Path],
        since: float,
    ) -> RunRecord:
        """Read and judge what a run left in *place*; *logs*: its launchers'."""
        workers = sorted(place.kept(side, "msrun_log").rglob("*.log"))
        record = place.kept(side, "record")
        found = run_record(
            stack=side.stack,
            kind=spec.kind,
            logs=(*logs, *workers),
            steps=self.settings.steps,
            exit_status=ended.exit_status,
            reason=ended.reason,
            seconds=ended.seconds,
            record=record if record.exists() else None,
            run_id=run_id,
            since=since,
            patterns=self.settings.log_patterns,
            output_made=self._made(spec, place.kept(side, "samples")),
        )
        measures = self.settings.noise and self.settings.device == "cpu" and found.curves
        if measures and side.role == "baseline" and found.outcome == "ok" and not found.noise:
            found = replace(found, notes=(*found.notes, NO_NOISE))
        return found

    def _judged_together(
        self, company: Company, spec: ModelSpec, side: Side, place: Place, run_id: str
    ) -> RunRecord:
        """The same over several machines."""
        self.reporter.begin(spec.name, place.name, side.label, self.settings.steps)
        began = time.time()
        try:
            job, gathered = company.run(self, spec, side, place, run_id)
        finally:
            self.reporter.end()
        # Other machines' clocks may be wrong: their files have the times of their arrival.
        found = self.read(spec, side, place, gathered.ended, run_id, gathered.logs, began)
        found = several.judged(found, gathered, place, side, self.settings)
        return self._finished(found, job, spec, side, place)

    def _finished(
        self, found: RunRecord, job: Job, spec: ModelSpec, side: Side, place: Place
    ) -> RunRecord:
        """*found* with what its log shows, its evidence kept, its known bug named."""
        if self.settings.device == "npu":
            found = replace(found, echo=self._shown(place.log(side), side, place))
        self._keep_evidence(found, job, side, place)
        return known_bugs.named(
            found,
            self.known_bugs,
            device=self.settings.device,
            model=spec.name,
        )

    def _run(self, job: Job, spec: ModelSpec, side: Side, place: Place) -> Ended:
        """Run *job* with the live line following its log, and put what it wrote in its places."""
        self.lease.note(job.run_id)
        self.reporter.begin(spec.name, place.name, side.label, self.settings.steps)
        try:
            return local.run(job, self.following(job.log))
        finally:
            self.reporter.end()
            place.keep_run(side)

    def following(self, log: Path) -> Callable[[], None]:
        """What shows in the live line how far *log* is."""
        follower = Follower(log)

        def watch() -> None:
            progress = follower.update()
            if progress is not None:
                self.reporter.step(progress.step, progress.loss)

        return watch

    def _shown(self, log: Path, side: Side, place: Place) -> dict[str, Any]:
        """Return what MindSpeed-MM's log shows of the configuration, near its beginning."""
        documents = {
            name: data.read_json(place.document(side, f"{name}.json"))
            for name in ("model", "data", "args")
        }
        with log.open(encoding="utf-8", errors="replace") as lines:
            return echo(islice(lines, ECHO_LINES), documents)

    def _keep_evidence(self, run: RunRecord, job: Job, side: Side, place: Place) -> None:
        """Keep what shows and repeats a failed run; CANN's own logs of a good one are dropped."""
        ascend_log = place.kept(side, "ascend_log")
        environment = self.environments.get(side.stack)  # none where this machine only steers
        if run.outcome == "ok":
            shutil.rmtree(ascend_log, ignore_errors=True)
            return
        evidence.keep(
            place.evidence(side),
            launcher=job.argv,
            variables={**job.env, "ASCEND_PROCESS_LOG_PATH": str(ascend_log)},
            versions=environment.versions if environment else {},
            snapshot=npus.look() if self.settings.device == "npu" else None,
        )

    def _made(self, spec: ModelSpec, samples: Path) -> bool | None:
        """Return whether an inference left *samples*; None where nobody can say.

        On npu MindSpeed-MM's own script decides what is saved.
        """
        if spec.kind != "inference" or self.settings.device != "cpu":
            return None
        return samples.is_dir() and any(samples.iterdir())

    @property
    def datasets(self) -> Path:
        """Where the small data sets of this campaign are."""
        return self.campaign / "datasets"

    def write_datasets(self, spec: ModelSpec) -> None:
        """Write the small data sets that *spec* names, on cpu where none of the user's is named.

        Raises EnvironmentProblem where a script fails.
        """
        if self.settings.device != "cpu" or self.settings.dataset_root is not None:
            return
        environment = self.environments[self.settings.sides[0]]
        for name, script in spec.datasets.items():
            done = environment.run([data.launchers() / script, self.datasets / name])
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no output"])[-1]
                raise EnvironmentProblem(f"the data set {name} can't be written: {last}")

    def seat(self, spec: ModelSpec, side: Side, place: Place) -> Seat:
        """Where a run of *side* sits on this machine alone."""
        settings, environment = self.settings, self.environments[side.stack]
        devices = self.lease.fresh_port()
        return Seat(
            run_folder=place.run_folder(side),
            documents={name: place.document(side, name) for name in several.DOCUMENTS},
            environment=environment.path,
            inherited=environment.variables(),
            devices=devices.devices,
            master_port=devices.master_port,
            hccl_base_port=devices.hccl_base_port,
            dataset_root=self.dataset_root(spec),
            save_path=None if settings.save_weights == "never" else place.weights(side),
            load_path=self.load_path(spec),
            workspace=settings.pta_path if side.stack == "pta" else settings.msa_path,
            mindspeed_mm=settings.mindspeed_mm_path,
            pta_name=settings.pta_env,
            msa_name=settings.msa_env,
            noise_run=place.noise,
        )

    def variables(self, spec: ModelSpec, side: Side, place: Place, run_id: str) -> dict[str, str]:
        """The environment of a run on this machine alone."""
        return variables(self.settings, spec, side, run_id, self.seat(spec, side, place))

    def dataset_root(self, spec: ModelSpec) -> Path | None:
        """Where the data sets of *spec* are on this machine."""
        return self.settings.dataset_root or (self.datasets if spec.datasets else None)

    def load_path(self, spec: ModelSpec) -> Path | str | None:
        """The initial weights, as the launch contract gives them."""
        settings = self.settings
        if settings.device == "cpu":
            return settings.load_path
        # Empty: fresh weights, whatever this session's own environment names.
        return ascend.initial_weights(spec.name, settings.dataset_root, settings.load_path) or ""

    def remove_weights(self, spec: ModelSpec, place: Place) -> None:
        """Remove the final weights of both sides, on all machines."""
        place.remove_weights()
        if self.company is not None:
            self.company.remove(spec, place)
