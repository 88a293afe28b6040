"""How fast logs are read, beside grep, wc and a plain loop over lines. Run by hand; no timed test.

    python tests_selftest/benchmarks/log_reading.py [--mb 512] [--only plog,dense,...]

Makes logs in a temporary folder: ``plog`` (Ascend's own log on stdout, a step every 1500 lines),
``workers`` (the same in 16 files), ``mixed`` (a step every 20 lines), ``dense`` (nothing but step
records) and hostile ones (of a sixteenth of the size). Prints MB/s (10^6 bytes), the ratio to
``LC_ALL=C grep -aE 'loss:|Error|memory \\(MB\\)'`` of the same file, and the peak memory of the
reading process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GREP = ["grep", "-acE", r"loss:|Error|memory \(MB\)"]
PLOG = (
    "[EVENT] DRV(3536113,python):2026-04-25-18:30:{0:02d}.130.000 [ascend][curpid: 353611, 353611]"
    "[drv][devmm][_devmm_mem_stats_show 152]DEV_MEM dev{1} mem stats(Bytes): module_name=RUNTIME,"
    " module_id=7 current_alloced_size=27332608, alloced_peak_size=65650688.\n"
    "[INFO] HCCL(2111667,all_reduce_test):2026-04-25-18:30:{0:02d}.724.300 [op_base.cc:1292]"
    " [2111667]Entry-HcclCommInitRootInfoInner:ranks[4], rank[{1}], rootinfo: host ip[10.0.0.1]"
    " port[60000] nicDeploy[1] identifier[10.0.0.1%eth0_60000_0_1761275812718970]\n"
    "[INFO] RUNTIME(3536113,python):2026-04-25-18:30:{0:02d}.900.000 [engine.cc:1402] errorCode=0,"
    " error_code:0x0, retCode=0, no error\n"
)
STEP = (
    " iteration {0:8d}/ 9999999 | consumed samples:            8 | elapsed time per iteration (ms):"
    " 3000.0 | learning rate: 1.000000E-05 | global batch size:     8 | loss: 1.100000E+00 |"
    " loss scale: 1.0 | grad norm: 0.512 | number of skipped iterations:   0 | number of nan"
    " iterations:   0 |\n"
)
HOSTILE = {
    "one line of loss:": "loss: ",
    "one line of Error": "RuntimeError: ",
    "one line of prefixes": "[rank0]: ",
    "one line of records": " iteration 1/1 | loss: 1.0 |",
    "nested near-matches": "[Rank 0] (after 1 iterations) memory (MB) | allocated: 1 | max ",
    "prefixed errors": "[rank0]: " * 20 + "RuntimeError: x\n",
    "tracebacks": "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: {0}\n",
    "banners": "ChildFailedError: {0}\n  rank      : 1\n  exitcode  : 3 (pid: 1)\n",
    "escapes": "\x1b[0;0;",
}  # fmt: skip


def fill(path: Path, size: int, every: int) -> None:
    """*size* bytes with a step record after every *every* blocks of plog lines (0: only steps)."""
    block = "".join(PLOG.format(number % 60, number % 8) for number in range(max(every, 1)))
    step = 0
    with path.open("w", encoding="utf-8") as stream:
        while stream.tell() < size:
            parts = []
            for _ in range(max(1, 4_000_000 // (len(block) if every else 100_000))):
                step += 1
                parts.append((block if every else "") + STEP.format(step))
            stream.write("".join(parts))


def fill_hostile(path: Path, size: int, text: str) -> None:
    with path.open("w", encoding="utf-8") as stream:
        number = 0
        while stream.tell() < size:
            parts = [
                text.format(number + index) if "{0}" in text else text for index in range(9999)
            ]
            number += len(parts)
            stream.write("".join(parts))


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def run(argv: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv, env={**os.environ, "LC_ALL": "C"}, stdout=subprocess.PIPE, check=False
    )


READER = """\
import json, sys
from pathlib import Path
from pytest_lmsv.logs.reading import read
reading = read([Path(name) for name in sys.argv[1:]])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([len(reading.metrics.losses), int(peak.split()[1])]))
"""


def read_in_process(paths: list[Path]) -> tuple[float, int, float]:
    """Seconds of a whole process, number of losses, peak memory in MB."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", READER, *map(str, paths)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
    )
    took = time.perf_counter() - begin
    losses, kilobytes = json.loads(done.stdout)
    return took, losses, kilobytes / 1024


def plain_loop(paths: list[Path]) -> None:
    pattern = re.compile(rb"loss:\s*([\d.E+-]+)|Error|memory \(MB\)")
    for path in paths:
        with path.open("rb") as stream:
            for line in stream:
                pattern.search(line)


def report(name: str, paths: list[Path], *, loop: bool = True) -> None:
    size = sum(path.stat().st_size for path in paths)
    names = list(map(str, paths))
    run(["cat", *names])  # into the page cache
    grep = min(seconds(lambda: run([*GREP, *names])) for _ in range(2))
    wc = seconds(lambda: run(["wc", "-l", *names]))
    took, losses, memory = min(read_in_process(paths) for _ in range(2))
    shown = f"{size / took / 1e6:8.0f} MB/s  {took / grep:6.2f} x grep"
    shown += f"  (grep {size / grep / 1e6:.0f}, wc -l {size / wc / 1e6:.0f}"
    if loop:
        shown += f", line loop {size / seconds(lambda: plain_loop(paths)) / 1e6:.0f}"
    print(f"{name:22} {shown})  {memory:5.0f} MB  {losses} losses", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    size = options.mb * 1_000_000
    only = set(filter(None, options.only.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        for name, every in (("plog", 500), ("mixed", 7), ("dense", 0)):
            if not only or name in only:
                fill(path, size, every)
                report(name, [path])
        if not only or "workers" in only:
            workers = [Path(folder) / f"worker_{rank}.log" for rank in range(16)]
            for worker in workers:
                fill(worker, size // 16, 500)
            report("workers", workers)
            for worker in workers:
                worker.unlink()
        if not only or "hostile" in only:
            for name, text in HOSTILE.items():
                fill_hostile(path, size // 16, text)
                report(name, [path], loop=False)


if __name__ == "__main__":
    main()
