"""How much of a model's mutation space a campaign has tried."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_lmsv.campaign.campaign import Campaign
from pytest_lmsv.launch import ascend
from pytest_lmsv.mutation.coverage import Coverage, coverage
from pytest_lmsv.records import IterationRecord


def tried(campaign: Campaign, model: str, records: Iterable[IterationRecord]) -> Coverage | None:
    """Return what the finished iterations of *model* among *records* cover of its space.

    None for a model that only a stored campaign knows: its space is gone.
    """
    settings, spec = campaign.settings, campaign.models[model]
    if settings.device not in spec.spaces:
        return None
    return coverage(
        spec.space(settings.device),
        [
            record.mutation
            for record in records
            if record.model == model and record.status == "DONE" and record.mutation is not None
        ],
        only_fitting_checkpoint=ascend.starts_from_checkpoint(
            model, settings.device, settings.dataset_root, settings.load_path
        ),
    )
