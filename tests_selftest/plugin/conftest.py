"""A toy model in a project of its own, whose runs behave as a test wishes."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv import data
from pytest_lmsv.launch.pins import PINS

# What a session imports on its way: pytester drops modules that a session in this process brought,
# and a second import of the same one beside the first confuses yaml and hypothesis.
SESSION_PARTS = [
    import_module(name)
    for name in (
        "hypothesis",
        "yaml",
        "pytest_lmsv.session",
        "pytest_lmsv.mutation.draw",
        *(
            f"pytest_lmsv.report.{part}"
            for part in ("collection", "html", "judgement", "properties", "stacks", "terminal")
        ),
    )
]

TOY_RUN = Path(__file__).with_name("toy_run.py")
LAUNCHER = """\
#!/usr/bin/env bash
set -euo pipefail
mkdir -p "$LMSV_RUN_DIR"
exec {python} {script} {stack}
"""
SPACE = """\
keys:
  - {path: /model/width, values: [2, 3, 4, 5, 6, 7, 8, 9], live: true}
  - {path: /args/lr, values: [1.0e-5, 2.0e-5, 3.0e-5, 4.0e-5], live: true}
  - {path: /model/idle, values: [0, 1, 2, 3, 4, 5, 6, 7, 8], live: true}
constraints: []
"""
MODEL = """\
name: toy
aliases: [plaything]
kind: training
entry: {cpu: toy.py}
patch_points: {}
layouts:
  cpu: {devices: 1, tp: 1, pp: 1, cp: 1}
stack_overrides: {pta: {}, msa: {}}
mindspeed_mm: ["2.2.0"]
"""


@dataclass
class Toy:
    """The project, and how its runs behave."""

    pytester: pytest.Pytester
    monkeypatch: pytest.MonkeyPatch

    def behave(self, **rules: list[dict[str, Any]]) -> None:
        """Let runs of a stack follow the first of its rules that fits (see toy_run.py)."""
        path = self.pytester.path / "behaviour.json"
        path.write_text(json.dumps(rules), encoding="utf-8")
        self.monkeypatch.setenv("TOY_BEHAVIOUR", str(path))

    def run(self, *arguments: str, models: str = "toy", iters: int = 2) -> pytest.RunResult:
        """Run pytest with the toy model, in this process: its runs are processes all the same."""
        return self.pytester.runpytest_inprocess(*self._words(models, iters), *arguments)

    def start(self, *arguments: str, models: str = "toy", iters: int = 2) -> pytest.RunResult:
        """Run pytest with the toy model in a process of its own, as a user does."""
        words = self._words(models, iters)
        return self.pytester.runpytest_subprocess(*words, *arguments, timeout=240)

    def _words(self, models: str, iters: int) -> list[str]:
        words = ["-p", "no:cacheprovider", f"--model={models}", f"--iters={iters}"]
        return [*words, "--lmsv-steps=2"]

    @property
    def campaign(self) -> Path:
        """The newest campaign folder."""
        return max((self.pytester.path / "output").iterdir())

    def stored(self, name: str) -> Any:
        """Return a JSON file of the campaign."""
        return json.loads((self.campaign / name).read_text("utf-8"))

    def add_known_bugs(self, text: str) -> None:
        """Add a known_bugs.yaml beside the model."""
        (self.pytester.path / "models" / "known_bugs.yaml").write_text(text, encoding="utf-8")


def properties(junit: Path) -> list[dict[str, str]]:
    """Return the properties of every testcase of a JUnit file."""
    cases = ET.parse(junit).getroot().iter("testcase")
    return [{p.get("name", ""): p.get("value", "") for p in c.iter("property")} for c in cases]


@pytest.fixture
def toy(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A project with the toy model and its two launchers, and nothing else."""
    make_project(pytester.path)
    result = Toy(pytester, monkeypatch)
    result.behave()
    return result


def make_project(root: Path) -> None:
    """Write into *root* what a project with the toy model consists of."""
    model = root / "models" / "toy"
    (model / "cpu").mkdir(parents=True)
    (model / "model.yaml").write_text(MODEL, encoding="utf-8")
    (model / "space.yaml").write_text(SPACE, encoding="utf-8")
    documents = {"model": {"width": 1, "idle": 9}, "data": {}, "args": {"lr": 9e-5}}
    for name, document in documents.items():
        (model / "cpu" / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    (root / "scripts").mkdir()
    for stack, pins in PINS.items():
        launcher = LAUNCHER.format(python=sys.executable, script=TOY_RUN, stack=stack)
        (root / "scripts" / f"{stack}_toy.sh").write_text(launcher, encoding="utf-8")
        _environment(root / f"env_{stack}", pins.versions())
    ini = [
        "[pytest]",
        "lmsv_config_dirs = models",
        "lmsv_launcher_dirs = scripts",
        f"lmsv_pta_env = {root / 'env_pta'}",
        f"lmsv_msa_env = {root / 'env_msa'}",
    ]
    (root / "pytest.ini").write_text("\n".join(ini) + "\n", encoding="utf-8")


def _environment(folder: Path, packages: dict[str, str]) -> None:
    """Make what a user's own environment shows: an interpreter, and which packages it has."""
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(sys.executable)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    for name, number in packages.items():
        info = site / f"{name}-{number}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {number}\n", encoding="utf-8")


@pytest.fixture
def packaged_test() -> Path:
    """The test that a project without one of its own runs."""
    return data.test_models() / "test_alignment.py"
