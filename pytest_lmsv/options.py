"""The table of options: for each its flags, its ini twin, its meaning and what a value must be.

All values arrive as text, or as typed ini values; each has one parser here, whose docstring says in
messages what would have been right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

VERDICTS = ("accuracy", "memory", "performance", "output")


def _count(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = int(str(value))
        if number < least:
            raise ValueError
        return number

    parse.__doc__ = f"a whole number of at least {least}"
    return parse


def _seconds(value: Any) -> float:
    """a number of seconds above 0"""
    number = float(str(value))
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def _tolerance(value: Any) -> float:
    """a relative difference of at least 0, as 0.05 for 5 %"""
    number = float(str(value))
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def _decibels(value: Any) -> float:
    """a number of decibels of at least 0"""
    number = float(str(value))
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def _switch(value: Any) -> bool:
    """on or off"""
    return {"on": True, "true": True, "1": True, "yes": True}.get(str(value).lower(), False) or (
        not {"off": True, "false": True, "0": True, "no": True}[str(value).lower()]
    )


def _words(value: Any) -> tuple[str, ...]:
    """names, separated by commas or spaces"""
    texts = [value] if isinstance(value, str) else [str(item) for item in value]
    return tuple(word for text in texts for word in text.replace(",", " ").split())


def _gate(value: Any) -> tuple[str, ...]:
    """`all`, or any of accuracy, memory, performance, output, separated by commas or spaces"""
    words = _words(value)
    if words == ("all",):
        return VERDICTS
    if not words or not set(words) <= set(VERDICTS):
        raise ValueError
    return tuple(name for name in VERDICTS if name in words)


def _one_of(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if str(value) not in words:
            raise ValueError
        return str(value)

    parse.__doc__ = f"one of {', '.join(words)}"
    return parse


def path(value: Any) -> Path:
    """a path"""
    if not str(value):
        raise ValueError
    return Path(value).expanduser()


def _paths(value: Any) -> tuple[Path, ...]:
    """paths"""
    return tuple(path(item) for item in ([value] if isinstance(value, (str, Path)) else value))


def _text(value: Any) -> str:
    """a text"""
    return str(value)


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


OPTIONS: tuple[Option, ...] = (
    _option(
        "model",
        _words,
        (),
        "models to test, separated by commas, or `all`",
        flags=("--model", "--lmsv-model"),
        metavar="NAME[,NAME]",
        ini_type="args",
    ),
    _option(
        "iters",
        _count(1),
        10,
        "iterations of each model (10)",
        flags=("--iters", "--lmsv-iters"),
        metavar="N",
        ini_type="int",
    ),
    _option(
        "mutations",
        _count(1),
        2,
        "edits of each mutation, Task6's MUTNM (2)",
        metavar="N",
        ini_type="int",
    ),
    _option(
        "steps",
        _count(1),
        5,
        "training steps, or denoising / generation steps (5)",
        metavar="N",
        ini_type="int",
    ),
    _option("seed", _count(0), 43, "base seed (43)", metavar="N", ini_type="int"),
    _option(
        "device",
        _one_of("auto", "cpu", "npu"),
        "auto",
        "cpu, npu or auto (auto: npu where NPUs are found)",
        metavar="cpu|npu|auto",
    ),
    _option(
        "compare",
        _one_of("pta_msa", "pta_pta", "msa_msa"),
        "pta_msa",
        "the two sides that are compared (pta_msa)",
        metavar="pta_msa|pta_pta|msa_msa",
    ),
    _option(
        "chain",
        _switch,
        False,
        "each valid mutation starts from the one before, as Task6 did",
        switch=True,
        ini_type="bool",
    ),
    _option(
        "attempts", _count(1), 10, "attempts of one iteration (10)", metavar="N", ini_type="int"
    ),
    _option(
        "pta_timeout",
        _seconds,
        3000.0,
        "time limit of a PTA run (3000)",
        metavar="S",
        ini_type="float",
    ),
    _option(
        "msa_timeout",
        _seconds,
        3000.0,
        "time limit of an MSA run (3000)",
        metavar="S",
        ini_type="float",
    ),
    _option(
        "silence_timeout",
        _seconds,
        None,
        "a run without output for so long hangs (180 on cpu, 1800 on npu)",
        metavar="S",
        ini_type="float",
    ),
    _option(
        "gate",
        _gate,
        None,
        "verdicts whose NG fails a test (npu: accuracy memory performance; cpu: accuracy output)",
        metavar="NAMES",
        ini_type="args",
    ),
    _option(
        "loss_tolerance",
        _tolerance,
        0.05,
        "relative difference of the last loss that is NG (0.05)",
        metavar="X",
        ini_type="float",
    ),
    _option(
        "memory_tolerance",
        _tolerance,
        0.0,
        "relative surplus of memory that is still OK (0)",
        metavar="X",
        ini_type="float",
    ),
    _option(
        "time_tolerance",
        _tolerance,
        0.0,
        "relative surplus of time that is still OK (0)",
        metavar="X",
        ini_type="float",
    ),
    _option(
        "output_tolerance",
        _tolerance,
        0.001,
        "relative difference of a video that is NG (0.001); text must be equal",
        metavar="X",
        ini_type="float",
    ),
    _option(
        "output_psnr",
        _decibels,
        60.0,
        "least PSNR of two videos that is still OK, in dB (60)",
        metavar="DB",
        ini_type="float",
    ),
    _option(
        "output",
        path,
        None,
        "a folder YYYYMMDD_HHMMSS is made in it (output, or LMSV_OUTPATH)",
        metavar="DIR",
    ),
    _option(
        "config",
        path,
        None,
        "Task6's config.json, or the same keys as YAML",
        metavar="FILE",
    ),
    _option(
        "cpu_workers",
        _count(1),
        1,
        "cpu: workers of each run, which share its batch (1)",
        metavar="N",
        ini_type="int",
    ),
    _option(
        "save_weights",
        _one_of("never", "abnormal", "always"),
        "abnormal",
        "which iterations keep their final weights (abnormal: where something was found)",
        metavar="never|abnormal|always",
    ),
    _option(
        "shared_randomness",
        _switch,
        False,
        "npu: noise, time steps and dropout from one NumPy stream on both stacks (off)",
        metavar="on|off",
    ),
    _option(
        "adapter_fixes",
        _switch,
        True,
        "cpu: run MSA's adapter with or without the fixes of its known defects (on)",
        metavar="on|off",
    ),
    _option(
        "replay",
        path,
        None,
        "run the stored mutation of this mutation.json again",
        metavar="FILE",
    ),
    _option(
        "resume",
        path,
        None,
        "go on with the campaign in this folder; what is stored there is not run again",
        metavar="DIR",
    ),
    _option("mindspeed_mm_path", path, None, "npu: MindSpeed-MM's folder", ini_only=True),
    _option("dataset_root", path, None, "folder of the datasets", ini_only=True),
    _option("load_path", path, None, "npu: initial weights", ini_only=True),
    _option("pta_path", path, None, "npu: PTA's workspace (Megatron-LM, MindSpeed)", ini_only=True),
    _option("msa_path", path, None, "npu: MSA's workspace, with its adapter", ini_only=True),
    _option(
        "opensora_msa_adaptor",
        _switch,
        False,
        "npu: import MindSpeed-MM's MindSpore adaptor before OpenSora's script (docs/npu.md)",
        ini_only=True,
        ini_type="bool",
    ),
    _option("pta_env", _text, None, "PTA's environment: a folder, or a conda name", ini_only=True),
    _option("msa_env", _text, None, "MSA's environment: a folder, or a conda name", ini_only=True),
    _option(
        "config_dirs",
        _paths,
        (),
        "folders with further models",
        ini_only=True,
        ini_type="paths",
    ),
    _option(
        "launcher_dirs",
        _paths,
        (),
        "folders with further launchers",
        ini_only=True,
        ini_type="paths",
    ),
    _option("env_dir", path, None, "cpu: where the two environments are made", ini_only=True),
    _option(
        "python", _text, None, "cpu: the Python that the environments are made with", ini_only=True
    ),
)
