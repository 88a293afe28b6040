"""How fast logs are read, beside grep, wc and a plain loop over lines. Run by hand; no timed test.

    python tests_selftest/benchmarks/log_reading.py [--mb 512] [--only plog,dense,...]

    python tests_selftest/benchmarks/log_reading.py --rounds 5 --mb 2000 --only dense

Makes logs in a temporary folder: ``plog`` (Ascend's own log on stdout, a step every 1500 lines),
``workers`` (the same in 16 files), ``mixed`` (a step every 20 lines), ``dense`` (nothing but step
records) and hostile ones (of a sixteenth of the size). The figures of the steps differ from step to
step. Prints MB/s (10^6 bytes), the peak memory of the reading process, and the ratios to
``LC_ALL=C grep -aE 'loss:|Error|memory \\(MB\\)'`` of the same file: ``grep`` prints the lines into
a pipe that is read and thrown away (wall time, and CPU time of user and system, which a busy
machine disturbs less); ``grep -c`` only counts them (the least that any program needs). ``lmsv
parse`` is the whole command with ``--json``. Each ratio is the median of the rounds, in which the
programs run one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
PATTERN = r"loss:|Error|memory \(MB\)"
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
    " iteration {0:8d}/ 9999999 | consumed samples: {1:12d} | elapsed time per iteration (ms):"
    " {2:.1f} | learning rate: {3:.6E} | global batch size:     8 | loss: {4:.6E} |"
    " loss scale: 1.0 | grad norm: {5:.3f} | number of skipped iterations:   0 | number of nan"
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
    chance = random.Random(7)
    with path.open("w", encoding="utf-8") as stream:
        while stream.tell() < size:
            parts = []
            for _ in range(max(1, 4_000_000 // (len(block) if every else 100_000))):
                step += 1
                record = STEP.format(
                    step, 8 * step, chance.gauss(1000, 20), 1e-5 / (1 + step * 1e-5),
                    3 / (1 + step * 1e-4) + chance.random() / 10, chance.lognormvariate(0, 1.5),
                )  # fmt: skip
                parts.append((block if every else "") + record)
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


def seconds(argv: list[str]) -> tuple[float, float, bytes]:
    """Wall time, CPU time and what the command printed last; the rest is thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    last = b""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while data := process.stdout.read(1 << 16):
            last = (last + data)[-4096:]
    took = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu, last


LMSV = "import sys; from pytest_lmsv.cli import main; sys.exit(main(sys.argv[1:]))"
READER = """\
import json, sys
from pathlib import Path
from pytest_lmsv.logs.reading import read
reading = read([Path(name) for name in sys.argv[1:]])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([len(reading.metrics.losses), int(peak.split()[1])]))
"""


def plain_loop(paths: list[Path]) -> None:
    pattern = re.compile(rb"loss:\s*([\d.E+-]+)|Error|memory \(MB\)")
    for path in paths:
        with path.open("rb") as stream:
            for line in stream:
                pattern.search(line)


def report(name: str, paths: list[Path], rounds: int, *, loop: bool = True) -> None:
    size = sum(path.stat().st_size for path in paths)
    names = list(map(str, paths))
    seconds(["cat", *names])  # into the page cache
    ratios = []
    for _ in range(rounds):
        grep, grep_cpu, _ = seconds(["grep", "-aE", PATTERN, *names])
        took, cpu, last = seconds([sys.executable, "-c", READER, *names])
        count, _, _ = seconds(["grep", "-acE", PATTERN, *names])
        parse, _, _ = seconds([sys.executable, "-c", LMSV, "parse", "--json", *names])
        ratios.append((took / grep, cpu / grep_cpu, took / count, parse / grep, size / took / 1e6))
    wall, cpu, count, parse, speed = map(median, zip(*ratios, strict=True))
    losses, kilobytes = json.loads(last.splitlines()[-1])
    shown = (
        f"{speed:6.0f} MB/s  {wall:5.2f} x grep ({cpu:.2f} in CPU time), {count:5.2f} x grep -c,"
    )
    shown += f" lmsv parse {parse:.2f} x grep  {kilobytes / 1024:4.0f} MB  {losses} losses"
    if loop:
        begin = time.perf_counter()
        plain_loop(paths)
        loop_speed = size / (time.perf_counter() - begin) / 1e6
        wc, _, _ = seconds(["wc", "-l", *names])
        shown += f"  (wc -l {size / wc / 1e6:.0f} MB/s, line loop {loop_speed:.0f})"
    print(f"{name:22} {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = options.mb * 1_000_000
    only = set(filter(None, options.only.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        for name, every in (("plog", 500), ("mixed", 7), ("dense", 0)):
            if not only or name in only:
                fill(path, size, every)
                report(name, [path], options.rounds)
        if not only or "workers" in only:
            workers = [Path(folder) / f"worker_{rank}.log" for rank in range(16)]
            for worker in workers:
                fill(worker, size // 16, 500)
            report("workers", workers, options.rounds)
            for worker in workers:
                worker.unlink()
        if not only or "hostile" in only:
            for name, text in HOSTILE.items():
                fill_hostile(path, size // 16, text)
                report(name, [path], options.rounds, loop=False)


if __name__ == "__main__":
    main()
