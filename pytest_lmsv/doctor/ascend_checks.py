"""CANN, NPUs, MindSpeed-MM's sources, data sets and weights of an Ascend machine."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_lmsv.catalog import ModelSpec
from pytest_lmsv.doctor.rows import Row, fail, ok, warn
from pytest_lmsv.doctor.site import Site
from pytest_lmsv.launch import ascend, npus

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
STORAGES = {b"BFloat16Storage": "bf16", b"HalfStorage": "fp16", b"FloatStorage": "fp32"}


def cann(site: Site) -> Iterator[Row]:
    """CANN's environment script and version."""
    script = ascend.cann(site.ascend_root)
    home = os.environ.get("ASCEND_HOME_PATH")
    if script is None and home:
        yield ok("CANN", f"set by this container: ASCEND_HOME_PATH={home}")
        return
    if script is None:
        yield fail("CANN", f"no set_env.sh in {site.ascend_root}", "install CANN 8.3")
        return
    version = ascend.cann_version(site.ascend_root)
    if version is None:
        yield warn("CANN", f"{script}, version unknown", "CANN 8.3 is what this was made for")
    elif version.startswith("8.3"):
        yield ok("CANN", f"{version} ({script})")
    else:
        yield warn("CANN", f"{version} ({script})", "CANN 8.3 is what this was made for")


def devices(site: Site) -> Iterator[Row]:
    """npu-smi, the NPUs' health, and that those of the largest layout are free."""
    snapshot = npus.look()
    if snapshot is None:
        yield fail("npu-smi", "missing, or no answer", "install the driver, or put it on PATH")
        return
    yield ok("npu-smi", f"driver {snapshot.driver or 'unknown'}")
    wanted = max((model.layouts["npu"].devices for model in site.models), default=1)
    if len(snapshot.npus) < wanted:
        yield fail(
            "NPUs", f"{len(snapshot.npus)}, {wanted} are needed", "name models with fewer devices"
        )
    else:
        yield ok("NPUs", f"{len(snapshot.npus)} {snapshot.npus[0].name}")
    ill = [npu for npu in snapshot.npus if npu.health != "OK"]
    if ill:
        told = ", ".join(f"NPU {npu.number} {npu.health}" for npu in ill)
        yield warn("NPU health", told, "see `npu-smi info -t health`")
    others = npus.busy(snapshot, [npu.number for npu in snapshot.npus])
    if others:
        yield warn("NPUs free", npus.named(others), "a run waits for them, then is ERROR")
    else:
        yield ok("NPUs free", "no processes")


def sources(site: Site) -> Iterator[Row]:
    """MindSpeed-MM at a known version, with the entry scripts of the models that are asked for."""
    check = "MindSpeed-MM"
    if site.mindspeed_mm is None:
        yield fail(check, "not named", "set lmsv_mindspeed_mm_path or MINDSPEED_MM_PATH")
        return
    code = ascend.mindspeed_mm(site.mindspeed_mm)
    if code is None:
        yield fail(
            check,
            f"no pretrain_vlm.py in {site.mindspeed_mm}",
            "name the folder of its code, or the workspace above it",
        )
        return
    version = ascend.mindspeed_mm_version(code)
    known = version is not None and version in {v for m in site.models for v in m.versions}
    if known or version in ("2.2.0", "2.3.0"):
        yield ok(check, f"{version} ({code})")
    else:
        yield warn(check, f"{version or 'unknown'} ({code})", "2.2.0 and 2.3.0 are known to fit")
    for model in site.models:
        script = model.entry_scripts.get("npu", "")
        if not (code / script).is_file():
            yield fail(f"{model.name} script", f"no {script} in {code}", "complete MindSpeed-MM")
        elif version is not None and model.versions and version not in model.versions:
            state = fail if model.name == "opensora" and version != "2.2.0" else warn
            yield state(
                f"{model.name} script",
                f"MindSpeed-MM {version}, its documents are for {', '.join(model.versions)}",
                "name a MindSpeed-MM of that version, or leave the model out",
            )
        else:
            yield ok(f"{model.name} script", script)
    for name in ("MindSpeed", "Megatron-LM"):
        inside = name == "Megatron-LM" and (code / "megatron").is_dir()
        if inside or (code.parent / name).is_dir():
            yield ok(name, str(code if inside else code.parent / name))
        else:
            yield fail(name, f"not in {code.parent}", "put it beside MindSpeed-MM")


def data(site: Site) -> Iterator[Row]:
    """Every path that a model's documents name, and its initial weights."""
    if site.dataset_root is None:
        yield fail("data sets", "DATASET_ROOT is not named", "set lmsv_dataset_root")
        return
    for model in site.models:
        yield from _paths(site, model, site.dataset_root)
        if model.name != "opensora":
            yield from _weights(site, model)


def _paths(site: Site, model: ModelSpec, root: Path) -> Iterator[Row]:
    weights = ascend.initial_weights(model.name, root, site.load_path)
    code = ascend.mindspeed_mm(site.mindspeed_mm) if site.mindspeed_mm else None
    places = {
        "DATASET_ROOT": root,
        "DATASET_PATH": root / ascend.DATASETS.get(model.name, model.name),
        "LOAD_PATH": weights,
        "MINDSPEED_MM_PATH": code,
    }
    missing, count = [], 0
    for text in _texts(model.documents("npu")):
        names = PLACEHOLDER.findall(text)
        if not names or any(places.get(name) is None for name in names):
            continue
        count += 1
        path = PLACEHOLDER.sub(lambda match: str(places[match[1]]), text)
        if not Path(path).exists():
            missing.append(path)
    check = f"{model.name} files"
    if missing:
        yield fail(
            check,
            f"missing: {', '.join(sorted(set(missing)))}",
            "put them there, or correct the paths in your own mm_configs",
        )
    else:
        yield ok(check, f"{count} paths of its documents exist")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _weights(site: Site, model: ModelSpec) -> Iterator[Row]:
    check = f"{model.name} weights"
    place = ascend.initial_weights(model.name, site.dataset_root, site.load_path)
    if place is None:
        default = ascend.DEFAULT_WEIGHTS.get(model.name, "")
        yield warn(
            check,
            f"no converted checkpoint in {site.dataset_root}/{default}: fresh weights",
            "convert the weights (mm-convert) and name them as LOAD_PATH to start from them",
        )
        return
    if not (place / ascend.CHECKPOINT).is_file():
        yield fail(
            check,
            f"no {ascend.CHECKPOINT} in {place}",
            "MindSpeed-MM would start from random: convert the weights (mm-convert)",
        )
        return
    types = weight_types(place)
    if types - {"bf16"}:
        yield warn(
            check,
            f"{place}: {', '.join(sorted(types))}",
            "both stacks run in bf16: FP16 against BF16 weights once made 20 % of difference",
        )
    else:
        yield ok(check, f"{place}{' (bf16)' if types else ''}")


def weight_types(folder: Path, files: int = 8) -> set[str]:
    """The types of the tensors in torch checkpoints below *folder*, read from their pickles."""
    found: set[str] = set()
    for path in sorted(folder.glob("**/model_optim_rng.pt"))[:files]:
        try:
            with zipfile.ZipFile(path) as archive:
                pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
                content = b"".join(archive.read(name) for name in pickles)
        except (OSError, zipfile.BadZipFile):
            continue
        found |= {name for mark, name in STORAGES.items() if mark in content}
    return found
