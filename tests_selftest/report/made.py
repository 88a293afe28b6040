"""Campaigns of iterations that were made up, without any run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_lmsv import catalog
from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.campaign.summary import Summary
from pytest_lmsv.judge.known_bugs import KnownBug
from pytest_lmsv.records import IterationRecord
from pytest_lmsv.settings import Source, resolve


def campaign(folder: Path, models: Sequence[str] = ("toy",), **settings: Any) -> Campaign:
    """A campaign in *folder* whose models have nothing but a name."""
    given = {"device": "cpu", "model": list(models), "gate": "all", **settings}
    resolved = resolve(folder, [Source(given, lambda option: option.flag)])
    folder.mkdir(parents=True, exist_ok=True)
    stored = {"models": list(models), "iters": 0, "settings": {}, "versions": {}}
    (folder / "campaign.json").write_text(json.dumps(stored), encoding="utf-8")
    return Campaign(resolved, {name: catalog.unknown(name, "cpu") for name in models}, folder)


def summary(
    of: Campaign,
    records: Iterable[IterationRecord],
    expected: Callable[[str], Sequence[KnownBug]] = lambda model: (),
) -> Summary:
    """What is told of *records*."""
    found = Summary(of, expected)
    for record in records:
        found.add(record)
    return found
