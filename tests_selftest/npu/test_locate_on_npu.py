"""msprobe in the entry wrapper: what it is told, on a package with msprobe's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.npu.test_entry_on_npu import GENERATE, MODEL, run

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

pytestmark = pytest.mark.stacks
DEBUGGER = """
import json, os, sys
CALLS = []

class PrecisionDebugger:
    def __init__(self, config_path):
        with open(config_path) as file:
            self.config = json.load(file)
        CALLS.append(["made", self.config, "{stack}", "mindspeed_mm" in sys.modules])

    def start(self, model):
        CALLS.append(["start", [type(part).__name__ for part in model]])

    def stop(self):
        CALLS.append(["stop"])

    def step(self):
        CALLS.append(["step"])
        with open(os.environ["CALLS"], "w") as file:
            json.dump(CALLS, file)
"""


def with_msprobe(folder: Path) -> dict[str, str]:
    """Write a package msprobe into *folder*; the variables of a run that finds it."""
    for module, stack in (("pytorch", "pta"), ("mindspore", "msa")):
        path = folder / "msprobe" / module / "__init__.py"
        path.parent.mkdir(parents=True)
        path.write_text(DEBUGGER.replace("{stack}", stack), encoding="utf-8")
    (folder / "msprobe" / "__init__.py").write_text("")
    return {"CALLS": str(folder / "calls.json")}


def called(
    environment: StackEnvironment, tmp_path: Path, script: str, **more: str
) -> tuple[list[Any], dict[str, Any], list[dict[str, Any]]]:
    """What msprobe was told in a run of *script*, the run's record, and its steps."""
    variables = with_msprobe(tmp_path / "site")
    paths = f"{tmp_path / 'site'}:{tmp_path / 'run' / 'mm'}"
    status, stderr, record, steps = run(
        environment, tmp_path / "run", script, MODEL, **{**variables, "PYTHONPATH": paths, **more}
    )
    assert status == 0, stderr
    assert record is not None
    return json.loads(Path(variables["CALLS"]).read_text()), record, steps


@pytest.mark.parametrize("stack", ["pta", "msa"])
def test_the_steps_that_were_asked_for_are_dumped(
    pta_env: StackEnvironment, tmp_path: Path, stack: str
) -> None:
    calls, _, steps = called(
        pta_env, tmp_path, "pretrain_vlm.py", LMSV_LOCATE="1,2", LMSV_STACK=stack
    )
    (_, config, used, imported), *others = calls
    assert (used, imported) == (stack, True)
    assert (config["level"], config["task"]) == ("L0", "statistics")
    assert config["rank"] == []  # msprobe gives a process that is alone no rank
    assert config["step"] == [0, 1]  # msprobe counts from 0
    assert config["dump_path"] == str(tmp_path / "run" / "record" / "msprobe")
    assert others == [["start", ["Sequential"]], ["stop"], ["step"]] * 2  # not of step 3
    assert [step["step"] for step in steps] == [1, 2, 3]


def test_of_several_workers_the_first_is_dumped(pta_env: StackEnvironment, tmp_path: Path) -> None:
    several = {"LMSV_LOCATE": "1", "WORLD_SIZE": "8", "RANK": "0"}
    calls, _, _ = called(pta_env, tmp_path, "pretrain_vlm.py", **several)
    assert calls[0][1]["rank"] == [0]


def test_a_generation_call_is_dumped(pta_env: StackEnvironment, tmp_path: Path) -> None:
    more = {"LMSV_LOCATE": "1", "LMSV_PATCH_POINT": GENERATE}
    calls, record, _ = called(pta_env, tmp_path, "inference_vlm.py", **more)
    assert [call[0] for call in calls] == ["made", "start", "stop", "step"]
    assert record["generation_s"] > 0


def test_a_run_that_is_not_to_be_dumped_never_asks_for_msprobe(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    status, stderr, record, _ = run(pta_env, tmp_path / "run", "pretrain_vlm.py", MODEL)
    assert status == 0, stderr
    assert record is not None


def test_without_msprobe_one_line_says_so(pta_env: StackEnvironment, tmp_path: Path) -> None:
    status, stderr, record, _ = run(
        pta_env, tmp_path / "run", "pretrain_vlm.py", MODEL, LMSV_LOCATE="1"
    )
    assert status != 0
    assert "lmsv: error: no msprobe in" in stderr.strip().splitlines()[-1]
    assert record is None
