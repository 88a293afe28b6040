"""The models that can be tested: folders of mm_configs, read and checked whole (DESIGN 6.5)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pytest_lmsv import data
from pytest_lmsv.mutation import pointer, spacefile
from pytest_lmsv.mutation.choices import Choices
from pytest_lmsv.mutation.constraints import Layout
from pytest_lmsv.mutation.entries import Entry
from pytest_lmsv.mutation.space import Space
from pytest_lmsv.problems import InputProblem
from pytest_lmsv.records import Device, Kind, Stack

DOCUMENTS = ("model", "data", "args")
DEVICES: tuple[Device, ...] = ("npu", "cpu")


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """One model of the catalog, checked."""

    name: str
    aliases: tuple[str, ...]
    kind: Kind
    folder: Path
    devices: tuple[Device, ...]
    """The devices that the model has documents for."""
    entry_scripts: Mapping[Device, str]
    """npu: relative to MindSpeed-MM; cpu: relative to launchers/."""
    patch_points: Mapping[str, str]
    """By entry script, the ``module:function`` whose call the entry wrapper times."""
    layouts: Mapping[Device, Layout]
    stack_overrides: Mapping[Stack, Mapping[str, Any]]
    """Values by JSON Pointer that one stack needs differently; the report names them."""
    versions: tuple[str, ...]
    """The MindSpeed-MM versions that the documents are meant for."""
    spaces: Mapping[Device, Space]
    datasets: Mapping[str, str]
    """On cpu, folders of a small data set and the script that writes each (under launchers/)."""

    def documents(self, device: Device) -> dict[str, Any]:
        """A fresh copy of the unmutated configuration: documents model, data and args."""
        return copy.deepcopy(dict(self.space(device).documents))

    def space(self, device: Device) -> Space:
        """The mutation space on *device*; InputProblem where the model has none."""
        if device not in self.spaces:
            raise InputProblem(
                f"{self.name}: has no configuration for device {device!r}; "
                f"it has {', '.join(self.spaces)}: choose one, or add {self.folder / device}"
            )
        return self.spaces[device]

    def with_workers(self, device: Device, workers: int) -> ModelSpec:
        """The same model on so many *workers* of *device*; InputProblem where they do not fit."""
        layout = replace(self.layouts[device], devices=workers)
        space = replace(self.space(device), layout=layout)
        broken = Choices(space.documents, (), space.constraints, layout).broken({})
        if broken:
            raise InputProblem(
                f"--lmsv-cpu-workers: {self.name} can't run on {workers} workers: {broken[0]}; "
                "give another number"
            )
        return replace(
            self,
            layouts={**self.layouts, device: layout},
            spaces={**self.spaces, device: space},
        )


def unknown(name: str, device: Device) -> ModelSpec:
    """A model of a stored campaign that this project does not have: it can be shown, not run."""
    empty: dict[Any, Any] = {}
    return ModelSpec(
        name=name,
        aliases=(),
        kind="training",
        folder=Path(),
        devices=(device,),
        entry_scripts=empty,
        patch_points=empty,
        layouts=empty,
        stack_overrides=empty,
        versions=(),
        datasets=empty,
        spaces=empty,
    )


def default_folders() -> tuple[Path, ...]:
    """The packaged mm_configs, then that of the working folder, those of them that there are."""
    own, packaged = Path.cwd() / "mm_configs", data.mm_configs()
    folders = [packaged] if own.resolve() == packaged.resolve() else [packaged, own]
    return tuple(folder for folder in folders if folder.is_dir())


def load(folders: Sequence[Path]) -> dict[str, ModelSpec]:
    """Every model of *folders* by name, sorted; a later folder's model replaces an earlier one's.

    A model is a subfolder with a model.yaml. InputProblem names file, key and remedy.
    """
    models: dict[str, ModelSpec] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputProblem(f"{folder}: is not a folder; name one that holds models")
        for file in sorted(folder.glob("*/model.yaml")):
            spec = _model(file)
            models[spec.name] = spec
    owners: dict[str, str] = {}
    for spec in models.values():
        for alias in spec.aliases:
            owner = alias if alias in models else owners.setdefault(alias, spec.name)
            if owner != spec.name:
                raise InputProblem(
                    f"{spec.folder / 'model.yaml'}: aliases: {alias!r} already names {owner}; "
                    "choose another"
                )
    return dict(sorted(models.items()))


def find(models: Mapping[str, ModelSpec], name: str) -> ModelSpec:
    """The model called *name*, by name or alias; InputProblem with the nearest known name."""
    for spec in models.values():
        if name == spec.name or name in spec.aliases:
            return spec
    words = [word for spec in models.values() for word in (spec.name, *spec.aliases)]
    near = pointer.did_you_mean(name, words).strip(" ()")
    raise InputProblem(
        f"--model: no model named {name!r}; {near + ' ' if near else ''}"
        f"(known: {', '.join(sorted(models)) or 'none'})"
    )


def _model(file: Path) -> ModelSpec:
    entry = Entry.read(file)
    entry.only(
        "name", "aliases", "kind", "entry", "patch_points", "layouts", "stack_overrides",
        "mindspeed_mm", "dataset",
    )  # fmt: skip
    name = entry.name_of("name")
    if name != file.parent.name:
        entry.fail("name", f"found {name!r} in the folder {file.parent.name!r}; make them equal")
    kind = entry.choice("kind", ("training", "inference"))
    layouts = {device: _layout(part) for device, part in entry.parts("layouts", DEVICES)}
    devices = tuple(device for device in DEVICES if (file.parent / device).is_dir())
    if not devices:
        entry.fail("name", f"no folder npu or cpu beside it; add {file.parent / 'cpu'}")
    scripts = entry.texts("entry", DEVICES)
    for device in devices:
        if device not in layouts:
            entry.fail("layouts", f"nothing for {device}, which has documents; add {device}: ...")
        if device not in scripts:
            entry.fail("entry", f"nothing for {device}, which has documents; add {device}: ...")
    documents: dict[str, Any] = {device: _documents(file.parent / device) for device in devices}
    spaces = spacefile.read(file.parent / "space.yaml", name, documents, layouts)
    overrides = {
        stack: _override(part, spaces)
        for stack, part in entry.parts("stack_overrides", ("pta", "msa"))
    }
    return ModelSpec(
        name=name,
        aliases=tuple(entry.names("aliases")),
        kind=cast("Kind", kind),
        folder=file.parent,
        devices=devices,
        entry_scripts=cast("dict[Device, str]", scripts),
        patch_points=entry.texts("patch_points"),
        layouts=cast("dict[Device, Layout]", layouts),
        stack_overrides=cast("dict[Stack, dict[str, Any]]", overrides),
        versions=tuple(entry.list_of("mindspeed_mm", str)),
        datasets=entry.texts("dataset"),
        spaces=cast("dict[Device, Space]", spaces),
    )


def _override(part: Entry, spaces: Mapping[str, Space]) -> dict[str, Any]:
    """The overridden values: of paths that some device's documents have and that are not drawn."""
    for path in part.value:
        missing = []
        for space in spaces.values():
            try:
                pointer.get(space.documents, path)
            except InputProblem as problem:
                missing.append(problem)
            for drawn in (other for key in space.drawn() for other in key.paths):
                if pointer.within(drawn, path) or pointer.within(path, drawn):
                    part.fail(
                        path,
                        f"space.yaml mutates {drawn} on {space.device}, which would not reach this "
                        "stack; drop the override, or make the key dead with that reason",
                    )
        if len(missing) == len(spaces):
            part.fail(path, f"{missing[0]}; correct the path")
    return dict(part.value)


def _layout(part: Entry) -> Layout:
    part.only(*Layout.__slots__)
    sizes = {name: part.size(name, 1) for name in Layout.__slots__}
    layout = Layout(**sizes)
    split = layout.tp * layout.pp * layout.cp
    if layout.devices % split:
        part.fail(
            "devices",
            f"{layout.devices} devices can't be split by tp * pp * cp = {split}; "
            "make it a multiple (Megatron: world size % (TP*PP*CP) == 0)",
        )
    return layout


def _documents(folder: Path) -> dict[str, Any]:
    """The three documents of one device; each a JSON object."""
    documents = {}
    for name in DOCUMENTS:
        file = folder / f"{name}.json"
        if not file.is_file():
            raise InputProblem(f"{file}: is missing; a configuration is model, data and args.json")
        documents[name] = data.read_json(file)
        if not isinstance(documents[name], dict):
            raise InputProblem(
                f"{file}: expected {{...}}, found a {pointer.kind(documents[name])}; correct it"
            )
    return documents
