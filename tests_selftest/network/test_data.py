"""The data of CogVideoX on cpu: a set that is written once, and a user's own set of that layout."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests_selftest.network.trained import LAUNCHERS, changed, curves, relative

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

WRITER = LAUNCHERS / "cpu" / "dataset.py"
BASIC = "/data/dataset_param/basic_parameters"
OWN_SET = """
import json, sys
from pathlib import Path
import numpy as np

folder = Path(sys.argv[1])
folder.mkdir()
lines = []
for index in range(3):
    frames = np.random.RandomState(index).randint(0, 256, (20 + index, 50, 70, 3)).astype(np.uint8)
    np.save(folder / f"clip{index}.npy", frames)
    lines.append(json.dumps({"file": f"clip{index}.npy", "captions": f"noise {index}"}))
(folder / "own.jsonl").write_text("\\n".join(lines) + "\\n\\n")
"""


def own_set(environment: StackEnvironment, folder: Path) -> dict[str, Any]:
    """A user's set in *folder*; what data.json says then."""
    done = environment.run(["-c", OWN_SET, folder])
    assert done.returncode == 0, done.stderr
    return {f"{BASIC}/data_path": str(folder / "own.jsonl"), f"{BASIC}/data_folder": str(folder)}


@pytest.mark.stacks
def test_many_writers_at_once_leave_one_whole_set(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    folder = tmp_path / "sets" / "cogvideox"
    writers = [
        subprocess.Popen([pta_env.python, WRITER, folder], env=pta_env.variables())
        for _ in range(3)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    lines = (folder / "data.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    assert len({entry["captions"] for entry in entries}) == len(entries) == 12
    assert all((folder / entry["file"]).is_file() for entry in entries)
    assert sorted(path.name for path in folder.parent.iterdir()) == [
        ".cogvideox.lock",
        "cogvideox",
    ]
    assert sum(path.stat().st_size for path in folder.rglob("*.npz")) < 1024 * 1024


@pytest.mark.stacks
def test_files_that_are_no_set_are_left_alone(pta_env: StackEnvironment, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("keep", encoding="utf-8")
    done = pta_env.run([WRITER, tmp_path / "mine"])
    assert done.returncode == 1
    assert "mine holds no data.jsonl, but other files: move it away" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


@pytest.mark.stacks
def test_a_set_of_the_user_is_read(pta_env: StackEnvironment, tmp_path: Path) -> None:
    own = own_set(pta_env, tmp_path / "own")
    project, users = curves(pta_env, tmp_path, [changed({}), changed(own)])
    assert "error" not in users
    assert relative(project["losses"], users["losses"]) > 1e-3


@pytest.mark.stacks
def test_bad_data_is_named(pta_env: StackEnvironment, tmp_path: Path) -> None:
    own = own_set(pta_env, tmp_path / "own")
    folder = Path(own[f"{BASIC}/data_folder"])
    listings = {
        "video.mp4": "on cpu a video is a .npy or .npz array; convert it",
        "gone.npy": "No such file or directory",
    }
    documents = []
    for name in listings:
        line = json.dumps({"file": name, "captions": "x"})
        (folder / f"{name}.jsonl").write_text(line, encoding="utf-8")
        documents.append(changed({**own, f"{BASIC}/data_path": str(folder / f"{name}.jsonl")}))
    (folder / "empty.jsonl").write_text("\n", encoding="utf-8")
    documents.append(changed({**own, f"{BASIC}/data_path": str(folder / "empty.jsonl")}))
    skip = "/data/dataset_param/preprocess_parameters/skip_frame_num"
    documents.append(changed({**own, skip: 15}))
    found = [answer["error"] for answer in curves(pta_env, tmp_path, documents)]
    wanted = [*listings.values(), "names no videos", "skip_frame_num 15 leaves nothing of"]
    for text, error in zip(wanted, found, strict=True):
        assert text in error
