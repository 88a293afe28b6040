"""Processes of a stack that take one run after the other: one that lives long, or two workers."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pytest_lmsv import data
from pytest_lmsv.launch import local, ports
from pytest_lmsv.launch.environments import StackEnvironment
from pytest_lmsv.launch.job import Job
from pytest_lmsv.problems import EnvironmentProblem

Request = Mapping[str, Any]
Answer = dict[str, Any]
START_S, RUN_S = 120.0, 120.0
RUNS = 250
"""After so many runs a new process takes over: MindSpore does not give all memory back."""


class Server:
    """``launchers/cpu/serve.py`` of one stack: started when asked, again after it died."""

    def __init__(self, environment: StackEnvironment, plants: Path, folder: Path) -> None:
        self.environment = environment
        self.restarts = 0
        """How often it died or did not answer."""
        self._argv = [str(data.launchers() / "cpu" / "serve.py"), "--plants", str(plants)]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._runs = 0

    def ask(self, request: Request) -> Answer:
        """Return the answer to *request*; ``{"error"}`` also where the process died of it.

        EnvironmentProblem where the stack does not start.
        """
        if self._process is None or self._runs >= RUNS:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._runs += 1
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
            self._process.stdin.flush()
        text = self._line(RUN_S)
        if text is None:
            self.restarts += 1
            status = self._end()
            return {"error": f"the process ended or did not answer (exit status {status})"}
        return cast(Answer, json.loads(text))

    def close(self) -> None:
        """End the process."""
        self._end()

    def _start(self) -> None:
        self._end()
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "stderr.txt"
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [str(self.environment.python), *self._argv],
                env=variables(self.environment, self._folder),
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self._buffer, self._runs = b"", 0
        if self._line(START_S) is None:
            self._end()
            last = (log.read_text(encoding="utf-8", errors="replace").splitlines() or [""])[-1]
            raise EnvironmentProblem(
                f"{self.environment.stack.upper()} does not start: {last or 'no output'}; "
                f"see {log}, and try `lmsv doctor`"
            )

    def _line(self, limit: float) -> bytes | None:
        """Return the next line; None where the process ended or *limit* seconds have passed."""
        assert self._process is not None
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        until = time.monotonic() + limit
        while b"\n" not in self._buffer:
            if not poll.poll(max(0, round((until - time.monotonic()) * 1000))):
                return None
            part = os.read(self._process.stdout.fileno(), 1 << 20)
            if not part:
                return None
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _end(self) -> int | None:
        """End the process, which leaves by itself at the end of its input; its exit status."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        with suppress(BrokenPipeError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            return process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            assert process.stdout is not None
            process.stdout.close()


def of_two_workers(
    environment: StackEnvironment, plants: Path, folder: Path, requests: Sequence[Request]
) -> list[Answer]:
    """Return the answers to *requests* from two workers, started once by the stack's launcher.

    The last worker's, as in the log of a run. EnvironmentProblem where the launch fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked, answers = folder / "requests.jsonl", folder / "answers.jsonl"
    asked.write_text("".join(json.dumps(each) + "\n" for each in requests), encoding="utf-8")
    script = [str(data.launchers() / "entry.py"), str(data.launchers() / "cpu" / "serve.py")]
    script += ["--plants", str(plants), "--requests", str(asked), "--answers", str(answers)]
    port = str(ports.free_port(os.getpid()))
    if environment.stack == "pta":
        start = ["torchrun", "--nproc_per_node", "2", "--master_addr", "127.0.0.1"]
        start += ["--master_port", port]
    else:
        start = ["msrun", "--worker_num", "2", "--local_worker_num", "2", "--master_port", port]
        start += ["--log_dir", str(folder / "msrun_log"), "--join=True"]
    job = Job(
        argv=(str(environment.path / "bin" / start[0]), *start[1:], *script),
        env=variables(environment, folder),
        cwd=folder,
        log=folder / "log.txt",
        run_id=f"score-{os.getpid()}-{environment.stack}",
        time_limit=START_S + 15.0 * len(requests),
        silence_limit=START_S,
        outputs=(folder,),
    )
    ended = local.run(job)
    last = Path(f"{answers}.1")
    lines = last.read_text(encoding="utf-8").splitlines()[1:] if last.exists() else []
    if len(lines) != len(requests):
        raise EnvironmentProblem(
            f"two workers of {environment.stack.upper()} made {len(lines)} of {len(requests)} runs "
            f"({ended.reason}, exit status {ended.exit_status}); see {job.log}"
        )
    return [json.loads(line) for line in lines]


def variables(environment: StackEnvironment, folder: Path) -> dict[str, str]:
    """Return the environment of a process that serves runs and writes to *folder* only."""
    return {
        **environment.variables(),
        "LMSV_STACK": environment.stack,
        "LMSV_RUN_DIR": str(folder),
        "LMSV_DEVICE": "cpu",
        "LMSV_ADAPTER_FIXES": "on",
        "OMP_NUM_THREADS": "1",
        "GLOG_v": "3",
    }
