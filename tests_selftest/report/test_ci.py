"""The recipes for CI are valid, and name only what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_lmsv import cli
from pytest_lmsv.options import OPTIONS

ROOT = Path(__file__).parents[2]
RECIPES = (ROOT / "docs" / "ci.md").read_text("utf-8")
FLAGS = {flag for option in OPTIONS for flag in option.flags}


def blocks(language: str) -> list[str]:
    """The blocks of code of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", RECIPES, re.DOTALL | re.MULTILINE)


def loaded(text: str) -> dict[str, Any]:
    """A workflow; YAML 1.1 takes its key ``on`` for true."""
    value = yaml.safe_load(text)
    assert isinstance(value, dict)
    return {("on" if key is True else key): item for key, item in value.items()}


def test_this_repositorys_workflow_runs_what_ci_runs() -> None:
    workflow = loaded((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    assert {"push", "pull_request"} <= set(workflow["on"])
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert [step for step in steps if step.get("run") == ".ci/run"]
    assert all(re.search(r"@v\d+$", step["uses"]) for step in steps if "uses" in step)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_the_recipes_are_yaml_with_a_gate_and_a_nightly_campaign() -> None:
    github, gitlab = map(loaded, blocks("yaml"))
    assert set(github["jobs"]) == {"gate", "nightly"}
    assert {"gate", "nightly"} <= set(gitlab)
    assert gitlab[".alignment"]["artifacts"]["reports"]["junit"] == "verdicts.xml"
    gate, nightly = (str(github["jobs"][name]) for name in ("gate", "nightly"))
    assert "--lmsv-seed=43" in gate
    assert "--lmsv-seed=${{ github.run_number }}" in nightly


def test_a_groovy_recipe_closes_what_it_opens() -> None:
    (jenkins,) = blocks("groovy")
    assert all(jenkins.count(a) == jenkins.count(b) for a, b in ("{}", "[]", "()"))
    assert "junit testResults" in jenkins


@pytest.mark.parametrize(
    "word", sorted(set(re.findall(r"--lmsv-[a-z-]+|--model|--iters", RECIPES)))
)
def test_every_option_in_the_recipes_exists(word: str) -> None:
    assert word in FLAGS


@pytest.mark.parametrize(
    "word", sorted(set(re.findall(r"lmsv (doctor|setup|analyze|history)", RECIPES)))
)
def test_every_command_in_the_recipes_exists(word: str) -> None:
    assert word in cli.COMMANDS
