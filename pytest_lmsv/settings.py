"""The settings of a session, resolved once into one frozen dataclass.

Precedence (DESIGN 6.1): command line > a config file named on it > ini > config.json found in the
root folder > default. A wrong value gives the same line wherever it was written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from pytest_lmsv.options import OPTIONS, Option
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Device, Stack

Compare = Literal["pta_msa", "pta_pta", "msa_msa"]
STACKS: Mapping[Compare, tuple[Stack, Stack]] = {
    "pta_msa": ("pta", "msa"),
    "pta_pta": ("pta", "pta"),
    "msa_msa": ("msa", "msa"),
}
CPU_GATE = ("accuracy", "output", "drift")
NPU_GATE = ("accuracy", "memory", "performance")
CPU_OUTPUT, NPU_OUTPUT = (1e-5, 100.0), (0.05, 30.0)
"""Limits of a video: relative difference, PSNR in dB. In float32 on cpu two sound stacks stay below
1e-6, and another GELU is 1e-4 away; bf16 alone is some percent."""
CPU_SILENCE_S, NPU_SILENCE_S = 180.0, 1800.0


@dataclass(frozen=True)
class Settings:
    """What this session is to do; every value is checked."""

    root: Path
    model: tuple[str, ...]
    iters: int
    mutations: int
    steps: int
    seed: int
    device: Device
    compare: Compare
    chain: bool
    attempts: int
    pta_timeout: float
    msa_timeout: float
    silence_timeout: float
    gate: tuple[str, ...]
    loss_tolerance: float
    memory_tolerance: float
    time_tolerance: float
    output_tolerance: float
    output_psnr: float
    noise: int
    drift_factor: float
    drift_minima: tuple[str, ...]
    output: Path
    config: Path | None
    cpu_workers: int
    save_weights: str
    shared_randomness: bool
    adapter_fixes: bool
    replay: Path | None
    resume: Path | None
    analyze: Path | None
    verdict_xml: Path | None
    locate: bool
    language: str
    controller: bool
    fetch_weights: bool
    mindspeed_mm_path: Path | None
    dataset_root: Path | None
    load_path: Path | None
    pta_path: Path | None
    msa_path: Path | None
    opensora_msa_adaptor: bool
    pta_env: str | None
    msa_env: str | None
    config_dirs: tuple[Path, ...]
    launcher_dirs: tuple[Path, ...]
    log_patterns: tuple[Path, ...]
    env_dir: Path | None
    python: str | None

    @property
    def sides(self) -> tuple[Stack, Stack]:
        """The stacks of the baseline side and the compare side."""
        return STACKS[self.compare]

    @property
    def roots(self) -> dict[str, Path | None]:
        """The roots of this machine that have their like on the other machines of a run."""
        return {
            "lmsv": self.root,
            "mindspeed_mm": self.mindspeed_mm_path,
            "pta": self.pta_path,
            "msa": self.msa_path,
        }


@dataclass(frozen=True)
class Source:
    """Values of one place, under the names of :class:`Settings`, and how messages call them."""

    values: Mapping[str, Any]
    label: Callable[[Option], str]


def resolve(
    root: Path,
    sources: Sequence[Source],
    *,
    npu_devices: Sequence[str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Return the settings that *sources*, the strongest first, give together.

    Raises InputProblem for the first wrong value, in one line.
    """
    found: dict[str, Any] = {}
    for option in OPTIONS:
        found[option.field] = option.default
        for source in sources:
            value = source.values.get(option.field)
            if value is None:
                continue
            try:
                found[option.field] = option.parse(value)
            except (ValueError, KeyError):
                raise InputProblem(
                    f"{source.label(option)}: found {value!r}; give {option.parse.__doc__}"
                ) from None
            break
    found["device"] = _device(found["device"], found["mindspeed_mm_path"], npu_devices, environment)
    on_cpu = found["device"] == "cpu"
    if found["silence_timeout"] is None:
        found["silence_timeout"] = CPU_SILENCE_S if on_cpu else NPU_SILENCE_S
    limits = CPU_OUTPUT if on_cpu else NPU_OUTPUT
    for name, limit in zip(("output_tolerance", "output_psnr"), limits, strict=True):
        found[name] = limit if found[name] is None else found[name]
    if found["gate"] is None:
        found["gate"] = CPU_GATE if on_cpu else NPU_GATE
    if found["output"] is None:
        found["output"] = Path(environment.get("LMSV_OUTPATH") or "output")
    for name in (
        "output",
        "replay",
        "resume",
        "analyze",
        "verdict_xml",
        "dataset_root",
        "load_path",
        "env_dir",
    ):
        if found[name] is not None:
            found[name] = (root / found[name]).resolve()
    for name in ("pta_env", "msa_env"):
        if found[name] is not None and (root / found[name]).is_dir():
            found[name] = str(root / found[name])
    for name in ("config_dirs", "launcher_dirs", "log_patterns"):
        found[name] = tuple((root / path).resolve() for path in found[name])
    return Settings(
        root=root, **{f.name: found[f.name] for f in fields(Settings) if f.name != "root"}
    )


def repeated(settings: Settings) -> list[str]:
    """Return the options that a replay needs to judge as *settings* did, beside its mutation."""
    device = Source({"device": settings.device}, lambda option: option.flag)
    plain = resolve(settings.root, [device])
    words = []
    for option in OPTIONS:
        value = getattr(settings, option.field)
        if option.field not in JUDGING or value == getattr(plain, option.field):
            continue
        if isinstance(value, bool):
            value = "on" if value else "off"
        elif isinstance(value, tuple):
            value = ",".join(value)
        words.append(f"{option.flag}={value}")
    return words


JUDGING = (
    "adapter_fixes",
    "compare",
    "config",
    "controller",
    "cpu_workers",
    "drift_factor",
    "drift_minima",
    "gate",
    "loss_tolerance",
    "memory_tolerance",
    "noise",
    "output_psnr",
    "output_tolerance",
    "seed",
    "steps",
    "time_tolerance",
)
"""What decides how a stored mutation is run and judged."""


def _device(
    asked: str,
    mindspeed_mm: Path | None,
    npu_devices: Sequence[str] | None,
    environment: Mapping[str, str],
) -> Device:
    """Return the device; auto never quietly takes cpu on a machine that was set up for NPUs."""
    if asked != "auto":
        return "cpu" if asked == "cpu" else "npu"
    if npu_devices is None:
        npu_devices = sorted(str(path) for path in Path("/dev").glob("davinci[0-9]*"))
    if npu_devices:
        return "npu"
    signs = [f"lmsv_mindspeed_mm_path = {mindspeed_mm}"] if mindspeed_mm else []
    signs += [name for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME") if environment.get(name)]
    signs += [path for path in CANN_PLACES if Path(path).exists()]
    if signs:
        raise InputProblem(
            f"--lmsv-device auto: found no NPU (/dev/davinci*), but {signs[0]} says that this is "
            "an Ascend machine; make the NPUs visible, or give --lmsv-device cpu"
        )
    return "cpu"


CANN_PLACES = ("/usr/local/Ascend/ascend-toolkit/set_env.sh", "/usr/local/Ascend/cann/set_env.sh")
"""Where CANN's environment script lies (facts: 8.2 and older, 8.3 and newer)."""
