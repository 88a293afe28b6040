"""The launch contract of DESIGN 6.3: the whole environment of a run, for one machine of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from pytest_lmsv.campaign.sides import Side
from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.settings import Settings

NOT_PASSED_ON = ("PYTEST_", "PYTHON", "COV_", "LMSV_")
"""What the pytest process, or a login, has in its environment and a run must not see."""
CONTRACT = (
    *("MM_MODEL", "MM_DATA", "TRAIN_ITERS", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK"),
    *("NPUS_PER_NODE", "HCCL_IF_BASE_PORT", "ASCEND_PROCESS_LOG_PATH", "ASCEND_RT_VISIBLE_DEVICES"),
    *("DATASET_ROOT", "SAVE_PATH", "LOAD_PATH", "WORKSPACE_ROOT", "MINDSPEED_MM_PATH"),
    *("PTA_NAME", "MSA_NAME"),
)
"""What :func:`variables` gives beside LMSV's own: absent there, it is absent in the run."""
NOT_INHERITED = (*NOT_PASSED_ON, *(f"{name}=" for name in CONTRACT))
"""Beginnings of ``NAME=`` that a run does not take from a node's login."""


@dataclass(frozen=True)
class Seat:
    """Where a run sits on one machine: what differs from one machine to another."""

    run_folder: PurePath
    documents: Mapping[str, PurePath]
    """The places of model.json, data.json and args.txt."""
    environment: PurePath | None
    """The stack's environment folder; None: the launcher finds it by its conda name."""
    inherited: Mapping[str, str]
    """What a process there has in its environment anyway."""
    devices: tuple[int, ...]
    master_port: int
    hccl_base_port: int
    dataset_root: PurePath | None = None
    save_path: PurePath | None = None
    load_path: PurePath | str | None = None
    """"" asks for fresh weights, whatever the inherited environment names."""
    workspace: PurePath | None = None
    mindspeed_mm: PurePath | None = None
    pta_name: str | None = None
    msa_name: str | None = None
    master_address: str = "127.0.0.1"
    nodes: int = 1
    rank: int = 0
    network: Mapping[str, str] = field(default_factory=dict)
    """HCCL's and GLOO's variables of a run over several machines."""
    noise_run: int = 0
    """The number of the noise run that this run is (npu); 0 for any other."""


def variables(
    settings: Settings, spec: ModelSpec, side: Side, run_id: str, seat: Seat
) -> dict[str, str]:
    """The environment of a run on the machine of *seat*, complete."""
    inherited = {
        name: text for name, text in seat.inherited.items() if not name.startswith(NOT_PASSED_ON)
    }
    contract = {
        "LMSV_DEVICE": settings.device,
        "LMSV_RUN_ID": run_id,
        "LMSV_RUN_DIR": str(seat.run_folder),
        "LMSV_ARGS": str(seat.documents["args.txt"]),
        "LMSV_SEED": str(settings.seed),
        "LMSV_ADAPTER_FIXES": "on" if settings.adapter_fixes else "off",
        "MM_MODEL": str(seat.documents["model.json"]),
        "MM_DATA": str(seat.documents["data.json"]),
        "TRAIN_ITERS": str(settings.steps),
        "MASTER_ADDR": seat.master_address,
        "MASTER_PORT": str(seat.master_port),
        "NNODES": str(seat.nodes),
        "NODE_RANK": str(seat.rank),
        "NPUS_PER_NODE": str(workers(settings, spec, seat.nodes)),
        "HCCL_IF_BASE_PORT": str(seat.hccl_base_port),
        "ASCEND_PROCESS_LOG_PATH": str(seat.run_folder / "ascend_log"),
        **_noise(settings, side, seat),
        "LMSV_SHARED_RANDOMNESS": "on" if settings.shared_randomness else "off",
        "LMSV_OPENSORA_MSA_ADAPTOR": "on" if settings.opensora_msa_adaptor else "off",
        "PYTHONUNBUFFERED": "1",
    }
    if settings.device == "npu":
        contract["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(map(str, seat.devices))
    site = {
        "LMSV_ENV": seat.environment,
        "DATASET_ROOT": seat.dataset_root,
        "SAVE_PATH": seat.save_path,
        "LOAD_PATH": seat.load_path,
        "WORKSPACE_ROOT": seat.workspace,
        "MINDSPEED_MM_PATH": seat.mindspeed_mm,
        "PTA_NAME": seat.pta_name,
        "MSA_NAME": seat.msa_name,
    }
    contract.update({name: str(value) for name, value in site.items() if value is not None})
    return {**inherited, **contract, **seat.network}


def _noise(settings: Settings, side: Side, seat: Seat) -> dict[str, str]:
    """Return how a run is to measure noise: on cpu after its work, on npu as a run of its own.

    There the entry script owns the training loop (docs/drift.md).
    """
    if settings.device == "npu":
        return {"LMSV_NOISE_RUN": str(seat.noise_run)} if seat.noise_run else {}
    return {"LMSV_NOISE": str(settings.noise if side.role == "baseline" else 0)}


def workers(settings: Settings, spec: ModelSpec, nodes: int) -> int:
    """Workers of each machine. On cpu all workers of a run share its batch, so its layout counts
    them all; on npu a layout is one machine's, and each brings its own share of samples.
    """
    devices = spec.layouts[settings.device].devices
    return devices // nodes if settings.device == "cpu" else devices
