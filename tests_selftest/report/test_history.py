"""`lmsv history`: what moved is told, what did not is not, and a damaged campaign is one line."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv import cli
from pytest_lmsv.judge.history import Figure, place
from tests_selftest.judge.made import iteration, run
from tests_selftest.report.made import campaign, summary


def stored(
    output: Path,
    name: str,
    factors: Sequence[float],
    times: Sequence[float] | None = None,
    **settings: Any,
) -> Path:
    """A campaign whose iterations have these ratios of losses, and these times of MSA (ms)."""
    of = campaign(output / name)
    path = of.folder / "campaign.json"
    value = {**json.loads(path.read_text()), "iters": len(factors)}
    value["settings"] = {"device": "cpu", "compare": "pta_msa", "steps": 5, **settings}
    path.write_text(json.dumps(value), encoding="utf-8")
    each = enumerate(zip(factors, times or [10.0] * len(factors), strict=True), 1)
    records = [iteration(n, msa=run("msa", loss=factor, ms=ms)) for n, (factor, ms) in each]
    summary(of, records).write()
    return of.folder


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Three campaigns with a difference of 1.7 %."""
    for day, shift in enumerate((0.0, 0.0003, -0.0002), start=1):
        factors = [1.017 + shift + 0.001 * k for k in (-1, 0, 1)]
        stored(tmp_path / "output", f"2026010{day}_000000", factors)
    return tmp_path / "output"


def test_17_percent_that_became_458_is_flagged_with_how_far(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(output, "20260104_000000", [1.0448, 1.0458, 1.0468])
    assert cli.main(["history", str(output)]) == 0
    text = capsys.readouterr().out
    flagged = [line for line in text.splitlines() if "spreads" in line]
    assert len(flagged) == 1
    assert "| 20260104_000000 | 4.58 |" in flagged[0]
    assert "loss difference 4.58 %, before 1.7 %: +" in flagged[0]
    assert cli.main(["history", str(output), "--check"]) == 1
    (plot,) = (output / "history").glob("*.svg")
    root = ET.fromstring(plot.read_text("utf-8"))
    moved = [node for node in root.iter() if node.tag.endswith("title") and node.text == "moved"]
    assert len(moved) == 1
    assert (output / "history" / "history.md").read_text("utf-8").startswith("# History")


def test_what_stays_is_not_flagged(output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(output, "20260104_000000", [1.0163, 1.0172, 1.0184])
    assert cli.main(["history", str(output), "--check"]) == 0
    assert "spreads" not in capsys.readouterr().out


@pytest.mark.parametrize(("device", "flagged"), [("cpu", False), ("npu", True)])
def test_time_is_held_against_a_campaign_on_npu_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str, flagged: bool
) -> None:
    for day, ms in enumerate((11.0, 11.1, 10.9, 40.0), start=1):
        times = [ms - 0.1, ms, ms + 0.1]
        stored(tmp_path, f"2026010{day}_000000", [1.017] * 3, times=times, device=device)
    assert cli.main(["history", str(tmp_path), "--check"]) == int(flagged)
    assert ("spreads" in capsys.readouterr().out) is flagged


def test_a_campaign_that_moved_does_not_hide_the_next(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in (4, 5):
        stored(output, f"2026010{day}_000000", [1.0448, 1.0458, 1.0468])
    cli.main(["history", str(output)])
    assert capsys.readouterr().out.count("spreads") == 2


def test_other_settings_are_another_history(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(output, "20260104_000000", [1.0448, 1.0458, 1.0468], steps=50)
    assert cli.main(["history", str(output), "--check"]) == 0
    assert capsys.readouterr().out.count("## toy") == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("campaign.json", "{"),
        ("campaign.json", "[]"),
        ("campaign.json", None),
        ("data/summary.json", "{"),
        ("data/summary.json", '{"statistics": {"toy": {"differences": {"loss_diff": 3}}}}'),
    ],
)
def test_a_damaged_campaign_is_one_line(
    output: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None
) -> None:
    folder = stored(output, "20260104_000000", [1.017])
    (folder / "iters").mkdir()
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text, encoding="utf-8")
    assert cli.main(["history", str(output)]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if ": damaged: " in line]
    assert len(found) == 1
    assert "20260104_000000: damaged: " in found[0]


def test_a_campaign_that_was_killed_before_any_summary_is_read_from_its_iterations(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_lmsv.campaign import archive

    folder = stored(output, "20260104_000000", [1.02])
    archive.write_iteration(
        folder / "iters" / "toy" / "iter_1", iteration(1, msa=run("msa", loss=1.02))
    )
    (folder / "data" / "summary.json").unlink()
    cli.main(["history", str(output)])
    assert "| 20260104_000000 | 2 |" in capsys.readouterr().out


def test_a_folder_without_campaigns_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", str(tmp_path)]) == 0
    assert "No finished campaign." in capsys.readouterr().out
    assert cli.main(["history", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err


figures = st.builds(
    Figure, st.integers(1, 50), st.floats(0, 1), st.one_of(st.none(), st.floats(0, 0.1))
)


@given(st.lists(figures, min_size=1), figures)
def test_a_history_never_flags_its_own_centre(earlier: list[Figure], now: Figure) -> None:
    found = place(earlier, now, 1e-5)
    if found is not None:
        same = place(earlier, Figure(now.n, found.centre, now.stdev), 1e-5)
        assert same is not None
        assert not same.moved
        assert found.spread >= 1e-5
