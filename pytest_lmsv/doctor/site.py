"""What the doctor is to look at: a campaign's site, from options, ini, config.json or settings."""

from __future__ import annotations

import configparser
import importlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_lmsv import catalog, task6_config
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.launch import ascend, environments
from pytest_lmsv.records import Device, Stack
from pytest_lmsv.settings import Settings
from pytest_lmsv.task6_config import MultiNode


@dataclass(frozen=True)
class Site:
    """Everything that the checks depend on; nothing was looked at yet."""

    device: Device
    models: tuple[ModelSpec, ...] = ()
    sides: tuple[Stack, ...] = ("pta", "msa")
    environments: Mapping[Stack, str | None] = field(default_factory=dict)
    """Conda name or folder of each stack; None: the default name, or on cpu one that is made."""
    mindspeed_mm: Path | None = None
    dataset_root: Path | None = None
    load_path: Path | None = None
    output: Path = Path("output")
    env_dir: Path | None = None
    iters: int = 10
    save_weights: str = "never"
    master_port: int = 29505
    hccl_base_port: int = 61000
    nodes: MultiNode | None = None
    controller: bool = False
    """Whether this machine only steers."""
    root: Path = field(default_factory=Path.cwd)
    pta_path: Path | None = None
    msa_path: Path | None = None
    ascend_root: Path = ascend.ASCEND
    proc: Path = Path("/proc")
    shm: Path = Path("/dev/shm")

    @property
    def roots(self) -> dict[str, Path | None]:
        """The roots of this machine that have their like on the others."""
        return {
            "lmsv": self.root.absolute(),
            "mindspeed_mm": self.mindspeed_mm,
            "pta": self.pta_path,
            "msa": self.msa_path,
        }


def of_settings(
    settings: Settings, models: Mapping[str, ModelSpec], config: Path | None = None
) -> Site:
    """The site of a session's *settings*; *config* is the Task6 file that names other machines."""
    nodes = task6_config.read(config).multi_node if config is not None else None
    return Site(
        device=settings.device,
        models=tuple(models.values()),
        sides=tuple(dict.fromkeys(_stack(side) for side in settings.sides)),
        environments={"pta": settings.pta_env, "msa": settings.msa_env},
        mindspeed_mm=settings.mindspeed_mm_path,
        dataset_root=settings.dataset_root,
        load_path=settings.load_path,
        output=settings.output,
        env_dir=settings.env_dir,
        iters=settings.iters,
        save_weights=getattr(settings, "save_weights", "never"),
        nodes=nodes if nodes is not None and nodes.enabled else None,
        controller=settings.controller,
        root=settings.root,
        pta_path=settings.pta_path,
        msa_path=settings.msa_path,
    )


def of_folder(folder: Path, given: Mapping[str, Any]) -> Site:
    """The site that *given* options, then a named config, ini and config.json in *folder* tell."""
    sources: list[Mapping[str, Any]] = [given]
    named = given.get("config")
    path = Path(named) if named else folder / "config.json"
    config = task6_config.read(path) if named or task6_config.is_task6(path) else None
    if config is not None and named:
        sources.append(config.settings())
    sources.append(ini(folder))
    if config is not None and not named:
        sources.append(config.settings())

    def first(name: str, default: Any = None) -> Any:
        for source in sources:
            if source.get(name) not in (None, ""):
                return source[name]
        return default

    def path_of(name: str) -> Path | None:
        value = first(name)
        return (folder / Path(str(value)).expanduser()) if value else None

    device = str(first("device", "auto"))
    if device not in ("cpu", "npu"):
        signs = [*Path("/dev").glob("davinci[0-9]*"), ascend.cann(), first("mindspeed_mm_path")]
        device = "npu" if any(signs) else "cpu"
    known = catalog.load(catalog.default_folders())
    names = str(first("model", "") or "").replace(",", " ").split()
    if not names or names == ["all"]:
        names = [name for name, spec in known.items() if device in spec.devices]
    models = [catalog.find(known, name) for name in names]
    sides = str(first("compare", "pta_msa")).split("_")
    nodes = config.multi_node if config else None
    return Site(
        device="npu" if device == "npu" else "cpu",
        models=tuple(models),
        sides=tuple(dict.fromkeys(_stack(side) for side in sides)),
        environments={"pta": first("pta_env"), "msa": first("msa_env")},
        mindspeed_mm=path_of("mindspeed_mm_path"),
        dataset_root=path_of("dataset_root"),
        load_path=path_of("load_path"),
        output=path_of("output") or folder / os.environ.get("LMSV_OUTPATH", "output"),
        env_dir=path_of("env_dir"),
        iters=int(first("iters", 10)),
        save_weights=str(first("save_weights", "never")),
        master_port=nodes.master_port if nodes else 29505,
        nodes=nodes if nodes is not None and nodes.enabled else None,
        controller=bool(given.get("controller")),
        root=folder,
        pta_path=path_of("pta_path"),
        msa_path=path_of("msa_path"),
    )


def ini(folder: Path) -> dict[str, Any]:
    """The ``lmsv_*`` settings of the pytest configuration in *folder*, without their prefix."""
    found: Mapping[str, Any] = {}
    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("tox.ini", "pytest"),
    ):
        parser = configparser.ConfigParser(interpolation=None)
        if (folder / name).is_file():
            parser.read(folder / name, encoding="utf-8")
            if parser.has_section(section):
                return _own(dict(parser[section]))
    project = folder / "pyproject.toml"
    if project.is_file():
        # Python 3.10 has no tomllib; pytest brings tomli there.
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        try:
            tool = toml.loads(project.read_text(encoding="utf-8")).get("tool", {})
        except ValueError:
            return {}
        found = tool.get("pytest", {}).get("ini_options", {})
    return _own(found)


def environment_folder(site: Site, stack: Stack) -> Path | None:
    """The folder of *stack*'s environment as it is on this machine, None where there is none."""
    named = site.environments.get(stack)
    if site.device == "npu":
        return ascend.conda_environment(named or ascend.DEFAULT_NAMES[stack])
    # A conda name of Task6's file names nothing on cpu.
    if named and ("/" in named or Path(named).is_dir()):
        return ascend.conda_environment(named) or (Path(named) if Path(named).is_dir() else None)
    made = environments.existing(stack, site.env_dir or environments.default_folder())
    return made.path if made else None


def _own(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k.removeprefix("lmsv_"): v for k, v in values.items() if k.startswith("lmsv_")}


def _stack(side: str) -> Stack:
    return "pta" if side == "pta" else "msa"
