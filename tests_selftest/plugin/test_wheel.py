"""The built wheel works in a folder that has nothing of ours."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_lmsv import data
from tests_selftest.plugin.conftest import Toy

ROOT = Path(data.__file__).parents[1]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the built wheel is unpacked in, as pip would."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    target = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def test_the_wheel_carries_the_data_and_no_tests(installed: Path) -> None:
    carried = installed / "pytest_lmsv" / "_data"
    for name in ("mm_configs/known_bugs.yaml", "mm_configs/cogvideox/space.yaml"):
        assert (carried / name).is_file()
    for name in ("launchers/pta_cogvideox.sh", "launchers/msa_cogvideox.sh", "launchers/entry.py"):
        assert (carried / name).is_file()
    assert (carried / "test_models" / "test_alignment.py").is_file()
    assert (installed / "pytest_lmsv" / "logs" / "patterns.yaml").is_file()
    assert (installed / "pytest_lmsv" / "py.typed").is_file()
    assert not [path for path in installed.rglob("*selftest*") if path.suffix == ".py"]


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_an_empty_folder_runs_the_packaged_test_under_the_same_ids(
    toy: Toy, installed: Path, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    result = toy.start("-v", "--junitxml=junit.xml", *workers, iters=2)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_models/test_alignment.py::test_alignment?toy-iter1?*"])
    text = (toy.pytester.path / "junit.xml").read_text("utf-8")
    assert 'classname="test_models.test_alignment" name="test_alignment[toy-iter2]"' in text


def test_the_installed_plugin_is_the_one_that_ran(
    toy: Toy, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    toy.pytester.makepyfile(
        f"import pytest_lmsv\ndef test_it():\n"
        f"    assert pytest_lmsv.__file__.startswith({str(installed)!r})\n"
    )
    toy.pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_packaged_models_are_known_there(
    toy: Toy, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    result = toy.start("--collect-only", "-q", models="cogvideox", iters=2)
    result.stdout.fnmatch_lines(
        [f"test_models/test_alignment.py::test_alignment?cogvideox-iter{n}?" for n in (1, 2)]
    )


def test_a_project_with_its_own_copy_of_the_test_uses_that(toy: Toy) -> None:
    folder = toy.pytester.path / "test_models"
    folder.mkdir()
    source = (data.test_models() / "test_alignment.py").read_text("utf-8")
    changed = source.replace("judgement.conclude()", "raise ValueError('own copy')")
    (folder / "test_alignment.py").write_text(changed, encoding="utf-8")
    result = toy.start("test_models", iters=1)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ValueError: own copy*"])
