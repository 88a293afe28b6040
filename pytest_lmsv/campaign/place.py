"""The folder of a campaign and of each of its iterations (DESIGN 6.4)."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.files import write_json, write_whole
from pytest_lmsv.mutation import apply, pointer
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Stack

KEPT_FOLDERS = ("msrun_log", "samples", "record", "ascend_log")


def new_campaign_folder(output: Path, now: datetime | None = None) -> Path:
    """Make and return a new folder ``YYYYMMDD_HHMMSS`` in *output*.

    Two sessions of one second get two folders. Raises InputProblem where *output* can't be written.
    """
    name = (now or datetime.now()).strftime("%Y%m%d_%H%M%S")
    for number in range(1, 1000):
        folder = output / (name if number == 1 else f"{name}_{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if output.is_dir():
                continue
            raise InputProblem(
                f"--lmsv-output: {output} is not a folder; name another one"
            ) from None
        except OSError as problem:
            raise InputProblem(
                f"--lmsv-output: {folder} can't be made ({problem.strerror}); name a folder that "
                "can be written"
            ) from None
        return folder
    raise InputProblem(
        f"--lmsv-output: {output} holds 999 campaigns of one second; name another one"
    )


@dataclass(frozen=True)
class Place:
    """The folder of one iteration's current attempt, or of the unmutated run."""

    folder: Path
    name: str
    """``iter3``, or ``unmutated``; part of the log files' names."""
    noise: int = 0
    """The number of the noise run that runs here (npu); 0 for any other."""

    def log(self, side: Side) -> Path:
        """The run's log file: stdout and stderr of the launcher."""
        return self.folder / "runtime_logs" / f"{side.slug}_verify_{self.name}.log"

    def run_folder(self, side: Side) -> Path:
        """``LMSV_RUN_DIR`` of the run."""
        return self.folder / "run" / side.slug

    def weights(self, side: Side) -> Path:
        """``SAVE_PATH`` of the run."""
        return self.folder / "weights" / side.slug

    def kept(self, side: Side, what: str) -> Path:
        """Where *what* (one of KEPT_FOLDERS) of the run folder goes after the run."""
        if what == "msrun_log":
            return self.folder / ("msrun_log" if side.slug == "msa" else f"msrun_log_{side.slug}")
        return self.folder / what / side.slug

    @property
    def inputs(self) -> Path:
        """The mutated documents."""
        return self.folder / "artifacts" / "mutation_inputs"

    def clear(self) -> None:
        """Remove what an interrupted session left of this attempt."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def write_inputs(
        self, documents: Mapping[str, Any], overrides: Mapping[Stack, Mapping[str, Any]]
    ) -> None:
        """Write the documents that every run of this attempt gets (DESIGN 5.6).

        A stack with overrides gets files of its own beside the common ones.
        """
        write_json(self.inputs / "mutation_config.json", documents)
        _write_documents(self.inputs, documents)
        for stack, changes in overrides.items():
            if changes:
                _write_documents(self.inputs / stack, _overridden(documents, changes))

    def document(self, side: Side, name: str) -> Path:
        """The file with document *name* (``model.json``, ``args.txt``) that *side* gets."""
        own = self.inputs / side.stack / name
        return own if own.exists() else self.inputs / name

    def keep_run(self, side: Side) -> None:
        """Move what the run wrote to its places; anything else stays under artifacts."""
        run_folder = self.run_folder(side)
        for what in KEPT_FOLDERS:
            source, target = run_folder / what, self.kept(side, what)
            if source.exists():
                if target.exists():
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
        if run_folder.exists():
            if any(run_folder.iterdir()):
                target = self.folder / "artifacts" / "run_folder" / side.slug
                if target.exists():
                    shutil.rmtree(target)
                target.parent.mkdir(parents=True, exist_ok=True)
                run_folder.rename(target)
            else:
                run_folder.rmdir()
        if run_folder.parent.exists() and not any(run_folder.parent.iterdir()):
            run_folder.parent.rmdir()

    def evidence(self, side: Side) -> Path:
        """What is kept of a failed run so that it can be shown and repeated."""
        return self.folder / "evidence" / side.slug

    def keep_first_try(self, side: Side) -> None:
        """Move what a run wrote aside, so that the second try finds nothing of it."""
        for what in KEPT_FOLDERS:
            source, target = self.kept(side, what), self.evidence(side) / "try1" / what
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
        shutil.rmtree(self.weights(side), ignore_errors=True)

    def remove_weights(self) -> None:
        """Remove the final weights of both sides, which are gigabytes on npu."""
        shutil.rmtree(self.folder / "weights", ignore_errors=True)

    def set_aside(self, folder: Path) -> None:
        """Move the whole attempt to *folder*."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        self.folder.rename(folder)


def iteration_folder(campaign: Path, model: str, iteration: int) -> Path:
    """Return the folder of one iteration."""
    return campaign / "iters" / model / f"iter_{iteration}"


def now_at(campaign: Path, path: Path) -> Path:
    """Return where *path*, a file of *campaign* when it ran, is now: the folder may be a copy."""
    if "iters" not in path.parts:
        return path
    at = len(path.parts) - 1 - path.parts[::-1].index("iters")
    here = campaign.joinpath(*path.parts[at:])
    return here if here.exists() else path


def failed_folder(campaign: Path, model: str, iteration: int, attempt: int) -> Path:
    """Return where an invalid or no-effect attempt is kept."""
    return campaign / "iters" / model / "failed" / f"iter_{iteration}_attempt_{attempt}"


def _write_documents(folder: Path, documents: Mapping[str, Any]) -> None:
    for name in ("model", "data", "args"):
        write_json(folder / f"{name}.json", documents[name])
    tokens = apply.arguments(documents["args"])
    write_whole(folder / "args.txt", "".join(f"{token}\n" for token in tokens))


def _overridden(documents: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(dict(documents))
    for path, value in changes.items():
        pointer.put(changed, path, value)
    return changed
