"""A model is added by files alone: YAML and documents, two launchers, a script that is run.

The project here brings a training and an inference of its own, beside the packaged four.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from pytest_lmsv import data
from tests_selftest.plugin.conftest import Toy, properties

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

MODEL = """\
name: {name}
aliases: []
kind: {kind}
entry: {{cpu: {name}.py}}
patch_points: {{}}
layouts: {{cpu: {{devices: 1, tp: 1, pp: 1, cp: 1}}}}
stack_overrides: {{pta: {{}}, msa: {{}}}}
mindspeed_mm: []
"""
SPACE = """\
keys:
  - {path: /model/width, values: [2, 3, 4, 5, 6], live: true}
  - {path: /model/depth, values: [2, 3, 4, 5, 6], live: true}
constraints:
  - {rule: at_most, path: /model/depth, limit: 9}
"""
LAUNCHER = """\
#!/usr/bin/env bash
set -euo pipefail
source {launchers}/common.sh
prepare {stack} {name}
use_cpu_environment
exec python "$launchers/entry.py" {script} "${{model_arguments[@]}}"
"""
COMMON = """\
import json, os, sys
from pathlib import Path
from lmsv_record import RECORD

options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
model = json.loads(Path(options["--mm-model"]).read_text())
steps = int(options["--train-iters"])
stack = os.environ["LMSV_STACK"]
size = model["width"] * model["depth"]
weights = {"weight": {"dtype": "float32", "shape": [size], "digest": f"sha256:{size}"}}
RECORD.imports_done()
RECORD.begin(parameters=weights, echo={"/model/width": model["width"]}, steps=steps)
"""
TRAINING = (
    COMMON
    + """
for step in range(1, steps + 1):
    loss = size / step
    RECORD.step(step, loss, 1.0, None)
    print(f" [2026-01-01 00:00:00] iteration {step:8d}/{steps:8d} | consumed samples: {step:12d} |"
          f" elapsed time per iteration (ms): 1.0 | learning rate: 1.000000E-05 |"
          f" global batch size:     1 | loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.000 |"
          f" number of skipped iterations:   0 | number of nan iterations:   0 |", flush=True)
"""
)
INFERENCE = (
    COMMON
    + """
tokens = [size * step % 97 for step in range(steps)]
if stack == "msa" and Path("WRONG_FILE").exists():
    tokens[1] += 1
if Path("WRONG_FILE").exists() and Path("WRONG_FILE").read_text() == "nothing":
    sys.exit(0)
