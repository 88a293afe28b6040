"""Kinds of lines that the stored logs do not have: launchers, loggers, runtimes, trainers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_lmsv.logs.reading import read

TRACEBACK = 'Traceback (most recent call last):\n  File "/d/x.py", line 1, in f\n    g()\n'
BAR = " {percent}%|█▌   | {done}/5 [00:28<01:52, 28.10s/it]\n"
STEP = (
    " iteration        1/       2 | consumed samples:            8 | elapsed time per iteration"
    " (ms): 610.0 | learning rate: 1.000000E-05 | global batch size:     8 | loss: 1.500000E+00 |"
    " loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations:   0 | number of nan"
    " iterations:   0 |\n"
)


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "type_", "category", "rank"),
    [
        (prefixed("Apr 25 18:31:00 node-0 python[812]: ", TRACEBACK + "ValueError: bad"),
         "ValueError", "other_python", None),
        (prefixed("(TrainActor pid=123, ip=10.0.0.2) ", TRACEBACK + "ValueError: bad"),
         "ValueError", "other_python", None),
        (prefixed("<<job 1>> ~ ", TRACEBACK + "mypkg.errors.OddThing: bad"),
         "OddThing", "other_python", None),
        (prefixed("[node-1] [rank5]: ", TRACEBACK + "ValueError: bad"),
         "ValueError", "other_python", 5),
        ("==> /d/msrun_log/worker_3.log <==\n" + TRACEBACK + "KeyError: 0\n",
         "KeyError", "other_python", 3),
        ('{"log":"[rank2]: KeyError: 1\\n","stream":"stderr","time":"2026-04-25T10:00:00.1Z"}\n',
         "KeyError", "other_python", 2),
        ('{"message": "Traceback (most recent call last):\\n  File \\"/d/x.py\\", line 3\\n'
         'ValueError: bad \\"shape\\"\\n", "level": "error"}\n',
         "ValueError", "other_python", None),
        (TRACEBACK + "\n> File \"/d/x.py\", line 2\n    └ 1\n\nZeroDivisionError: by zero\n",
         "ZeroDivisionError", "other_python", None),
        (TRACEBACK + "socket.gaierror: [Errno -3] Temporary failure in name resolution\n",
         "gaierror", "lost_node", None),
        (TRACEBACK + "StopIteration\n", "StopIteration", "other_python", None),
        (TRACEBACK + "KeyError: 'a'\n\nThe above exception was the direct cause of the following"
         " exception:\n\n" + TRACEBACK + "RuntimeError: wrapped\n",
         "KeyError", "other_python", None),
        ("[ERROR] 2026-04-28-01:56:10 (PID:1, Device:2, RankID:2) ERR99999 UNKNOWN applicaiton"
         " exception\n", "ERR99999", "unknown", 2),
        ("srun: error: node-0: task 3: Out Of Memory\n", "SIGKILL", "killed", None),
        ("  0%|     | 0/5 [00:00<?, ?it/s]\r" + BAR.format(percent=20, done=1) + TRACEBACK
         + "RuntimeError: boom\n" + BAR.format(percent=20, done=1),
         "RuntimeError", "other_python", None),
        ("  0%|     | 0/5 [00:00<?, ?it/s]\r" + BAR.format(percent=20, done=1) + TRACEBACK
         + "RuntimeError: boom\n" + BAR.format(percent=40, done=2),
         "RuntimeError", "other_python", None),
        (TRACEBACK + "ConnectionError: hub\n[WARNING] attempt 1/2 failed, retrying\n" + TRACEBACK
         + "ConnectionError: hub\n[WARNING] attempt 2/2 failed, giving up\n",
         "ConnectionError", "other_python", None),
    ],
)  # fmt: skip
def test_an_error_is_found(
    text: str, type_: str, category: str, rank: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    error = read([path]).error
    assert error is not None
    assert (error.type, error.category, error.rank) == (type_, category, rank)


@pytest.mark.parametrize(
    "text",
    [
        TRACEBACK + "ModuleNotFoundError: No module named 'flash_attn'\n"
        "WARNING:root:flash_attn is not available, using the eager implementation\nA cat.\n",
        TRACEBACK
        + "RuntimeError: flaky\n"
        + BAR.format(percent=60, done=3)
        + BAR.format(percent=80, done=4),
        TRACEBACK + "RuntimeError: flaky\n" + BAR.format(percent=100, done=5),
        TRACEBACK + "RuntimeError: flaky\nSaved 1 samples to /data/out\n",
        "Exception ignored in: <function A.__del__ at 0x7f>\n" + TRACEBACK + "TypeError: x\n",
        "ERROR:root:no tensorboard\n" + TRACEBACK + "OSError: [Errno 28] No space left\n" + STEP,
        prefixed("W0425 18:41:00.123000 2813 torch/x.py:13] ", TRACEBACK + "RuntimeError: pipe"),
        "INFO: no Traceback will be printed; ValueError handler installed\n",
        "/d/x.py:12: UserWarning: RuntimeError in older releases\n",
        "Worker reports 0 errors, error_code: 0, exitcode: 0\n",
    ],
)
def test_what_looks_like_an_error_is_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    assert read([path]).error is None


@pytest.mark.parametrize(
    ("text", "losses", "times"),
    [
        (" iteration 1/2 | elapsed time per iteration (ms): 100.0/105.0 | loss: 1.5 |\n",
         [1.5], [100.0]),
        (" iteration 1/2 | elapsed time per iteration (s): 12.5 | loss: 1.5 | loss scale: 1.0 |\n",
         [1.5], [12500.0]),
        (" iteration 1/2 | loss: 0.5 | grad norm: 1.2 | elapsed time per iteration: 123.45\n",
         [0.5], [123.45]),
        ("epoch: 1 step: 1, loss is 3.0\nepoch: 1 step: 2, loss is 2.9\nTrain epoch time: 2000.0"
         " ms, per step time: 1000.0 ms\nepoch: 2 step: 1, loss is 2.8\n"
         "epoch: 2 step: 2, loss is 2.7\n"
         "Train epoch time: 1800.0 ms, per step time: 900.0 ms\n",
         [3.0, 2.9, 2.8, 2.7], [1000.0, 900.0]),
        ("2026-04-25 10:00:00,123 - mindformers[x.py:500] - INFO - { Epoch:[  1/  1], step:[    1/ "
         "   2], loss: 11.636, per_step_time: 20000ms, lr: 1e-05, overflow cond: False\n",
         [11.636], [20000.0]),
        ("{'loss': 2.1, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.01}\n"
         "{'loss': 2.0, 'grad_norm': 1.4, 'learning_rate': 1e-05, 'epoch': 0.02}\n",
         [2.1, 2.0], []),
        (" iteration 1/2 | mtp_1 loss: 9.0 | total loss: 1.5 | load_balancing_loss: 3.0 |\n",
         [1.5], []),
        (STEP.replace("loss: 1.500000E+00", "lm loss: 13.4216022491455078"),
         [13.4216022491455078], [610.0]),
    ],
)  # fmt: skip
def test_records_of_other_trainers_are_read(
    text: str, losses: list[float], times: list[float], tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    metrics = read([path]).metrics
    assert metrics.losses == tuple(enumerate(losses, 1))
    assert [value for _, value in metrics.step_time_ms] == times
