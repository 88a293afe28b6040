"""The bank of faults as data: what it holds, and that a wrong entry is refused."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pytest_lmsv import catalog, data
from pytest_lmsv.mutation import pointer
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.score import bank, caught, plan
from pytest_lmsv.score.bank import Fault

HERE = Path(__file__).parent
MODELS = catalog.load([data.mm_configs()])
FAULTS = bank.load(HERE / "bank")
COUNTED = [fault for fault in FAULTS if not fault.equivalent]
DIMENSIONS = {
    "forward",
    "backward",
    "optimizer",
    "schedule",
    "data",
    "distribution",
    "generation",
}


def plants() -> list[str]:
    """The names that the plants are registered by, read without a stack."""
    names = []
    for path in (HERE / "plants").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "plant":
                        names.append(ast.literal_eval(mark.args[0]))
    return names


def test_every_fault_of_the_bank_has_one_plant_and_every_plant_a_fault() -> None:
    assert sorted(plants()) == sorted(fault.name for fault in FAULTS)


def test_the_bank_is_as_large_and_as_wide_as_is_said_of_it() -> None:
    assert len(COUNTED) >= 48
    assert {fault.dimension for fault in COUNTED} == DIMENSIONS
    assert {model for fault in COUNTED for model in fault.when} == set(MODELS)
    only_mutated = [
        fault
        for fault in COUNTED
        if all(fault.by_keys(model, MODELS[model].documents("cpu")) for model in fault.when)
    ]
    assert len(only_mutated) >= 12
    assert {fault.dimension for fault in FAULTS if fault.workers == 2} == {"distribution"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_condition_names_values_that_a_configuration_can_have(fault: Fault) -> None:
    assert fault.says.endswith(".")
    for model, conditions in fault.when.items():
        documents = MODELS[model].documents("cpu")
        keys = {path: key for key in MODELS[model].space("cpu").drawn() for path in key.paths}
        for path, values in ((p, v) for each in conditions for p, v in each.items()):
            possible = [pointer.get(documents, path), *keys[path].values]
            for value in values:
                assert any(pointer.same(value, each) for each in possible), (path, value)


def test_each_fault_is_planted_where_it_shows() -> None:
    made = plan.make(list(MODELS.values()), FAULTS, seed=43, configurations=2, clean=9)
    assert len(made.cells) == sum(len(fault.when) for fault in FAULTS)
    for cell in made.cells:
        for each in cell.configurations:
            assert cell.fault.shows(cell.model, each.documents)
            assert each.workers == cell.fault.workers
    assert [each.model for each in made.clean].count("cogvideox") == 3
    assert len(made.clean) == 9
    again = plan.make(list(MODELS.values()), FAULTS, seed=43, configurations=2, clean=9)
    assert again == made


def test_a_fault_that_no_iteration_shows_is_refused() -> None:
    never = Fault("never", "Never.", "data", {"cogvideox": ({"/args/lr": [77.0]},)})
    with pytest.raises(InputProblem, match="never: none of the first 600 iterations"):
        plan.make([MODELS["cogvideox"]], [never], seed=43, configurations=1, clean=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {name: a, says: A.}", "expected name, says and when"),
        ("- {name: a, says: A., when: {cogvideox: always}, whom: x}", "and of .* no other"),
        ("- {name: a, says: A., when: {cogvideox: never}}", "expected 'always' or a list"),
        ("- {name: a, says: A., when: {cogvideox: [{/args/lr: 1}]}}", "expected 'always' or"),
        ("- &a {name: a, says: A., when: {cogvideox: always}}\n- *a", "a is there twice"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputProblem, match=said):
        bank.load(tmp_path)


def test_a_folder_without_faults_and_an_unknown_fault_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputProblem, match="holds no"):
        bank.load(tmp_path)
    with pytest.raises(InputProblem, match=r"no fault 'gelu'.*--list-faults"):
        bank.chosen(FAULTS, ["gelu"])


def test_what_was_caught_once_fits_the_bank_and_can_show_there() -> None:
    stored = caught.plan(HERE / "caught.yaml", MODELS, FAULTS)
    assert {cell.model for cell in stored.cells} == set(MODELS)
    for cell in stored.cells:
        assert cell.fault.shows(cell.model, cell.configurations[0].documents), cell.fault.name
    missing = {fault.name for fault in COUNTED} - {cell.fault.name for cell in stored.cells}
    assert len(missing) <= len(COUNTED) * 0.05, missing


def test_no_launcher_and_no_other_program_can_plant() -> None:
    """The only way in is an argument of serve.py, which no launcher starts."""
    for path in data.launchers().rglob("*"):
        if path.is_file() and path.suffix in {".py", ".sh"} and path.name != "serve.py":
            text = path.read_text(encoding="utf-8")
            assert "serve.py" not in text, path
            assert "--plants" not in text, path
    serve = (data.launchers() / "cpu" / "serve.py").read_text(encoding="utf-8")
    assert "environ" not in serve
