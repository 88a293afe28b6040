"""What a session's figures are judged by, and what is told of them."""

from __future__ import annotations

from pytest_lmsv import option_values
from pytest_lmsv.options.option import Option, number, option

JUDGING: tuple[Option, ...] = (
    option(
        "gate",
        option_values.gate,
        None,
        "verdicts whose NG fails a test (npu: accuracy memory performance; cpu: accuracy output "
        "drift)",
        metavar="NAMES",
        ini_type="args",
    ),
    number(
        "loss_tolerance",
        option_values.tolerance,
        0.05,
        "relative difference of the last loss that is NG (0.05)",
        "X",
    ),
    number(
        "memory_tolerance",
        option_values.tolerance,
        0.0,
        "relative surplus of memory that is still OK (0)",
        "X",
    ),
    number(
        "time_tolerance",
        option_values.tolerance,
        0.0,
        "relative surplus of time that is still OK (0)",
        "X",
    ),
    number(
        "output_tolerance",
        option_values.tolerance,
        None,
        "relative difference of a video that is NG (cpu: 1e-5, npu: 0.05)",
        "X",
    ),
    number(
        "output_psnr",
        option_values.decibels,
        None,
        "least PSNR of two videos that is still OK, in dB (cpu: 100, npu: 30)",
        "DB",
    ),
    number(
        "drift_factor",
        option_values.factor,
        10.0,
        "drift is NG above so many times the measured noise (10)",
        "X",
    ),
    option(
        "drift_minima",
        option_values.minima,
        (),
        "least noise that drift counts with, as `loss=2.5e-7 first=1e-6` (docs/drift.md)",
        ini_only=True,
        ini_type="args",
    ),
    option(
        "analyze",
        option_values.path,
        None,
        "write the reports of the campaign in this folder again; nothing is run",
        metavar="DIR",
    ),
    option(
        "verdict_xml",
        option_values.path,
        None,
        "write a JUnit file with a testcase for each verdict",
        metavar="FILE",
    ),
    option(
        "language",
        option_values.one_of("en", "zh"),
        "en",
        "language of summary.md: en, or zh for Chinese (en)",
        metavar="en|zh",
    ),
)
