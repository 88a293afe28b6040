"""Where an Ascend machine keeps things: MindSpeed-MM and its version, CANN, conda environments."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from pytest_lmsv.launch import installed
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.problems import EnvironmentProblem
from pytest_lmsv.records import Device, Stack

ASCEND = Path("/usr/local/Ascend")
CHECKPOINT = "latest_checkpointed_iteration.txt"
ENTRY_SCRIPTS = ("pretrain_sora.py", "pretrain_vlm.py", "inference_sora.py", "inference_vlm.py")
OPENSORA = "mindspeed_mm/tasks/inference/pipeline/opensora_pipeline.py"
DEFAULT_NAMES: dict[Stack, str] = {"pta": "mindspeed", "msa": "msadapter"}
DEFAULT_WEIGHTS = {
    "cogvideox": "cogvideox/CogVideoX-5B",
    "internvl3": "internvl3/raw_ckpt/InternVL3-8B",
    "qwenvl": "qwen2.5vl/ckpt/Qwen2.5-VL-7B-Instruct",
    "opensora": "opensora1.2",
}
"""Task6's places of the initial weights, below DATASET_ROOT (facts: task6 1.5)."""
DATASETS = {
    "cogvideox": "cogvideox",
    "internvl3": "internvl3",
    "qwenvl": "qwen2.5vl",
    "opensora": "opensora1.2",
}


def mindspeed_mm(path: Path) -> Path | None:
    """The folder of MindSpeed-MM's code: *path* itself, or the MindSpeed-MM below it."""
    for folder in (path, path / "MindSpeed-MM"):
        if (folder / "pretrain_vlm.py").is_file():
            return folder
    return None


def mindspeed_mm_version(code: Path) -> str | None:
    """The version of the MindSpeed-MM in *code*: its branch, else what its examples tell.

    Its own package always says 0.1. OpenSora 1.2 left with 2.3.0, CogVideoX after it; InternVL3
    on MindSpore came with 26.0.0 (facts: mindspeed-mm 0).
    """
    branch = _branch(code)
    if branch and branch[0].isdigit():
        return branch
    if (code / "examples/mindspore/internvl3").is_dir():
        return "26.0.0"
    if not (code / "examples/internvl3/model_8B.json").is_file():
        return None
    return "2.2.0" if (code / OPENSORA).is_file() else "2.3.0"


def _branch(code: Path) -> str | None:
    try:
        head = (code / ".git" / "HEAD").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return head.removeprefix("ref: refs/heads/").lstrip("v") if head.startswith("ref:") else None


def initial_weights(model: str, dataset_root: Path | None, load_path: Path | None) -> Path | None:
    """The checkpoint that a run of *model* starts from; None: fresh weights, equal on both stacks.

    A *load_path* that is named counts as it is; else Task6's default place, if it holds one.
    OpenSora's weights are named in its documents: for it this is their folder.
    """
    if load_path is not None:
        return load_path
    if dataset_root is None or model not in DEFAULT_WEIGHTS:
        return None
    place = dataset_root / DEFAULT_WEIGHTS[model]
    return place if model == "opensora" or (place / CHECKPOINT).is_file() else None


def starts_from_checkpoint(
    model: str, device: Device, dataset_root: Path | None, load_path: Path | None
) -> bool:
    """Whether runs of *model* load weights: then only edits that fit them may be drawn."""
    if device == "cpu":
        return load_path is not None
    return initial_weights(model, dataset_root, load_path) is not None


def cann(root: Path = ASCEND) -> Path | None:
    """CANN's set_env.sh, at either of its known places; the newer one first."""
    for name in ("cann", "ascend-toolkit"):
        if (root / name / "set_env.sh").is_file():
            return root / name / "set_env.sh"
    return None


def cann_version(root: Path = ASCEND) -> str | None:
    """CANN's version as its installer left it; None where no file tells."""
    for place in ("cann", "ascend-toolkit/latest", "ascend-toolkit", "latest"):
        for pattern in ("version.cfg", "*/ascend_toolkit_install.info", "compiler/version.info"):
            for path in sorted((root / place).glob(pattern)):
                for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                    key, equals, value = line.partition("=")
                    if equals and key.strip().lower().endswith("version") and value.strip():
                        return value.strip().strip("[]").rpartition(":")[2]
    return None


def conda_environment(name: str, roots: tuple[Path, ...] | None = None) -> Path | None:
    """The folder of the conda environment *name*, asked of any conda or mamba, else looked for.

    A *name* with a slash is a folder already. The launchers look by the same rule.
    """
    if "/" in name:
        return Path(name) if (Path(name) / "bin" / "python").exists() else None
    tools = (os.environ.get("CONDA_EXE"), "conda", os.environ.get("MAMBA_EXE"), "mamba")
    for tool in (*tools, "micromamba"):
        program = shutil.which(tool) if tool else None
        found = _asked(program, name) if program else None
        if found:
            return found
    home = Path.home()
    names = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
    places = roots or (
        *(home / folder for folder in names),
        *(Path("/opt") / folder for folder in ("conda", *names[:3])),
        *(Path("/usr/local") / folder for folder in names[:2]),
    )
    for root in places:
        if (root / "envs" / name / "bin" / "python").exists():
            return root / "envs" / name
    return None


def environment(stack: Stack, named: str | None) -> StackEnvironment:
    """The environment of *stack* on an Ascend machine, by conda name or folder, as it is.

    EnvironmentProblem where there is none. What it should hold is the doctor's to say.
    """
    name = named or DEFAULT_NAMES[stack]
    folder = conda_environment(name)
    if folder is None:
        raise EnvironmentProblem(
            f"{stack.upper()} environment: no conda environment {name}; make it, or name another "
            f"with lmsv_{stack}_env (a name or a folder)"
        )
    return StackEnvironment(stack, folder, installed.versions(folder))


def _asked(program: str, name: str) -> Path | None:
    try:
        done = subprocess.run(
            [program, "env", "list"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in done.stdout.splitlines():
        words = line.split()
        if words and words[0] == name:
            return Path(words[-1])
    return None
