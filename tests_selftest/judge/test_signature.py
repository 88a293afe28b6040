"""Signatures: one cause has one, whatever changes from run to run, and other causes have others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lmsv.judge.outcome import run_record
from pytest_lmsv.judge.signature import (
    error_signature,
    last_frame,
    normalised,
    verdict_signature,
)
from pytest_lmsv.records import RunError

TRACE = (
    'Traceback (most recent call last):\n  File "{root}/train.py", line {n}, in main\n    go()\n'
)
CAUSES = (
    TRACE + "ValueError: For 'InnerInplaceIndexPut', shape mismatch: value tensor of shape "
    "[{n}, 1280] cannot be broadcast to indexing result of shape [{m}, 3584].",
    TRACE + "RuntimeError: aclnnInplaceCopyGetWorkspaceSize call failed, please check!\n"
    "- Ascend Error Message:\n[PID: {pid}] 2026-04-10-17:11:48.{m} AclNN_Parameter_Error(EZ1001): "
    "The self tensor cannot be larger than {m} dimensions.[THREAD:{n}]",
    TRACE + "RuntimeError: aclnnInplaceCopyGetWorkspaceSize call failed, please check!\n"
    "- Ascend Error Message:\n[PID: {pid}] 2026-04-10-17:11:48.{m} AclNN_Parameter_Error(EZ1001): "
    "The dims of tensor {m} and tensor 0 do not match.[THREAD:{n}]",
    TRACE + "RuntimeError: NPU out of memory. Tried to allocate {m}.03 GiB (NPU {rank}; 60.96 GiB "
    "total capacity; {n}.47 GiB already allocated)",
    TRACE + "TypeError: 'UntypedStorage' object is not callable",
    TRACE + "TypeError: 'Storage' object at 0x7f{n:08x} of {root}/a.py is not callable",
    TRACE + "IndexError: list index out of range",
    TRACE.replace("main", "load") + "IndexError: list index out of range",
    TRACE + "RuntimeError: layer {m} of node-{rank}: worker {pid} at 10.0.0.{rank}:{n} refused "
    "'{root}/ckpt/mp_rank_0{rank}/model.pt'",
    TRACE + "AssertionError: hidden size ({n}) must be divisible by heads ({m})",
)


def logged(cause: str, draw: random.Random, folder: Path) -> RunError:
    """The root error that the log reading finds in a log of *cause*, in a run of its own."""
    root = f"/{draw.choice(['data', 'home/u1', 'mnt/nfs'])}/run{draw.randint(1, 99999)}/MM"
    values = {"n": draw.randint(2, 70000), "m": draw.randint(2, 900), "pid": draw.randint(2, 90000)}
    rank = draw.randint(0, 7)
    text = cause.format(root=root, rank=rank, **values)
    log = folder / f"{draw.getrandbits(64)}.log"
    prefix = f"[rank{rank}]: "
    log.write_text("".join(f"{prefix}{line}\n" for line in text.splitlines()), encoding="utf-8")
    run = run_record(stack="msa", kind="training", logs=[log], steps=3, exit_status=1)
    assert run.error is not None
    return run.error


def test_200_failing_runs_of_10_causes_have_10_signatures(tmp_path: Path) -> None:
    draw = random.Random(7)
    found: dict[str, set[int]] = {}
    for number in range(200):
        error = logged(CAUSES[number % 10], draw, tmp_path)
        found.setdefault(error_signature(error, "msa").id, set()).add(number % 10)
    assert sorted(found.values(), key=min) == [{n} for n in range(10)]


def test_stacks_types_and_codes_are_different_causes() -> None:
    def named(stack: str = "msa", **changes: str) -> str:
        values = {"type": "RuntimeError", "message": "no", "category": "unknown", **changes}
        return error_signature(RunError(**values), stack).id  # type: ignore[arg-type]

    ids = {named(), named("pta"), named(type="ValueError"), named(message="EZ1001: no")}
    assert len(ids) == 4
    assert named() == named(category="other_python")  # a better pattern makes no other bug


def test_a_verdict_is_known_by_model_dimension_and_keys() -> None:
    one = verdict_signature("toy", "accuracy", ["/model/a", "/args/b"])
    assert one == verdict_signature("toy", "accuracy", ["/args/b", "/model/a", "/args/b"])
    others = [("other", "accuracy", []), ("toy", "memory", []), ("toy", "accuracy", ["/model/a"])]
    assert one.id not in {verdict_signature(*other).id for other in others}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("value 3.5e-05 at 0x7ffe12", "value # at #"),
        ("'/data/my files/x.py' is gone", "<path> is gone"),
        ("/usr/local/Ascend/x.py:31 failed", "<path> failed"),
        ("shape [2, 3], (4,), torch.Size([1]) and 2x3x4",
         "shape <shape>, <shape>, torch.Size(<shape>) and <shape>"),
        ("float16 is not bfloat16 in aclnnAddV3", "float16 is not bfloat16 in aclnnAddV3"),
        ("rank3 and worker 12", "rank # and worker #"),
        ("took 5.06s, 12 ms, 3GiB", "took #, #, #"),
        ("see https://host:80/a?b=1 now", "see <url> now"),
    ],
)  # fmt: skip
def test_what_changes_from_run_to_run_is_taken_out(text: str, wanted: str) -> None:
    assert normalised(text) == wanted


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_no_number_that_stands_alone_is_left(one: int, other: int) -> None:
    texts = [f"size {n} of '/tmp/{n}/x' at {hex(n)} [{n}, {n}] on npu:{n}" for n in (one, other)]
    assert normalised(texts[0]) == normalised(texts[1])


@given(st.text())
def test_any_text_can_be_normalised(text: str) -> None:
    assert normalised(normalised(text)) is not None
    assert len(normalised(text)) <= 300


def test_the_last_frame_is_the_programs_own() -> None:
    lines = [
        'File "/data/MM/pretrain.py", line 130, in main',
        "model(x)",
        'File "/env/lib/python3.10/site-packages/torch/nn/module.py", line 1, in __call__',
    ]
    assert last_frame(lines) == "pretrain.py:main"
    assert last_frame(lines[2:]) == "module.py:__call__"
    assert last_frame([]) == ""
