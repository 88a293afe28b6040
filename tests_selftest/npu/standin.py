"""A machine with MindSpeed-MM, CANN and two conda environments, whose programs only record.

``python tests_selftest/npu/standin.py`` writes the golden files again, to be read as a change.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN = HERE / "golden"
MODELS = {
    "cogvideox": "pretrain_sora.py",
    "internvl3": "pretrain_vlm.py",
    "qwenvl": "inference_vlm.py",
    "opensora": "inference_sora.py",
}
STARTER = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path(os.environ["LMSV_RUN_DIR"])
given = {{"program": pathlib.Path(sys.argv[0]).name, "arguments": sys.argv[1:],
         "folder": os.getcwd(), "environment": dict(os.environ)}}
(folder / "given.json").write_text(json.dumps(given))
sys.exit(int(os.environ.get("STANDIN_EXIT", "0")))
"""
CONDA = """#!/bin/sh
echo '# conda environments:'
echo 'base                     {site}/conda'
echo 'mindspeed             *  {site}/conda/envs/mindspeed'
echo 'msadapter                {site}/conda/envs/msadapter'
"""
# As the real ones: reads a variable that may not be set, and puts its own on PYTHONPATH.
SET_ENV = """export ASCEND_HOME_PATH={place}
export PYTHONPATH={place}/python:$PYTHONPATH
"""
ATB = 'export ATB_ABI="$1"\n'
OF_THE_SHELL = {"_", "SHLVL", "OLDPWD", "PWD"}


def build(site: Path) -> Path:
    """Lays the machine out under *site* and returns it."""
    mm = site / "ws" / "MindSpeed-MM"
    for name in (*MODELS.values(), "mindspeed_mm/tools/tools.json"):
        write(mm / name, "{}")
    write(mm / "mindspeed_mm/tasks/inference/pipeline/opensora_pipeline.py", "")
    (site / "ws" / "MSAdapter").mkdir()
    for place in ("cann", "ascend-toolkit"):
        write(site / "Ascend" / place / "set_env.sh", SET_ENV.format(place=f"/opt/{place}"))
    write(site / "Ascend/nnal/atb/set_env.sh", ATB)
    for name, starter in (("mindspeed", "torchrun"), ("msadapter", "msrun")):
        folder = site / "conda" / "envs" / name
        write(folder / "bin" / starter, STARTER.format(python=sys.executable), program=True)
        (folder / "bin" / "python").symlink_to(sys.executable)
    write(site / "bin" / "conda", CONDA.format(site=site), program=True)
    (site / "data").mkdir()
    return site


def write(path: Path, text: str, *, program: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if program:
        path.chmod(0o755)


def variables(site: Path, run: Path) -> dict[str, str]:
    """What a person exports before a launcher is started by hand."""
    return {
        "PATH": f"{site / 'bin'}:{os.defpath}:/usr/local/bin",
        "HOME": str(site),
        "LANG": "C.UTF-8",
        "LMSV_DEVICE": "npu",
        "LMSV_RUN_DIR": str(run),
        "LMSV_RUN_ID": "run-1",
        "LMSV_ASCEND_ROOT": str(site / "Ascend"),
        "MINDSPEED_MM_PATH": str(site / "ws"),
        "DATASET_ROOT": str(site / "data"),
    }


def start(
    site: Path, stack: str, model: str, run: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a launcher on the machine at *site*; *more* variables win."""
    environment = {**variables(site, run), **(more or {})}
    return subprocess.run(
        ["bash", str(ROOT / "launchers" / f"{stack}_{model}.sh")],
        env={name: value for name, value in environment.items() if value != "<unset>"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def given(site: Path, run: Path) -> dict[str, Any]:
    """What the starter was given, and the documents, free of this machine's paths."""
    found = json.loads((run / "given.json").read_text(encoding="utf-8"))
    found["environment"] = {
        name: value
        for name, value in sorted(found["environment"].items())
        if name not in OF_THE_SHELL
    }
    for name in ("model", "data"):
        found[name] = json.loads((run / "documents" / f"{name}.json").read_text(encoding="utf-8"))
    text = json.dumps(found)
    for path, word in ((run, "$RUN"), (site, "$SITE"), (ROOT, "$LMSV")):
        text = text.replace(str(path), word)
    plain: dict[str, Any] = json.loads(text)
    return plain


def nodes(count: int, rank: int = 1) -> dict[str, str]:
    """The further variables of one node of *count*."""
    if count == 1:
        return {}
    return {
        "NNODES": str(count),
        "NODE_RANK": str(rank),
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29505",
        "HCCL_IF_IP": "10.0.0.2",
        "HCCL_SOCKET_IFNAME": "eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
    }


def golden_file(stack: str, model: str, count: int) -> Path:
    return GOLDEN / f"{stack}_{model}_{count}.json"


def main() -> None:
    for model in MODELS:
        for stack in ("pta", "msa"):
            for count in (1, 2):
                with tempfile.TemporaryDirectory() as folder:
                    site = build(Path(folder).resolve() / "site")
                    run = site.parent / "run"
                    ended = start(site, stack, model, run, nodes(count))
                    assert ended.returncode == 0, ended.stderr
                    text = json.dumps(given(site, run), indent=1, ensure_ascii=False)
                    golden_file(stack, model, count).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
