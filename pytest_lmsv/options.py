"""The table of options: for each its flags, its ini twin, its meaning and what a value must be.

The parsers are in option_values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pytest_lmsv import option_values


@dataclass(frozen=True)
class Option:
    """One setting: its flags on the command line (none: ini only), its ini twin and its meaning."""

    field: str
    parse: Callable[[Any], Any]
    default: Any
    help: str
    flags: tuple[str, ...] = ()
    metavar: str = ""
    ini_type: Literal["string", "args", "paths", "bool", "int", "float"] = "string"
    ini_only: bool = False
    switch: bool = False

    @property
    def ini(self) -> str:
        """The name in an ini file, which is also the option's name inside pytest."""
        return f"lmsv_{self.field}"

    @property
    def flag(self) -> str:
        """The name that messages use for the command line."""
        return (self.flags or (f"--{self.ini.replace('_', '-')}",))[0]


def _option(
    field: str, parse: Callable[[Any], Any], default: Any, help: str, **more: Any
) -> Option:
    if not more.get("ini_only"):
        more.setdefault("flags", (f"--lmsv-{field.replace('_', '-')}",))
    return Option(field, parse, default, help, **more)


def _number(
    field: str, parse: Callable[[Any], Any], default: float | None, help: str, metavar: str
) -> Option:
    return _option(field, parse, default, help, metavar=metavar, ini_type="float")


