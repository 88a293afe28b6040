"""A project with a toy model whose runs take no time, over hosts that this process steers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_lmsv.launch.pins import PINS
from tests_selftest.cluster.hosts import Hosts
from tests_selftest.plugin.conftest import MODEL, SPACE, _environment

ROOT = Path(__file__).parents[2]
LAUNCHER = 'exec python3 -u "$(dirname "${BASH_SOURCE[0]}")/toy_node.py" '


@dataclass
class Toy:
    """One project."""

    folder: Path
    hosts: Hosts

    def command(self, *more: str, iters: int = 1) -> list[str]:
        """The pytest that steers a campaign over the hosts."""
        words = ["--model=toy", f"--iters={iters}", "--lmsv-steps=2", "--lmsv-device=cpu"]
        words += ["--lmsv-config=nodes.yaml", "--lmsv-controller", "-p", "no:cacheprovider"]
        words += [] if any("weights" in word for word in more) else ["--lmsv-save-weights=never"]
        return [sys.executable, "-m", "pytest", "-p", "pytest_lmsv.plugin", *words, *more]

    def variables(self) -> dict[str, str]:
        """The environment of the steering process."""
        own = {"HOME": str(self.hosts.home), "PYTHONPATH": str(ROOT)}
        return {**os.environ, **own, "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run(self, *more: str, iters: int = 1) -> subprocess.CompletedProcess[str]:
        """Run a campaign to its end."""
        return subprocess.run(
            self.command(*more, iters=iters),
            cwd=self.folder,
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start a campaign."""
        return subprocess.Popen(
            self.command(*more),
            cwd=self.folder,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def campaign(self) -> Path:
        """The newest campaign folder."""
        return max((self.folder / "output").iterdir())

    @property
    def iteration(self) -> Path:
        """The folder of its first iteration."""
        return self.campaign / "iters/toy/iter_1"

    def record(self) -> dict[str, Any]:
        """What is stored of it."""
        found: dict[str, Any] = json.loads((self.iteration / "record.json").read_text())
        return found


def toy(
    folder: Path,
    hosts: Hosts,
    on: Mapping[str, str] | None = None,
    *,
    seconds: float = 0.0,
    work: list[str] | None = None,
    more: Mapping[str, object] | None = None,
) -> Toy:
    """The project; *on*: behaviours (toy_node.py); *work*: LMSV_PATH of each host.

    *more*: further keys of the model document, which behaviours read.
    """
    model = folder / "models" / "toy"
    (model / "cpu").mkdir(parents=True)
    (model / "model.yaml").write_text(MODEL)
    (model / "space.yaml").write_text(SPACE)
    document = {"width": 1, "idle": 9, "seconds": seconds, "on": dict(on or {}), **(more or {})}
    for name, value in {"model": document, "data": {}, "args": {"lr": 9e-5}}.items():
        (model / "cpu" / f"{name}.json").write_text(json.dumps(value))
    scripts = folder / "scripts"
    scripts.mkdir()
    (scripts / "toy_node.py").write_text(Path(__file__).with_name("toy_node.py").read_text())
    for stack, pins in PINS.items():
        (scripts / f"{stack}_toy.sh").write_text(f"set -euo pipefail\n{LAUNCHER}{stack}\n")
        _environment(folder / f"env_{stack}", pins.versions())
    (folder / "pytest.ini").write_text(
        "[pytest]\nlmsv_config_dirs = models\nlmsv_launcher_dirs = scripts\n"
        f"lmsv_pta_env = {folder / 'env_pta'}\nlmsv_msa_env = {folder / 'env_msa'}\n"
    )
    nodes = [
        {
            "HOST": f"root@{host.address}",
            "SSH_PORT": host.port,
            "LMSV_PATH": (work or [h.work for h in hosts])[number],
            # Any folder with bin/python does for the toy.
            "PTA_NAME": sys.prefix,
            "MSA_NAME": sys.prefix,
        }
        for number, host in enumerate(hosts)
    ]
    config = {"MULTI_NODE": {"ENABLED": True, "OTHER_NODES": nodes}}
    (folder / "nodes.yaml").write_text(json.dumps(config))
    return Toy(folder, hosts)
