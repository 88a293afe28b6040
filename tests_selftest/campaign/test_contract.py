"""The launch contract of DESIGN 6.3, as a run's environment."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from pytest_lmsv import catalog, data
from pytest_lmsv.campaign.contract import CONTRACT, Seat, variables
from pytest_lmsv.campaign.sides import sides
from pytest_lmsv.settings import Source, resolve

HERE = PurePosixPath("/somewhere")


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_all_that_a_run_is_given_beside_ours_is_never_taken_from_a_login(
    tmp_path: Path, device: str
) -> None:
    settings = resolve(tmp_path, [Source({"device": device}, lambda option: option.field)])
    spec = catalog.find(catalog.load([data.mm_configs()]), "cogvideox")
    seat = Seat(
        run_folder=HERE,
        documents=dict.fromkeys(("model.json", "data.json", "args.txt"), HERE),
        environment=HERE,
        inherited={},
        devices=(0,),
        master_port=1,
        hccl_base_port=1,
        dataset_root=HERE,
        save_path=HERE,
        load_path=HERE,
        workspace=HERE,
        mindspeed_mm=HERE,
        pta_name="a",
        msa_name="b",
        noise_run=1,
    )
    given = variables(settings, spec, sides("pta_msa")[0], "id", seat)
    ours = {name for name in given if not name.startswith(("LMSV_", "PYTHON"))}
    assert ours <= set(CONTRACT)
    assert set(CONTRACT) - ours <= ({"ASCEND_RT_VISIBLE_DEVICES"} if device == "cpu" else set())