samples = Path(os.environ["LMSV_RUN_DIR"]) / "samples"
samples.mkdir()
answer = {"token_ids": tokens, "text": " ".join(map(str, tokens))}
(samples / "answer_0.json").write_text(json.dumps(answer))
RECORD.facts["generation_s"] = 0.5
print(answer["text"])
"""
)


@pytest.fixture
def project(toy: Toy) -> Toy:
    """The toy's project with two more models: ``fifth`` is trained, ``sixth`` answers."""
    root = toy.pytester.path
    wrong = str(root / "wrong")
    for name, kind, script in (
        ("fifth", "training", TRAINING),
        ("sixth", "inference", INFERENCE.replace("WRONG_FILE", wrong)),
    ):
        folder = root / "models" / name
        (folder / "cpu").mkdir(parents=True)
        (folder / "model.yaml").write_text(MODEL.format(name=name, kind=kind), encoding="utf-8")
        (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
        for document, content in {
            "model": {"width": 1, "depth": 1},
            "data": {},
            "args": {},
        }.items():
            path = folder / "cpu" / f"{document}.json"
            path.write_text(json.dumps(content), encoding="utf-8")
        (root / "scripts" / f"{name}.py").write_text(script, encoding="utf-8")
        for stack in ("pta", "msa"):
            launcher = LAUNCHER.format(
                launchers=data.launchers(),
                stack=stack,
                name=name,
                script=root / "scripts" / f"{name}.py",
            )
            (root / "scripts" / f"{stack}_{name}.sh").write_text(launcher, encoding="utf-8")
    return toy


def test_a_fifth_and_a_sixth_model_run_beside_the_others(project: Toy) -> None:
    result = project.start("--junitxml=junit.xml", models="fifth,sixth", iters=2)
    result.assert_outcomes(passed=4)
    cases = properties(project.pytester.path / "junit.xml")
    verdicts = [(case["lmsv.model"], case["lmsv.accuracy"], case["lmsv.output"]) for case in cases]
    assert verdicts == [("fifth", "OK", "N/A")] * 2 + [("sixth", "N/A", "OK")] * 2
    assert [case["lmsv.kind"] for case in cases] == ["training"] * 2 + ["inference"] * 2
    result.stdout.fnmatch_lines(
        [
            "lmsv fifth-iter1 PASSED: accuracy OK (diff=0.00%), memory *, performance OK *",
            "lmsv sixth-iter1 PASSED: memory *, performance OK *, output OK*",
        ]
    )
    kept = project.campaign / "iters" / "sixth" / "iter_1" / "samples"
    for stack in ("pta", "msa"):
        assert json.loads((kept / stack / "answer_0.json").read_text("utf-8"))["token_ids"]
    metrics = project.stored("iters/sixth/iter_1/metrics.json")
    assert metrics["analysis"]["output_ok"] is True
    assert metrics["pta"]["time"] == 500.0
    rows = list(csv.DictReader((project.campaign / "data" / "iteration_metrics.csv").open()))
    assert [row["output_ok"] for row in rows] == ["", "", "True", "True"]


def test_another_token_is_a_finding_that_names_its_place(project: Toy) -> None:
    (project.pytester.path / "wrong").write_text("one token", encoding="utf-8")
    result = project.run("--junitxml=junit.xml", models="sixth", iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*output NG: answer_0.json: first differing token is 2 of 2: PTA has token *, MSA token *"]
    )
    (case,) = properties(project.pytester.path / "junit.xml")
    found = [case[f"lmsv.output{more}"] for more in ("", ".diff", ".unit")]
    assert found == ["NG", "1", "tokens"]
    result = project.run("--lmsv-gate=accuracy", models="sixth", iters=1)
    result.assert_outcomes(passed=1)


def test_a_mutation_that_shows_only_in_the_output_has_effect(project: Toy) -> None:
    # /model/depth is not in the echo; here the parameter count is taken away too.
    script = project.pytester.path / "scripts" / "sixth.py"
    text = script.read_text("utf-8").replace("parameters=weights, ", "")
    script.write_text(text.replace("/model/width", "/model/other"), encoding="utf-8")
    project.run(models="sixth", iters=3).assert_outcomes(passed=3)
    counts = project.stored("data/summary.json")["statistics"]["sixth"]
    assert (counts["no_effect"], counts["invalid"]) == (0, 0)


def test_an_inference_that_makes_nothing_is_incomplete(project: Toy) -> None:
    (project.pytester.path / "wrong").write_text("nothing", encoding="utf-8")
    result = project.run(models="sixth", iters=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no output made*"])


REAL_LAUNCHER = """\
#!/usr/bin/env bash
set -euo pipefail
source {launchers}/common.sh
prepare {stack} {name}
use_cpu_environment
{starter} "$launchers/cpu/{script}" "${{model_arguments[@]}}"
"""


@pytest.mark.stacks
def test_added_models_run_under_torchrun_and_msrun(
    toy: Toy, pta_env: StackEnvironment, msa_env: StackEnvironment
) -> None:
    """Two packaged models under new names, from files of the project alone."""
    root = toy.pytester.path
    for name, like, script in (
        ("fifth", "cogvideox", "pretrain_sora.py"),
        ("sixth", "opensora", "inference_sora.py"),
    ):
        folder = root / "models" / name
        shutil.copytree(data.mm_configs() / like, folder)
        text = (folder / "model.yaml").read_text("utf-8")
        text = re.sub("(?m)^name:.*", f"name: {name}", text)
        text = re.sub("(?m)^aliases:.*", "aliases: []", text)
        (folder / "model.yaml").write_text(text, encoding="utf-8")
        for stack, starter in (("pta", "run_torchrun"), ("msa", "run_msrun")):
            launcher = REAL_LAUNCHER.format(
                launchers=data.launchers(), stack=stack, name=name, starter=starter, script=script
            )
            (root / "scripts" / f"{stack}_{name}.sh").write_text(launcher, encoding="utf-8")
    environments = ("-o", f"lmsv_pta_env={pta_env.path}", "-o", f"lmsv_msa_env={msa_env.path}")
    result = toy.start("--junitxml=junit.xml", *environments, models="fifth,sixth", iters=1)
    result.assert_outcomes(passed=2)
    fifth, sixth = properties(root / "junit.xml")
    assert (fifth["lmsv.model"], fifth["lmsv.accuracy"]) == ("fifth", "OK")
    assert float(fifth["lmsv.accuracy.diff"]) < 1e-5
    assert (sixth["lmsv.model"], sixth["lmsv.output"]) == ("sixth", "OK")
    assert float(sixth["lmsv.output.diff"]) < 5e-6
