"""The table of options, in the order of the help; their parsers are in option_values."""

from __future__ import annotations

from pytest_lmsv.options.judging import JUDGING
from pytest_lmsv.options.option import Option
from pytest_lmsv.options.runs import RUNS
from pytest_lmsv.options.site import SITE

OPTIONS: tuple[Option, ...] = (*RUNS, *JUDGING, *SITE)

__all__ = ["OPTIONS", "Option"]
