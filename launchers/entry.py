"""Runs an entry script unchanged, and writes the completion record when its work is done.

``python entry.py SCRIPT ARGUMENT...`` runs SCRIPT as ``python SCRIPT ARGUMENT...`` would, in this
interpreter (DESIGN 6.3).
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lmsv_record import RECORD


def main(argv: list[str]) -> None:
    """Run the script ``argv[0]``; an error or exit of it leaves no record behind."""
    script = str(Path(argv[0]).resolve())
    sys.argv = [script, *argv[1:]]
    sys.path[0] = str(Path(script).parent)
    # msrun's scheduler runs the same script up to init(): it has no work to record.
    works = os.environ.get("MS_ROLE") != "MS_SCHED"
    if works:
        RECORD.discard()
    on_npu = os.environ.get("LMSV_DEVICE") == "npu"
    if on_npu:
        import npu_entry  # only there: it is about MindSpeed-MM

        npu_entry.install(Path(script).name)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    if works:
        if on_npu:
            npu_entry.complete()
        RECORD.finish()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: entry.py SCRIPT [ARGUMENT...]")
    main(sys.argv[1:])
