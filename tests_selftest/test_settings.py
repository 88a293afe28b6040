"""Settings: precedence, and one line for each wrong value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_lmsv.options import OPTIONS
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.settings import Settings, Source, resolve

ROOT = Path("/project")


def settings(
    *sources: dict[str, Any],
    npus: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
) -> Settings:
    labelled = [Source(values, lambda option: f"--{option.field}") for values in sources]
    return resolve(ROOT, labelled, npu_devices=npus, environment=environment or {})


def test_defaults_are_those_of_the_design() -> None:
    found = settings()
    assert (found.model, found.iters, found.mutations, found.steps, found.seed) == (
        (),
        10,
        2,
        5,
        43,
    )
    assert (found.device, found.compare, found.chain, found.attempts) == (
        "cpu",
        "pta_msa",
        False,
        10,
    )
    assert (found.pta_timeout, found.msa_timeout, found.silence_timeout) == (3000, 3000, 180)
    assert (found.gate, found.loss_tolerance, found.memory_tolerance) == (
        ("accuracy", "output", "drift"),
        0.05,
        0,
    )
    assert (found.output_tolerance, found.output_psnr) == (1e-5, 100.0)
    assert found.output == ROOT / "output"
    assert found.adapter_fixes


def test_an_npu_machine_has_its_own_defaults() -> None:
    found = settings(npus=("/dev/davinci0",))
    assert found.device == "npu"
    assert found.gate == ("accuracy", "memory", "performance")
    assert found.silence_timeout == 1800
    assert (found.output_tolerance, found.output_psnr) == (0.05, 30.0)


@pytest.mark.parametrize(
    ("source", "environment"),
    [
        ({"mindspeed_mm_path": "/opt/MindSpeed-MM"}, {}),
        ({}, {"ASCEND_HOME_PATH": "/usr/local/Ascend/cann"}),
    ],
)
def test_auto_never_takes_cpu_on_an_ascend_machine(
    source: dict[str, Any], environment: dict[str, str]
) -> None:
    with pytest.raises(InputProblem, match="found no NPU") as caught:
        settings(source, environment=environment)
    assert "--lmsv-device cpu" in str(caught.value)
    assert settings({**source, "device": "cpu"}, environment=environment).device == "cpu"


def test_the_first_source_that_says_something_wins() -> None:
    found = settings({"iters": "3"}, {"iters": 4, "steps": 7}, {"iters": 5, "steps": 8, "seed": 9})
    assert (found.iters, found.steps, found.seed) == (3, 7, 9)


@pytest.mark.parametrize(
    ("values", "field", "expected"),
    [
        ({"model": "a,b"}, "model", ("a", "b")),
        ({"model": ["a", "b, c"]}, "model", ("a", "b", "c")),
        ({"gate": "all"}, "gate", ("accuracy", "memory", "performance", "output", "drift")),
        ({"drift_minima": "loss=1e-6, first=0"}, "drift_minima", ("loss=1e-6", "first=0")),
        ({"noise": 0}, "noise", 0),
        ({"gate": "performance accuracy"}, "gate", ("accuracy", "performance")),
        ({"chain": "on"}, "chain", True),
        ({"chain": False}, "chain", False),
        ({"adapter_fixes": "off"}, "adapter_fixes", False),
        ({"output": "somewhere"}, "output", ROOT / "somewhere"),
        ({"loss_tolerance": "0.01"}, "loss_tolerance", 0.01),
    ],
)
def test_values_are_understood(values: dict[str, Any], field: str, expected: object) -> None:
    assert getattr(settings(values), field) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("iters", "0"),
        ("iters", "-1"),
        ("iters", "two"),
        ("iters", "1.5"),
        ("mutations", 0),
        ("steps", "0"),
        ("attempts", "0"),
        ("seed", "-1"),
        ("device", "gpu"),
        ("compare", "pta_mf"),
        ("gate", "speed"),
        ("gate", ""),
        ("pta_timeout", "0"),
        ("msa_timeout", "nan"),
        ("silence_timeout", "inf"),
        ("loss_tolerance", "-0.1"),
        ("loss_tolerance", "nan"),
        ("chain", "perhaps"),
        ("adapter_fixes", "maybe"),
        ("output", ""),
    ],
)
def test_a_wrong_value_is_one_line_that_says_what_to_give(field: str, value: object) -> None:
    with pytest.raises(InputProblem) as caught:
        settings({field: value})
    text = str(caught.value)
    assert text.startswith(f"--{field}: found {value!r}; give ")
    assert "\n" not in text


def test_the_output_folder_may_come_from_the_environment() -> None:
    given = {"LMSV_OUTPATH": "/results"}
    assert settings(environment=given).output == Path("/results")
    assert settings({"output": "here"}, environment=given).output == ROOT / "here"


def test_every_setting_has_an_option_and_a_help_text() -> None:
    fields = set(Settings.__dataclass_fields__) - {"root"}
    assert {option.field for option in OPTIONS} == fields
    assert all(option.help and option.parse.__doc__ for option in OPTIONS)
