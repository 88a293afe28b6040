"""On npu: msprobe's dumps of the two sides, compared by its own command and read by ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from pytest_lmsv.judge import msprobe
from pytest_lmsv.judge.locating import Location
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.problems import EnvironmentProblem

FOLDER = "msprobe"
COMMAND = "import sys; from msprobe.msprobe import main; sys.exit(main())"
COMPARE_S = 3600.0


def compared(environment: StackEnvironment, ours: Path, theirs: Path, folder: Path) -> Location:
    """Return where the dumps below *ours* and *theirs* differ first, rank 0's of each step.

    *environment* is that of PTA, whose msprobe compares; its tables stay in *folder*.

    Raises EnvironmentProblem where there is no dump, or where msprobe can't compare.
    """
    steps = sorted(
        {int(path.name.removeprefix("step")) for path in (ours / FOLDER).glob("step[0-9]*")}
    )
    if not steps:
        raise EnvironmentProblem(
            f"lmsv locate: no dump in {ours / FOLDER}: is mindstudio-probe installed in PTA's "
            "environment? The log of the run says what went wrong"
        )
    last = Location("nothing", steps[-1] + 1, sentence="no step was dumped on both sides")
    for step in steps:
        pair = [dump(side, step) for side in (ours, theirs)]
        if None in pair:
            continue
        tables = _compare(environment, pair, folder / f"compared_step{step + 1}")
        last = msprobe.located(msprobe.rows(tables), step + 1)
        if last.kind != "nothing":
            break
    return last


def dump(record: Path, step: int) -> Path | None:
    """Return rank 0's dump.json of *step*, which msprobe counts from 0."""
    folder = record / FOLDER / f"step{step}"
    found = sorted(folder.glob("rank0/dump.json")) or sorted(folder.glob("proc*/dump.json"))
    return found[0] if found else None


def _compare(environment: StackEnvironment, pair: list[Path | None], out: Path) -> str:
    """Run ``msprobe compare`` in *environment* and return its table."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, path in zip(("bench", "target"), pair, strict=True):
        assert path is not None
        plain = json.loads(path.read_text(encoding="utf-8"))
        # It refuses a mindtorch dump, and two dumps whose type names differ (facts: localise A3).
        target = out / name / "dump.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(msprobe.as_pytorch(plain)), encoding="utf-8")
        for beside in ("construct.json", "stack.json"):
            if (path.parent / beside).is_file():
                (target.parent / beside).write_bytes((path.parent / beside).read_bytes())
        written.append(target)
    bench, target = written
    try:
        done = environment.run(
            ["-c", COMMAND, "compare", "-tp", str(target), "-gp", str(bench), "-o", str(out)],
            cwd=out,
            timeout=COMPARE_S,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentProblem(
            f"lmsv locate: msprobe compare took over {COMPARE_S:.0f} s"
        ) from None
    tables = sorted(out.glob("*.csv"), key=lambda path: path.stat().st_mtime)
    if done.returncode or not tables:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise EnvironmentProblem(f"lmsv locate: msprobe compare failed: {last}")
    return tables[-1].read_text(encoding="utf-8", errors="replace")
