"""``--lmsv-locate`` and ``lmsv locate``: when they run, what they write, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_lmsv.cli import main
from tests_selftest.plugin.conftest import Toy, properties

FIGURES = {"shape": [1], "mean": 1.0, "spread": 0.0, "largest": 1.0, "norm": 1.0, "mixed": 1.0}


def recording(factor: float) -> str:
    """One step of a network of two layers, the second of which gives *factor* times as much."""
    off = {name: v * factor if isinstance(v, float) else v for name, v in FIGURES.items()}
    calls = [
        {"name": name, "type": "Linear", "inputs": [], "output": made}
        for name, made in (("first", FIGURES), ("second", off))
    ]
    return json.dumps({"step": 1, "calls": calls})


def with_recorders(toy: Toy) -> None:
    """Make the toy's launchers write recordings where LMSV_LOCATE asks for them."""
    folder = toy.pytester.path / "scripts"
    for stack, factor in (("pta", 1.0), ("msa", 1.25)):
        path = folder / f"{stack}_toy.sh"
        text = path.read_text("utf-8")
        told = f"{recording(factor)}\n"
        (toy.pytester.path / f"{stack}.jsonl").write_text(told, encoding="utf-8")
        copied = (
            "if [[ -n ${LMSV_LOCATE:-} ]]; then "
            f'cp "{toy.pytester.path / stack}.jsonl" "$LMSV_RUN_DIR/record/modules_0.jsonl"; fi'
        )
        text = f"set -e\n{text.replace('exec ', '')}\n{copied}\n"
        path.write_text(text, encoding="utf-8")


def located(toy: Toy) -> str:
    """What the JUnit file of the last session says was located."""
    (case,) = properties(toy.pytester.path / "j.xml")
    return case.get("lmsv.located", "")


def test_a_finding_is_located_and_a_clean_iteration_is_not(toy: Toy) -> None:
    with_recorders(toy)
    toy.behave(msa=[{"when": {"width": 1}}, {"loss_factor": 1.2}])
    options = ("--lmsv-locate", "--junitxml=j.xml", "--lmsv-mutations=1", "--lmsv-gate=accuracy")
    result = toy.run(*options, iters=1)
    assert result.ret == 1
    told = "toy-iter1 located: step 1: first differing module: second (Linear)"
    assert told in located(toy)
    folder = toy.campaign / "iters" / "toy" / "iter_1"
    found = json.loads((folder / "locate.json").read_text("utf-8"))
    assert (found["kind"], found["name"], found["labels"]) == ("module", "second", ["PTA", "MSA"])
    assert found["relative"] == pytest.approx(0.2)
    assert found["edits"]
    assert "`second`" in (folder / "locate.md").read_text("utf-8")
    assert "[locate.md](locate.md)" in (folder / "report.md").read_text("utf-8")
    assert (folder / "locate" / "record" / "msa" / "modules_0.jsonl").is_file()

    toy.behave()
    result = toy.run(*options, iters=1)
    assert result.ret == 0
    assert located(toy) == ""
    assert not list(toy.campaign.glob("iters/toy/*/locate*"))


def test_the_command_locates_a_stored_iteration_and_says_where(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_recorders(toy)
    toy.behave(msa=[{"when": {"width": 1}}, {"loss_factor": 1.2}])
    toy.run("--lmsv-gate=accuracy", iters=1)
    folder = toy.campaign / "iters" / "toy" / "iter_1"
    assert not (folder / "locate.json").exists()
    monkeypatch.chdir(toy.pytester.path)
    capsys.readouterr()
    assert main(["locate", str(folder)]) == 0
    sentence, path = capsys.readouterr().out.splitlines()[-2:]
    assert sentence.startswith("step 1: first differing module: second (Linear)")
    assert Path(path) == folder / "locate.md"


def test_findings_of_one_signature_are_located_once(toy: Toy) -> None:
    with_recorders(toy)
    toy.behave(msa=[{"when": {"width": 1}}, {"loss_factor": 1.2}])
    options = ("--lmsv-locate", "--junitxml=j.xml", "--lmsv-gate=accuracy")
    toy.run(*options, iters=1)
    assert " located: " in located(toy)
    (record,) = toy.campaign.glob("iters/toy/iter_1/record.json")
    record.unlink()  # as if a further iteration ended so
    toy.run(*options, f"--lmsv-resume={toy.campaign}", iters=1)
    assert located(toy) == ""


def test_a_launcher_without_recorders_is_one_line_and_fails_no_test_more(toy: Toy) -> None:
    toy.behave(msa=[{"when": {"width": 1}}, {"loss_factor": 1.2}])
    result = toy.run("--lmsv-locate", "--junitxml=j.xml", "--lmsv-gate=accuracy", iters=1)
    result.assert_outcomes(failed=1)
    assert "this launcher does not record modules" in located(toy)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["."], "is no iteration of a campaign; name a folder"),
        (["--step", "0", "."], "--step 0: give a number from 1 on"),
    ],
)
def test_a_wrong_folder_or_step_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["locate", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
