"""One launch of one stack, by the contract of DESIGN 6.3, read and judged as sound or not."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pytest_lmsv import data
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
from pytest_lmsv.problems import EnvironmentProblem, InputProblem
from pytest_lmsv.records import Note, RunRecord, Stack
from pytest_lmsv.settings import Settings

NPU_WAIT_S = 1800.0
"""How long a run waits for NPUs that others use."""
ECHO_LINES = 20_000
"""MindSpeed-MM shows its configuration before the first step."""
NOT_PASSED_ON = ("PYTEST_", "PYTHON", "COV_", "LMSV_")
"""What the pytest process has in its environment and a run must not see."""


@dataclass(frozen=True)
class Runner:
    """Starts runs of one session on one device set."""

    settings: Settings
    campaign: Path
    lease: Lease
    environments: Mapping[Stack, StackEnvironment]
    reporter: Reporter
    known_bugs: tuple[KnownBug, ...]
    further: Mapping[str, str] = field(default_factory=dict)
    """Variables that runs get beside the contract's."""

    def run(self, spec: ModelSpec, side: Side, place: Place) -> RunRecord:
        """Launch *side* in *place*, wait for its end and return how it went.

        The documents of the attempt are already in *place*.
        """
        run_folder = place.run_folder(side)
        run_folder.mkdir(parents=True)
        log = place.log(side)
        log.parent.mkdir(parents=True, exist_ok=True)
        run_id = f"{self.campaign.name}-{spec.name}-{place.name}-{side.slug}-{secrets.token_hex(4)}"
        settings = self.settings
        job = Job(
            argv=("bash", str(find_launcher(settings, side, spec))),
            env={**self.variables(spec, side, place, run_id), **self.further},
            cwd=run_folder,
            log=log,
            run_id=run_id,
            time_limit=settings.pta_timeout if side.stack == "pta" else settings.msa_timeout,
            silence_limit=settings.silence_timeout,
            outputs=(run_folder / "msrun_log",),
        )
        if settings.device == "npu":
            npus.wait_until_free(
                self.lease.device_set.devices, limit=NPU_WAIT_S, say=self.reporter.say
            )
        began = time.time()
        ended = self._run(job, spec, side, place)
        workers = sorted(place.kept(side, "msrun_log").glob("*.log"))
        record = place.kept(side, "record")
        found = run_record(
            stack=side.stack,
            kind=spec.kind,
            logs=(log, *workers),
            steps=settings.steps,
            exit_status=ended.exit_status,
            reason=ended.reason,
            seconds=ended.seconds,
            record=record if record.exists() else None,
            run_id=run_id,
            since=began,
            patterns=settings.log_patterns,
            output_made=self._made(spec, place.kept(side, "samples")),
        )
        if settings.device == "npu":
            left = npus.left_over(npus.look(), run_id)
            notes = (Note("left_over", npus.named(left)),) if left else ()
            echoed = self._shown(log, side, place)
            found = replace(found, echo=echoed, notes=(*found.notes, *notes))
        self._keep_evidence(found, job, side, place)
        return self._named(found, spec)

    def _run(self, job: Job, spec: ModelSpec, side: Side, place: Place) -> Ended:
        """Run *job* with the live line following its log, and put what it wrote in its places."""
        follower = Follower(job.log)

        def watch() -> None:
            progress = follower.update()
            if progress is not None:
                self.reporter.step(progress.step, progress.loss)

        self.lease.note(job.run_id)
        self.reporter.begin(spec.name, place.name, side.label, self.settings.steps)
        try:
            return local.run(job, watch)
        finally:
            self.reporter.end()
            place.keep_run(side)

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
        if run.outcome == "ok":
            shutil.rmtree(ascend_log, ignore_errors=True)
            return
        evidence.keep(
            place.evidence(side),
            launcher=job.argv,
            variables={**job.env, "ASCEND_PROCESS_LOG_PATH": str(ascend_log)},
            versions=self.environments[side.stack].versions,
            snapshot=npus.look() if self.settings.device == "npu" else None,
        )

    def _made(self, spec: ModelSpec, samples: Path) -> bool | None:
        """Return whether an inference left *samples*; None where nobody can say.

        On npu MindSpeed-MM's own script decides what is saved.
        """
        if spec.kind != "inference" or self.settings.device != "cpu":
            return None
        return samples.is_dir() and any(samples.iterdir())

    def _named(self, run: RunRecord, spec: ModelSpec) -> RunRecord:
        """Return *run* with the known bug that its error is, where it is one."""
        if run.error is None:
            return run
        bug = known_bugs.match(
            self.known_bugs,
            run.error,
            stack=run.stack,
            device=self.settings.device,
            model=spec.name,
        )
        return run if bug is None else replace(run, error=replace(run.error, known_bug=bug.id))

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

    def variables(self, spec: ModelSpec, side: Side, place: Place, run_id: str) -> dict[str, str]:
        """Return the environment of a run, complete: the contract of DESIGN 6.3."""
        settings, layout = self.settings, spec.layouts[self.settings.device]
        environment, devices = self.environments[side.stack], self.lease.fresh_port()
        given = environment.variables().items()
        inherited = {name: text for name, text in given if not name.startswith(NOT_PASSED_ON)}
        contract = {
            "LMSV_DEVICE": settings.device,
            "LMSV_RUN_ID": run_id,
            "LMSV_RUN_DIR": str(place.run_folder(side)),
            "LMSV_ARGS": str(place.document(side, "args.txt")),
            "LMSV_SEED": str(settings.seed),
            "LMSV_ENV": str(environment.path),
            "LMSV_ADAPTER_FIXES": "on" if settings.adapter_fixes else "off",
            "MM_MODEL": str(place.document(side, "model.json")),
            "MM_DATA": str(place.document(side, "data.json")),
            "TRAIN_ITERS": str(settings.steps),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(devices.master_port),
            "NNODES": "1",
            "NODE_RANK": "0",
            "NPUS_PER_NODE": str(layout.devices),
            "HCCL_IF_BASE_PORT": str(devices.hccl_base_port),
            "ASCEND_PROCESS_LOG_PATH": str(place.run_folder(side) / "ascend_log"),
            "LMSV_NOISE": str(settings.noise if side.role == "baseline" else 0),
            "LMSV_SHARED_RANDOMNESS": "on" if settings.shared_randomness else "off",
            "LMSV_OPENSORA_MSA_ADAPTOR": "on" if settings.opensora_msa_adaptor else "off",
            "PYTHONUNBUFFERED": "1",
        }
        if settings.device == "npu":
            contract["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(map(str, devices.devices))
        weights = ascend.initial_weights(spec.name, settings.dataset_root, settings.load_path)
        site = {
            "DATASET_ROOT": settings.dataset_root or (self.datasets if spec.datasets else None),
            "SAVE_PATH": None if settings.save_weights == "never" else place.weights(side),
            # Empty: fresh weights, whatever this session's own environment names.
            "LOAD_PATH": (weights or "") if settings.device == "npu" else settings.load_path,
            "WORKSPACE_ROOT": settings.pta_path if side.stack == "pta" else settings.msa_path,
            "MINDSPEED_MM_PATH": settings.mindspeed_mm_path,
            "PTA_NAME": settings.pta_env,
            "MSA_NAME": settings.msa_env,
        }
        contract.update({name: str(value) for name, value in site.items() if value is not None})
        return {**inherited, **contract}


def find_launcher(settings: Settings, side: Side, spec: ModelSpec) -> Path:
    """Return the launcher of *side*; raises InputProblem where there is none."""
    name = f"{side.stack}_{spec.name}.sh"
    folders = (*settings.launcher_dirs, settings.root / "launchers", data.launchers())
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    places = ", ".join(dict.fromkeys(map(str, folders)))
    raise InputProblem(
        f"launcher {name}: not found in {places}; write it there, or name its folder in "
        "lmsv_launcher_dirs"
    )
