"""The packages of an Ascend machine's two environments, against what is known to work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_lmsv.doctor.rows import Row, fail, ok, warn
from pytest_lmsv.doctor.site import Site, environment_folder
from pytest_lmsv.launch import ascend, installed
from pytest_lmsv.records import Stack


@dataclass(frozen=True, slots=True)
class Wanted:
    """One package: the version that is known to work, and what its absence or another one does."""

    name: str
    version: str
    """Exact, a prefix ending in ``.``, or ``<=X``; "" for any."""
    missing: bool
    """Whether a campaign can't run without it."""
    why: str = ""
    strict: bool = False
    """Whether another version stops a campaign."""


WANTED: Mapping[Stack, tuple[Wanted, ...]] = {
    "pta": (
        Wanted("torch", "2.7.", True),
        Wanted("torch-npu", "2.7.", True),
        Wanted("numpy", "<=1.26.4", True),
        Wanted("safetensors", "", True),
        Wanted("diffusers", "0.30.3", True),
        Wanted("simplejson", "", False, "some nodes lack it: ImportError at start"),
    ),
    "msa": (
        Wanted("mindspore", "2.7.1", True),
        Wanted("msadapter", "0.0.5", False, "may also be a source folder of the workspace"),
        Wanted("numpy", "<=1.26.0", True, "bfloat16: TypeError with a newer one", True),
        Wanted("ml-dtypes", "0.3.0", True, "must fit numpy 1.26.0"),
        Wanted("scipy", "1.11.4", True, "must fit numpy 1.26.0"),
        Wanted("safetensors", "0.5.1", True, "OpenSora's known bug looks like 0.7.0 here"),
        Wanted("diffusers", "0.30.3", True),
        Wanted("simplejson", "", True, "MSA fails at import without it"),
    ),
}
TRANSFORMERS: Mapping[str, Mapping[Stack, str]] = {
    "2.2.0": {"pta": "4.53.0", "msa": "4.51.0"},
    "2.3.0": {"pta": "4.55.2", "msa": "4.55.2"},
}
"""By version of MindSpeed-MM (facts: mindspeed-mm 5, task6 7)."""
NEEDED_BY = {"qwenvl": "qwen-vl-utils"}
ADAPTOR = "mindspeed/mindspore/mindspore_adaptor.py"


def checks(site: Site) -> Iterator[Row]:
    """Rows of both environments: found, Python, packages, and the patch of safetensors."""
    code = ascend.mindspeed_mm(site.mindspeed_mm) if site.mindspeed_mm else None
    version = ascend.mindspeed_mm_version(code) if code else None
    for stack in site.sides:
        name = site.environments.get(stack) or ascend.DEFAULT_NAMES[stack]
        folder = environment_folder(site, stack)
        label = f"{stack} environment"
        if folder is None:
            yield fail(
                label,
                f"no conda environment {name}",
                f"make it, or name another: lmsv_{stack}_env, {stack.upper()}_NAME in config.json",
            )
            continue
        yield ok(label, str(folder))
        yield _python(stack, folder)
        versions = installed.versions(folder)
        for wanted in _wanted(site, stack, version):
            yield _package(stack, wanted, versions.get(wanted.name), code)
    if "msa" in site.sides and code is not None:
        yield from _safetensors_patch(code)


def _python(stack: Stack, folder: Path) -> Row:
    found = sorted(path.name.removeprefix("python") for path in folder.glob("lib/python3*"))
    check = f"{stack} python"
    if "3.10" in found:
        return ok(check, "3.10")
    return warn(check, ", ".join(found) or "unknown", "MindSpeed-MM's matrix is for Python 3.10")


def _wanted(site: Site, stack: Stack, version: str | None) -> Iterator[Wanted]:
    yield from WANTED[stack]
    pinned = TRANSFORMERS.get(version or "", {}).get(stack, "")
    yield Wanted("transformers", pinned, True, f"the matrix of MindSpeed-MM {version}")
    for model in site.models:
        if model.name in NEEDED_BY:
            yield Wanted(NEEDED_BY[model.name], "", True, f"{model.name} imports it")


def _package(stack: Stack, wanted: Wanted, found: str | None, code: Path | None) -> Row:
    check = f"{stack} {wanted.name}"
    pin = wanted.version.removeprefix("<=").rstrip(".")
    remedy = f"pip install {wanted.name}{'==' + pin if pin else ''}"
    if wanted.why:
        remedy += f" ({wanted.why})"
    if found is None:
        if wanted.name == "msadapter" and code is not None:
            for folder in ("MSAdapter", "msadapter"):
                if (code.parent / folder).is_dir():
                    return ok(check, str(code.parent / folder))
        return (fail if wanted.missing else warn)(check, "not installed", remedy)
    if _fits(found, wanted.version):
        return ok(check, found)
    return (fail if wanted.strict else warn)(check, f"{found}, wanted {wanted.version}", remedy)


def _fits(found: str, wanted: str) -> bool:
    if wanted.startswith("<="):
        return _numbers(found) <= _numbers(wanted[2:])
    if wanted.endswith("."):
        return found.startswith(wanted)
    # 2.7.1.post2 is 2.7.1 to the matrix.
    return not wanted or found == wanted or found.startswith((wanted + ".post", wanted + "+"))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:3])


def _safetensors_patch(code: Path) -> Iterator[Row]:
    """--ai-framework mindspore must make MindSpeed replace safetensors' load_file."""
    check = "msa safetensors patch"
    for folder in (code.parent / "MindSpeed", code):
        path = folder / ADAPTOR
        if path.is_file():
            if "safetensors.torch.load_file" in path.read_text(encoding="utf-8", errors="replace"):
                yield ok(check, "MindSpeed replaces safetensors.torch.load_file")
            else:
                yield warn(
                    check,
                    f"{path} does not replace safetensors.torch.load_file",
                    "take MindSpeed 2.2.0_core_r0.12.1 or newer: without the patch OpenSora's "
                    "known bug is drift of this machine",
                )
            return
    yield warn(
        check,
        f"no {ADAPTOR} in {code.parent / 'MindSpeed'}",
        "put MindSpeed beside MindSpeed-MM, or set MINDSPEED_PATH",
    )
