"""A project that does not use the plugin sees nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TEST = "def test_one():\n    assert True\n"
HEAVY = ("hypothesis", "asyncssh", "yaml", "pytest_lmsv.session", "pytest_lmsv.campaign")


def test_the_output_is_the_same_with_and_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    with_it = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    without = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:pytest_lmsv.plugin")

    def lines(result: pytest.RunResult) -> list[str]:
        # Without the time, and without the list of what is installed.
        return [x for x in result.outlines if " in " not in x and not x.startswith("plugins:")]

    assert lines(with_it) == lines(without)
    assert with_it.ret == 0
    assert not [path for path in pytester.path.iterdir() if path.name == "output"]


def test_nothing_heavy_is_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"import sys\ndef test_one():\n    assert not set({HEAVY!r}) & set(sys.modules)\n"
    )
    # hypothesis has a pytest plugin of its own, which imports a part of it.
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


def test_a_fixture_called_as_ours_stays_the_projects_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(params=[1, 2])
        def iteration(request):
            return request.param

        @pytest.fixture
        def campaign():
            return "mine"

        def test_one(iteration, campaign):
            assert (iteration in (1, 2), campaign) == (True, "mine")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_the_plugin_can_be_named_twice(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    pytester.runpytest_subprocess("-p", "pytest_lmsv.plugin").assert_outcomes(passed=1)


def test_importing_the_plugin_imports_no_other_package(tmp_path: Path) -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import pytest_lmsv.plugin; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before} "
        "- set(sys.stdlib_module_names)))"
    )
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pytest_lmsv"]
