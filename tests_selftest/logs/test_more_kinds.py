"""Kinds found by an independent reading of new logs: glued, crossed, nested and cut texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_lmsv.logs.reading import read

TRACEBACK = 'Traceback (most recent call last):\n  File "/d/x.py", line 1, in f\n    g()\n'
STEP = (
    " iteration        {step}/       2 | consumed samples:            8 | elapsed time per"
    " iteration (ms): 610.0 | learning rate: 1.000000E-05 | global batch size:     8 |"
    " loss: 1.500000E+00 | loss scale: 1.0 | grad norm: 0.512 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
MEMORY = (
    "[Rank 1] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: {peak} |"
    " reserved: 400.0 | max reserved: 400.0"
)
BANNER = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
x.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-04-25_18:40:11
  rank      : 2 (local_rank: 2)
  exitcode  : {code}
  error_file: <N/A>
  traceback : {cause}
============================================================
"""
RECORDED = 'Traceback (most recent call last):\n    File "/d/x.py", line 1, in f\n      g()\n'
WATCHDOG = (
    "[rank2]:[E425 18:40:00.1 ProcessGroupHCCL.cpp:607] [Rank 2] Watchdog caught collective"
    " operation timeout: WorkHCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000)\n"
)
TERMINATE = "terminate called after throwing an instance of 'std::runtime_error'\n"
INNER = "RuntimeError: The Inner error is reported as above.\n"
WORKER = "{name}: Caught {name} in DataLoader worker process 0.\nOriginal "


def test_a_record_is_read_though_another_rank_glued_its_line_to_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    glued = STEP.format(step=2) + MEMORY.format(peak=222.5)
    path.write_text(STEP.format(step=1) + "\n" + glued + "\nend\n", encoding="utf-8")
    metrics = read([path]).metrics
    assert metrics.losses == ((1, 1.5), (2, 1.5))
    assert metrics.memory_mb == 222.5


def test_a_memory_report_cut_inside_its_figure_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    whole = MEMORY.format(peak=22250.5)
    cut = whole[: whole.index("50.5")]
    path.write_text(STEP.format(step=1) + "\n" + cut, encoding="utf-8")
    assert read([path]).metrics.memory_mb is None
    path.write_text(STEP.format(step=1) + "\n" + whole[: whole.index("400.0")], encoding="utf-8")
    assert read([path]).metrics.memory_mb == 22250.5


@pytest.mark.parametrize(
    ("text", "type_", "category", "rank", "part"),
    [
        # torchrun's list holds the traceback where the entry function is decorated with `record`
        (BANNER.format(code="1 (pid: 7)", cause=RECORDED + "  KeyError: 'layers'\n  "),
         "KeyError", "other_python", 2, "KeyError: 'layers'"),
        # abort() is how the watchdog ends its process
        (WATCHDOG + TERMINATE + BANNER.format(code="-6 (pid: 7)",
                                              cause="Signal 6 (SIGABRT) received by PID 7"),
         "SIGABRT", "hccl_comm", 2, "Watchdog caught"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n",
         "SIGABRT", "out_of_memory", None, "bad_alloc"),
        (TERMINATE + TERMINATE.replace("runtime", "logic"), "SIGABRT", "unknown", None, "runtime"),
        # stdout and stderr came crossed: the block stands below
        (TRACEBACK + INNER + "E19999: Inner Error!\n"
         "E40021: [PID: 1] 2026-04-04-09:50:11.9 Failed to compile Op [MatMul].\n",
         "RuntimeError", "op_compile", None, "E19999"),
        ("RuntimeError: ACL stream synchronize failed, error code:507048\n"
         "EI0002: [PID: 1] 2026-04-25-18:59:30.6 The wait execution of the Notify times out.\n",
         "RuntimeError", "hccl_comm", None, "507048"),
        (TRACEBACK + "RuntimeError: The address 127.0.0.1:8118 is already in use.\n",
         "RuntimeError", "port_in_use", None, "8118"),
        (TRACEBACK + WORKER.format(name="AttributeError") + TRACEBACK
         + "AttributeError: module 'decord' has no attribute 'cpu'\n",
         "AttributeError", "other_python", None, "decord"),
        ("RemoteError(b'Traceback (most recent call last):\\n  File \"/d/x.py\", line 2\\n"
         "KeyError: \\'a\\'\\n')\n", "KeyError", "other_python", None, "KeyError: 'a'"),
    ],
)  # fmt: skip
def test_the_root_is_found(
    text: str, type_: str, category: str, rank: int | None, part: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    error = read([path], failed=True).error
    assert error is not None
    assert (error.type, error.category, error.rank) == (type_, category, rank)
    assert part in (error.line or "")


@pytest.mark.parametrize(
    "text",
    [
        'Traceback (most recent call last):\n  File "/usr/lib/python3.10/multiprocessing/'
        'resource_tracker.py", line 209, in main\n    cache[rtype].remove(name)\n'
        "KeyError: '/mp-abc'\n",
        "[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!\n",
    ],
)
def test_the_end_of_a_helper_process_is_no_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    steps = "".join(STEP.format(step=step) + "\n" for step in (1, 2))
    path.write_text(steps + text, encoding="utf-8")
    assert read([path], failed=False).error is None
