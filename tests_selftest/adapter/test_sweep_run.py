"""Running a sweep: it goes on after a crash, and says when a stack does not start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_lmsv.launch import sweep
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.problems import EnvironmentProblem

A_SWEEP = """
import argparse, json, os, signal
parser = argparse.ArgumentParser()
parser.add_argument("--stack"); parser.add_argument("--out"); parser.add_argument("--after")
options = parser.parse_args()
names = ["a", "killer", "b", "quitter", "c"]
if options.after:
    names = names[names.index(options.after) + 1 :]
out = open(options.out, "a")
def write(line):
    print(json.dumps(line), file=out, flush=True)
write({"schema": 1, "stack": options.stack, "fixes": [os.environ["LMSV_ADAPTER_FIXES"]],
       "versions": {"x": "1"}})
for name in names:
    write({"begin": name})
    if name == "killer":
        out.write('{"operation": "kil'); out.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "quitter":
        raise SystemExit("no more")
    write({"operation": name, "value": []})
write({"end": True})
"""


@pytest.fixture
def environment() -> StackEnvironment:
    """The environment that these tests run in: its Python is all that is needed here."""
    return StackEnvironment("msa", Path(sys.prefix), {})


def launchers(folder: Path, source: str) -> Path:
    (folder / "cpu").mkdir()
    (folder / "cpu" / "sweep.py").write_text(source, encoding="utf-8")
    return folder


def test_it_goes_on_after_an_operation_that_ends_the_interpreter(
    tmp_path: Path, environment: StackEnvironment
) -> None:
    place = launchers(tmp_path, A_SWEEP)
    found = sweep.run(environment, place, tmp_path / "out.jsonl", stack="msa", fixes=False)
    assert list(found.results) == ["a", "b", "c"]
    assert found.crashed == {"killer": "exit status -9", "quitter": "exit status 1, no more"}
    assert (found.fixes, found.versions) == (("off",), {"x": "1"})


@pytest.mark.parametrize("source", ["import no_such_stack", ""])
def test_a_stack_that_does_not_start_is_a_problem_of_the_environment(
    tmp_path: Path, environment: StackEnvironment, source: str
) -> None:
    place = launchers(tmp_path, source)
    with pytest.raises(EnvironmentProblem, match="the sweep of msa did not run: exit status"):
        sweep.run(environment, place, tmp_path / "out.jsonl", stack="msa")
