"""Writes the documents that MindSpeed-MM reads on this node: the run's own, with paths filled in.

MM_MODEL and MM_DATA hold ``{{DATASET_ROOT}}``, ``{{DATASET_PATH}}``, ``{{LOAD_PATH}}`` and
``{{MINDSPEED_MM_PATH}}``, since paths differ between nodes; all else is the same for both stacks.
The result goes to ``LMSV_RUN_DIR/documents``. Options are what a model's launcher asks for:

--dataset FOLDER        default of DATASET_PATH, below DATASET_ROOT
--number POINTER=VALUE  puts a whole number at POINTER of the model document
--text POINTER=VALUE    puts a text there
--one-prompt POINTER    keeps the first line where POINTER names a file of prompts
--needs FILE=SENTENCE   stops with SENTENCE where MindSpeed-MM has no FILE
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
SHORT = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}


class Stop(Exception):
    """Why the run can't begin, in one line."""


def filled(value: object, paths: dict[str, str]) -> object:
    """Return *value* with every placeholder replaced; Stop names one that has no path."""
    if isinstance(value, dict):
        return {key: filled(item, paths) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, paths) for item in value]
    if not isinstance(value, str):
        return value

    def path(match: re.Match[str]) -> str:
        found = paths.get(match.group(1))
        if not found:
            raise Stop(f"{match.group(1)} is not set, but the documents use {match.group()}")
        return found

    return PLACEHOLDER.sub(path, value)


def uniform(value: object, key: str = "") -> object:
    """Return *value* with every dtype in MindSpeed-MM's short form (bf16, fp16, fp32)."""
    if isinstance(value, dict):
        return {name: uniform(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [uniform(item) for item in value]
    if key.endswith("dtype") and isinstance(value, str):
        name = value.rpartition(".")[2]
        return SHORT.get(name, name)
    return value


def place(document: object, pointer: str) -> tuple[dict[str, object], str]:
    """Return the object that holds *pointer*, and the key in it."""
    *parents, key = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for part in parents:
        document = document[part] if isinstance(document, dict) and part in document else None
    if not isinstance(document, dict) or key not in document:
        raise Stop(f"the model document has no {pointer}")
    return document, key


def check_pipeline(document: object, stages: int, where: str = "") -> None:
    """Stop where a pipeline split does not fit its network; MindSpeed-MM does not add it up."""
    if not isinstance(document, dict):
        return
    split, layers = document.get("pipeline_num_layers"), document.get("num_layers")
    if isinstance(split, list) and split and all(isinstance(part, int) for part in split):
        if len(split) != stages:
            raise Stop(f"{where}/pipeline_num_layers has {len(split)} parts, PP is {stages}")
        if isinstance(layers, int) and sum(split) != layers:
            raise Stop(f"{where}/pipeline_num_layers makes {sum(split)}, num_layers is {layers}")
    for key, value in document.items():
        check_pipeline(value, stages, f"{where}/{key}")


def stages_of(tokens: list[str]) -> int:
    """Return the number of pipeline stages: LMSV_PP, else the run's argument, else 1."""
    if os.environ.get("LMSV_PP"):
        return int(os.environ["LMSV_PP"])
    name = "--pipeline-model-parallel-size"
    return int(tokens[tokens.index(name) + 1]) if name in tokens else 1


def read(variable: str) -> object:
    """Return the JSON document that *variable* names."""
    path = Path(os.environ[variable])
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Stop(f"{variable}: {path}: {error}") from None


def first_prompt(text: str) -> str:
    """Return the first line with text of a file of prompts; *text* itself where it is no file."""
    path = Path(text)
    if not path.is_file():
        if text.startswith("/"):
            raise Stop(f"{text}: no such file of prompts (MindSpeed-MM would take it as the text)")
        return text
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    prompts = [line for line in lines if line]
    if not prompts:
        raise Stop(f"{text}: holds no prompt")
    return prompts[0]


def prepare(options: argparse.Namespace) -> None:
    """Write both documents, or raise Stop."""
    paths = {
        name: os.environ.get(name, "")
        for name in ("DATASET_ROOT", "DATASET_PATH", "LOAD_PATH", "MINDSPEED_MM_PATH")
    }
    if not paths["DATASET_PATH"] and paths["DATASET_ROOT"]:
        paths["DATASET_PATH"] = str(Path(paths["DATASET_ROOT"], options.dataset))
    for need in options.needs:
        file, _, sentence = need.partition("=")
        if not Path(paths["MINDSPEED_MM_PATH"], file).is_file():
            raise Stop(f"{sentence} (no {file} in {paths['MINDSPEED_MM_PATH']})")
    model = uniform(filled(read("MM_MODEL"), paths))
    data = uniform(filled(read("MM_DATA"), paths))
    for kind, change in options.put:
        pointer, _, value = change.partition("=")
        parent, key = place(model, pointer)
        parent[key] = int(value) if kind == "number" else value
    if options.one_prompt:
        parent, key = place(model, options.one_prompt)
        parent[key] = first_prompt(str(parent[key]))
    tokens = Path(os.environ["LMSV_ARGS"]).read_text(encoding="utf-8").splitlines()
    check_pipeline(model, stages_of(tokens))
    folder = Path(os.environ["LMSV_RUN_DIR"], "documents")
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in (("model", model), ("data", data)):
        aside = folder / f".{name}.{os.getpid()}"
        aside.write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")
        aside.replace(folder / f"{name}.json")


def main(argv: list[str]) -> int:
    """Return 2 and say why in one line where the run can't begin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dataset", default="")
    for kind in ("number", "text"):
        parser.add_argument(
            f"--{kind}", action="append", dest="put", default=[], type=lambda v, k=kind: (k, v)
        )
    parser.add_argument("--one-prompt", default="")
    parser.add_argument("--needs", action="append", default=[])
    try:
        prepare(parser.parse_args(argv))
    except Stop as why:
        print(f"lmsv: error: {why}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
