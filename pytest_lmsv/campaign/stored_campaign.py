"""A campaign that has been run, as its folder tells: what `lmsv analyze` and `history` read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_lmsv import data
from pytest_lmsv.campaign.archive import RECORD, stored_numbers
from pytest_lmsv.problems import InputProblem

FIXED = (
    "seed", "device", "compare", "steps", "mutations", "chain", "adapter_fixes", "cpu_workers",
)  # fmt: skip
"""Settings that decide what a run is; those of a campaign never change."""


@dataclass(frozen=True)
class StoredCampaign:
    """What campaign.json says."""

    folder: Path
    models: tuple[str, ...]
    iterations: tuple[tuple[str, int], ...]
    """All that the campaign was to run, and what is stored beyond that."""
    settings: Mapping[str, Any]
    versions: Mapping[str, Any]

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that an analysis can't change."""
        found = {name: self.settings[name] for name in FIXED if name in self.settings}
        return {**found, "model": self.models}

    @property
    def judging(self) -> dict[str, Any]:
        """The settings that it was judged by, which an analysis may change."""
        return {name: value for name, value in self.settings.items() if name not in FIXED}

    @property
    def missing(self) -> tuple[tuple[str, int], ...]:
        """The iterations without a result: the campaign ended before."""
        return tuple(place for place in self.iterations if not self.has(*place))

    def merged(self, numbers: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the iterations of this campaign and *numbers*, which a later session adds."""
        return sorted({*self.iterations, *numbers})

    def has(self, model: str, number: int) -> bool:
        """Return whether the iteration was finished."""
        return (self.folder / "iters" / model / f"iter_{number}" / RECORD).is_file()


def read(folder: Path, label: str = "lmsv analyze") -> StoredCampaign:
    """Return the campaign in *folder*; raises InputProblem where there is none."""
    path = folder / "campaign.json"
    if not path.is_file():
        raise InputProblem(
            f"{label}: {folder} holds no campaign.json; name the folder of a campaign"
        )
    value = data.read_json(path)
    try:
        settings, iters = dict(value["settings"]), int(value["iters"])
        models = tuple(str(name) for name in value["models"])
        given = value.get("iterations")
        planned = [(m, n) for m in models for n in range(1, iters + 1)] if given is None else given
        iterations = [(str(model), int(number)) for model, number in planned]
        versions = dict(value.get("versions", {}))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise InputProblem(f"{path}: holds no campaign; name the folder of a campaign") from None
    stored = set(stored_numbers(folder))
    models = (*models, *sorted({model for model, _ in stored} - set(models)))
    order = {model: place for place, model in enumerate(models)}
    every = sorted({*iterations, *stored}, key=lambda place: (order.get(place[0], 0), place[1]))
    return StoredCampaign(folder, models, tuple(every), settings, versions)
