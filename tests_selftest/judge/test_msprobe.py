"""msprobe's table: read by its numbers, never by its own ``Result``."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from pytest_lmsv.judge import msprobe

COLUMNS = (
    *("NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "Max diff", "L2norm diff"),
    *("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"),
    *("NPU l2norm", "Bench l2norm", "Requires_grad Consistent", "Result", "Err_message"),
)


def table(*lines: tuple[str, str, str]) -> str:
    """A table of (name, bench name, relative error of the norm), every row called a pass."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS)
    writer.writeheader()
    for name, bench, error in lines:
        row = dict.fromkeys(COLUMNS, "0")
        row |= {"NPU Name": name, "Bench Name": bench, "NormRelativeErr": error, "Result": "pass"}
        writer.writerow(row)
    return stream.getvalue()


def both(name: str, error: str) -> tuple[str, str, str]:
    return name, name, error


def test_the_first_forward_output_that_differs_is_named() -> None:
    found = msprobe.located(
        msprobe.rows(
            table(
                both("Module.blocks.0.f1.Linear.forward.0.output.0", "0"),
                both("Module.blocks.1.f1.Linear.forward.0.input.0", "0.0001%"),
                both("Module.blocks.1.f1.Linear.forward.0.output.0", "5.0000%"),
                both("Module.head.Linear.forward.0.input.0", "5.1000%"),
                both("Module.head.Linear.forward.0.output.0", "5.2000%"),
                both("Module.head.Linear.parameters_grad.weight", "70.0000%"),
            )
        ),
        step=1,
    )
    assert (found.kind, found.name, found.relative) == ("module", "blocks.1.f1", 0.05)
    assert (found.right, found.then) == (("blocks.0.f1",), ("head",))
    assert found.compared == 6


def test_wrong_gradients_that_msprobe_lets_pass_are_named() -> None:
    found = msprobe.located(
        msprobe.rows(
            table(
                both("Module.f1.Linear.forward.0.output.0", "0"),
                both("Module.head.Linear.parameters_grad.weight", "0.1%"),
                both("Module.f1.Linear.parameters_grad.bias", "17.0000%"),
            )
        ),
        step=2,
    )
    assert (found.kind, found.step, found.name) == ("gradient", 2, "f1.bias")
    assert found.right == ("head",)


@pytest.mark.parametrize("missing", ["N/A", "", "nan"])
def test_rows_without_a_partner_are_counted_and_never_taken_for_equal(missing: str) -> None:
    lines = table(
        ("Module.f1.Linear.forward.0.output.0", missing, "N/A"),
        (missing, "Module.f2.Linear.forward.0.output.0", "N/A"),
    )
    found = msprobe.located(msprobe.rows(lines), step=1)
    assert (found.kind, found.compared, len(found.unmatched)) == ("nothing", 0, 2)
    assert "nothing was compared" in found.sentence


def test_a_module_that_was_given_other_values_points_before_itself() -> None:
    lines = table(
        both("Module.f1.Linear.forward.0.input.0", "30%"),
        both("Module.f1.Linear.forward.0.output.0", "30%"),
    )
    assert msprobe.located(msprobe.rows(lines), step=1).kind == "between"


@pytest.mark.parametrize(
    ("text", "relative"), [("1.0000%", 0.01), ("0", 0.0), ("Diff", float("inf")), ("N/A", 0.0)]
)
def test_relative_errors_are_read_as_they_are_written(text: str, relative: float) -> None:
    (row,) = msprobe.rows(table(both("Module.a.b.LayerNorm.forward.0.output.0", text)))
    assert row.relative == relative  # without a norm the next column counts
    assert (row.module, row.type, row.way, row.part) == ("a.b", "LayerNorm", "forward", "output.0")


def test_a_second_call_of_a_module_has_its_number() -> None:
    (row,) = msprobe.rows(table(both("Cell.a.Dense.forward.1.output.0", "0")))
    assert row.module == "a#2"


def test_a_dump_of_mindtorch_becomes_one_that_torch_would_have_written() -> None:
    tensor: dict[str, Any] = {
        "type": "mindspore.Tensor",
        "dtype": "mindspore.float32",
        "shape": [2],
        "Norm": 1.0,
        "requires_grad": False,
    }
    dump = {"framework": "mindtorch", "data": {"Module.a.forward.0": {"output": [tensor]}}}
    made = msprobe.as_pytorch(dump)
    assert made["framework"] == "pytorch"
    (written,) = made["data"]["Module.a.forward.0"]["output"]
    assert written == {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [2],
        "Norm": 1.0,
        "requires_grad": True,
    }
    assert dump["framework"] == "mindtorch"
