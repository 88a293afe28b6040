"""Where things are: folders, environments, files."""

from __future__ import annotations

from pytest_lmsv import option_values
from pytest_lmsv.options.option import Option, option

SITE: tuple[Option, ...] = (
    option(
        "output",
        option_values.path,
        None,
        "a folder YYYYMMDD_HHMMSS is made in it (output, or LMSV_OUTPATH)",
        metavar="DIR",
    ),
    option(
        "config",
        option_values.path,
        None,
        "Task6's config.json, or the same keys as YAML",
        metavar="FILE",
    ),
    option(
        "save_weights",
        option_values.one_of("never", "abnormal", "always"),
        "abnormal",
        "which iterations keep their final weights (abnormal: where something was found)",
        metavar="never|abnormal|always",
    ),
    option(
        "fetch_weights",
        option_values.switch,
        False,
        "several machines: bring weights that are kept here from the machines that wrote them",
        switch=True,
        ini_type="bool",
    ),
    option(
        "mindspeed_mm_path", option_values.path, None, "npu: MindSpeed-MM's folder", ini_only=True
    ),
    option("dataset_root", option_values.path, None, "folder of the datasets", ini_only=True),
    option("load_path", option_values.path, None, "npu: initial weights", ini_only=True),
    option(
        "pta_path",
        option_values.path,
        None,
        "npu: PTA's workspace (Megatron-LM, MindSpeed)",
        ini_only=True,
    ),
    option(
        "msa_path",
        option_values.path,
        None,
        "npu: MSA's workspace, with its adapter",
        ini_only=True,
    ),
    option(
        "opensora_msa_adaptor",
        option_values.switch,
        False,
        "npu: import MindSpeed-MM's MindSpore adaptor before OpenSora's script (docs/npu.md)",
        ini_only=True,
        ini_type="bool",
    ),
    option(
        "pta_env",
        option_values.text,
        None,
        "PTA's environment: a folder, or a conda name",
        ini_only=True,
    ),
    option(
        "msa_env",
        option_values.text,
        None,
        "MSA's environment: a folder, or a conda name",
        ini_only=True,
    ),
    option(
        "config_dirs",
        option_values.paths,
        (),
        "folders with further models",
        ini_only=True,
        ini_type="paths",
    ),
    option(
        "launcher_dirs",
        option_values.paths,
        (),
        "folders with further launchers",
        ini_only=True,
        ini_type="paths",
    ),
    option(
        "log_patterns",
        option_values.paths,
        (),
        "files with further patterns of errors (docs/logs.md)",
        ini_only=True,
        ini_type="paths",
    ),
    option(
        "env_dir",
        option_values.path,
        None,
        "cpu: where the two environments are made",
        ini_only=True,
    ),
    option(
        "python",
        option_values.text,
        None,
        "cpu: the Python that the environments are made with",
        ini_only=True,
    ),
)