OPTIONS: tuple[Option, ...] = (
    _option(
        "model",
        option_values.words,
        (),
        "models to test, separated by commas, or `all`",
        flags=("--model", "--lmsv-model"),
        metavar="NAME[,NAME]",
        ini_type="args",
    ),
    _option(
        "iters",
        option_values.count(1),
        10,
        "iterations of each model (10)",
        flags=("--iters", "--lmsv-iters"),
        metavar="N",
        ini_type="int",
    ),
    _option(
        "mutations",
        option_values.count(1),
        2,
        "edits of each mutation, Task6's MUTNM (2)",
        metavar="N",
        ini_type="int",
    ),
    _option(
        "steps",
        option_values.count(1),
        5,
        "training steps, or denoising / generation steps (5)",
        metavar="N",
        ini_type="int",
    ),
    _option("seed", option_values.count(0), 43, "base seed (43)", metavar="N", ini_type="int"),
    _option(
        "device",
        option_values.one_of("auto", "cpu", "npu"),
        "auto",
        "cpu, npu or auto (auto: npu where NPUs are found)",
        metavar="cpu|npu|auto",
    ),
    _option(
        "compare",
        option_values.one_of("pta_msa", "pta_pta", "msa_msa"),
        "pta_msa",
        "the two sides that are compared (pta_msa)",
        metavar="pta_msa|pta_pta|msa_msa",
    ),
    _option(
        "chain",
        option_values.switch,
        False,
        "each valid mutation starts from the one before, as Task6 did",
        switch=True,
        ini_type="bool",
    ),
    _option(
        "locate",
        option_values.switch,
        False,
        "run each new finding again with recorders: names the first module that differs",
        switch=True,
        ini_type="bool",
    ),
    _option(
        "attempts",
        option_values.count(1),
        10,
        "attempts of one iteration (10)",
        metavar="N",
        ini_type="int",
    ),
    _number("pta_timeout", option_values.seconds, 3000.0, "time limit of a PTA run (3000)", "S"),
    _number("msa_timeout", option_values.seconds, 3000.0, "time limit of an MSA run (3000)", "S"),
    _number(
        "silence_timeout",
        option_values.seconds,
        None,
        "a run without output for so long hangs (180 on cpu, 1800 on npu)",
        "S",
    ),
    _option(
        "gate",
        option_values.gate,
        None,
        "verdicts whose NG fails a test (npu: accuracy memory performance; cpu: accuracy output "
        "drift)",
        metavar="NAMES",
        ini_type="args",
    ),
    _number(
        "loss_tolerance",
        option_values.tolerance,
        0.05,
        "relative difference of the last loss that is NG (0.05)",
        "X",
    ),
    _number(
        "memory_tolerance",
        option_values.tolerance,
        0.0,
        "relative surplus of memory that is still OK (0)",
        "X",
    ),
    _number(
        "time_tolerance",
        option_values.tolerance,
        0.0,
        "relative surplus of time that is still OK (0)",
        "X",
    ),
    _number(
        "output_tolerance",
        option_values.tolerance,
        None,
        "relative difference of a video that is NG (cpu: 1e-5, npu: 0.05)",
        "X",
    ),
    _number(
        "output_psnr",
        option_values.decibels,
        None,
        "least PSNR of two videos that is still OK, in dB (cpu: 100, npu: 30)",
        "DB",
    ),
    _option(
        "noise",
        option_values.count(0),
        1,
        "runs from weights moved by one unit in the last place, which measure what drift may be "
        "(1; 0: stated constants)",
        metavar="N",
        ini_type="int",
    ),
    _number(
        "drift_factor",
        option_values.factor,
        10.0,
        "drift is NG above so many times the measured noise (10)",
        "X",
    ),
    _option(
        "drift_minima",
        option_values.minima,
        (),
        "least noise that drift counts with, as `loss=2.5e-7 first=1e-6` (docs/drift.md)",
        ini_only=True,
        ini_type="args",
    ),
    _option(
        "output",
        option_values.path,
        None,
        "a folder YYYYMMDD_HHMMSS is made in it (output, or LMSV_OUTPATH)",
        metavar="DIR",
    ),
    _option(
        "config",
        option_values.path,
        None,
        "Task6's config.json, or the same keys as YAML",
        metavar="FILE",
    ),
    _option(
        "cpu_workers",
        option_values.count(1),
        1,
        "cpu: workers of each run, which share its batch (1)",
        metavar="N",
        ini_type="int",
    ),
    _option(
        "save_weights",
        option_values.one_of("never", "abnormal", "always"),
        "abnormal",
        "which iterations keep their final weights (abnormal: where something was found)",
        metavar="never|abnormal|always",
    ),
    _option(
        "shared_randomness",
        option_values.switch,
        False,
        "npu: noise, time steps and dropout from one NumPy stream on both stacks (off)",
        metavar="on|off",
    ),
    _option(
        "adapter_fixes",
        option_values.switch,
        True,
        "cpu: run MSA's adapter with or without the fixes of its known defects (on)",
        metavar="on|off",
    ),
    _option(
        "replay",
        option_values.path,
        None,
        "run the stored mutation of this mutation.json again",
        metavar="FILE",
    ),
    _option(
        "resume",
        option_values.path,
        None,
        "go on with the campaign in this folder; what is stored there is not run again",
        metavar="DIR",
    ),
    _option(
        "analyze",
        option_values.path,
        None,
        "write the reports of the campaign in this folder again; nothing is run",
        metavar="DIR",
    ),
    _option(
        "verdict_xml",
        option_values.path,
        None,
        "write a JUnit file with a testcase for each verdict",
        metavar="FILE",
    ),
    _option(
        "language",
        option_values.one_of("en", "zh"),
        "en",
        "language of summary.md: en, or zh for Chinese (en)",
        metavar="en|zh",
    ),
    _option(
        "controller",
        option_values.switch,
        False,
        "several machines: this one only steers; the first of OTHER_NODES is the master",
        switch=True,
        ini_type="bool",
    ),
    _option(
        "fetch_weights",
        option_values.switch,
        False,
        "several machines: bring weights that are kept here from the machines that wrote them",
        switch=True,
        ini_type="bool",
    ),
    _option(
        "mindspeed_mm_path", option_values.path, None, "npu: MindSpeed-MM's folder", ini_only=True
    ),
    _option("dataset_root", option_values.path, None, "folder of the datasets", ini_only=True),
    _option("load_path", option_values.path, None, "npu: initial weights", ini_only=True),
    _option(
        "pta_path",
        option_values.path,
        None,
        "npu: PTA's workspace (Megatron-LM, MindSpeed)",
        ini_only=True,
    ),
    _option(
        "msa_path",
        option_values.path,
        None,
        "npu: MSA's workspace, with its adapter",
        ini_only=True,
    ),
    _option(
        "opensora_msa_adaptor",
        option_values.switch,
        False,
        "npu: import MindSpeed-MM's MindSpore adaptor before OpenSora's script (docs/npu.md)",
        ini_only=True,
        ini_type="bool",
    ),
    _option(
        "pta_env",
        option_values.text,
        None,
        "PTA's environment: a folder, or a conda name",
        ini_only=True,
    ),
    _option(
        "msa_env",
        option_values.text,
        None,
        "MSA's environment: a folder, or a conda name",
        ini_only=True,
    ),
    _option(
        "config_dirs",
        option_values.paths,
        (),
        "folders with further models",
        ini_only=True,
        ini_type="paths",
    ),
    _option(
        "launcher_dirs",
        option_values.paths,
        (),
        "folders with further launchers",
        ini_only=True,
        ini_type="paths",
    ),
    _option(
        "log_patterns",
        option_values.paths,
        (),
        "files with further patterns of errors (docs/logs.md)",
        ini_only=True,
        ini_type="paths",
    ),
    _option(
        "env_dir",
        option_values.path,
        None,
        "cpu: where the two environments are made",
        ini_only=True,
    ),
    _option(
        "python",
        option_values.text,
        None,
        "cpu: the Python that the environments are made with",
        ini_only=True,
    ),
)
