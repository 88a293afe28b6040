"""Input made to be slow: read in one go, like any other. A pattern that backtracks without bound
would never end here; how fast it goes is the benchmark's subject."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_lmsv.logs.follow import Follower
from pytest_lmsv.logs.reading import read

SIZE = 200_000
HOSTILE = {
    "one line of losses": "loss: ",
    "one line of errors": "RuntimeError: ",
    "one line of records": " iteration 1/1 | loss: 1.0 |",
    "nearly records": "iteration        1/",
    "blanks after a word": "iteration" + " " * 50,
    "rank prefixes": "[rank0]: ",
    "prefixes, then an error": "[rank0]: " * 100 + "ValueError\n",
    "nearly memory": "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1 | max ",
    "tracebacks in one line": "Traceback (most recent call last):",
    "tracebacks": "Traceback (most recent call last):\n",
    "escaped tracebacks": '"Traceback (most recent call last):\\\\n\\\\\\\\n',
    "colours": "\x1b[0;0;0;",
    "operating system commands": "\x1b]0;abc",
    "codes": "EZ9999: Inner Error! ",
    "nearly names of codes": "A_a_a_a_a_a_a(E Error",
    "underscores": "A" + "_" * 300 + "Error ",
    "dots": "a." * 200 + "Error ",
    "slashes": "/a" * 150 + " Error\n",
    "carriage returns": "\r",
    "digits": "1",
    "banners": "ChildFailedError: \n  rank      : 1\n  exitcode  : 3 (pid: 1)\n",
    "open records": " iteration 1/2 | a: 1\n",
    "steps back": " iteration 2/2 | loss: 1 | a: 1 |\n iteration 1/2 | loss: 2 | a: 1 |\n",
    "starts": "using world size: 2\nRuntimeError: x\nChildFailedError: \n",
    "a number as a prefix": "9" * 180 + "Traceback (most recent call last):\n" + "9" * 190 + "\n",
    "numbers as a prefix": "9 " * 90 + "Traceback (most recent call last):\n" + "9 " * 95 + "x\n",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_is_read_to_its_end(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(text * (SIZE // len(text)), encoding="utf-8")
    read([path], failed=True)
    Follower(path).update()
