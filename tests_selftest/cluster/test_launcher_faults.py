"""The faults in which the launchers' own behaviour matters, with torchrun and msrun over two hosts.

Left to itself torchrun waits for a lost node up to the process group's limit (30 minutes), and
msrun half a minute.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_lmsv.cluster import running
from pytest_lmsv.cluster.ending import Joint
from pytest_lmsv.launch import environments
from pytest_lmsv.records import Stack
from tests_selftest.cluster.faults import FaultTable, Watched
from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.cluster.jobs import on_hosts, said
from tests_selftest.launch.awkward import until

pytestmark = pytest.mark.stacks

PTA = """
import torch, torch.distributed as dist, time
dist.init_process_group("gloo")
while True:
    x = torch.ones(1000); dist.all_reduce(x)
    if dist.get_rank() % 2 == 0:
        print("sum", x[0].item(), flush=True)
    time.sleep(0.2)
"""
MSA = """
import numpy as np, mindspore as ms, time
from mindspore import ops, Tensor
from mindspore.communication import init, get_rank
ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")
init()
reduce = ops.AllReduce()
while True:
    y = reduce(Tensor(np.ones(1000, np.float32)))
    print("sum", y.asnumpy()[0], flush=True)
    time.sleep(0.2)
"""
COMMANDS = {
    "pta": "torchrun --nnodes 2 --nproc-per-node 2 --node-rank {rank} --master-addr {master} "
    "--master-port 29511 job.py",
    "msa": "msrun --worker_num 4 --local_worker_num 2 --node_rank {rank} --master_addr {master} "
    "--master_port 29511 --log_dir msrun_log --join True --cluster_time_out 60 job.py",
}


def run(hosts: Hosts, stack: Stack, act: Callable[[], object]) -> Joint:
    """Start the launchers on both hosts, and *act* as soon as sums are printed on both."""
    environment = environments.ensure(stack, environments.default_folder())
    scripts = []
    for rank, host in enumerate(hosts):
        host.outside(f"{host.work}/job.py").write_text(PTA if stack == "pta" else MSA)
        command = COMMANDS[stack].format(rank=rank, master=hosts[0].address)
        variables = "GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1 GLOG_v=3 MS_ENABLE_HCCL=0"
        scripts.append(f"export PATH={environment.path}/bin:$PATH {variables}; exec {command}")

    def wait() -> None:
        if until(lambda: all("sum 4" in said(host) for host in hosts), 100):
            act()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        return running.run(on_hosts(hosts, scripts, time_limit=140.0, silence_limit=120.0))
    finally:
        thread.join()


def kill_worker(host: Host) -> None:
    """SIGKILL a process that the launcher started, which the launcher sees."""
    words = host.processes()
    os.kill(next(p for p, w in words.items() if w.endswith("job.py") and "run " not in w), 9)


def kill_run(host: Host) -> None:
    """SIGKILL the launcher and all workers at once; the machine itself stays."""
    for pid, words in host.processes().items():
        if words.endswith("job.py"):
            os.kill(pid, 9)


@pytest.mark.parametrize(
    ("stack", "fault", "act", "reason"),
    [
        ("pta", "a worker process is killed", kill_worker, "exit"),
        ("pta", "a node is killed", Host.kill, "lost"),
        pytest.param(
            "pta", "launcher and workers are killed", kill_run, "exit", marks=pytest.mark.slow
        ),
        pytest.param("pta", "a link goes down", Host.link_down, "lost", marks=pytest.mark.slow),
        pytest.param(
            "msa", "a worker process is killed", kill_worker, "exit", marks=pytest.mark.slow
        ),
        pytest.param("msa", "a node is killed", Host.kill, "lost", marks=pytest.mark.slow),
        pytest.param("msa", "a link goes down", Host.link_down, "lost", marks=pytest.mark.slow),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_the_other_node_ends_soon_and_the_culprit_is_named(
    hosts: Hosts,
    tmp_path: Path,
    fault_table: FaultTable,
    stack: Stack,
    fault: str,
    act: Callable[[Host], None],
    reason: str,
) -> None:
    measured: list[tuple[float, list[str]]] = []

    def do() -> None:
        watched = Watched(hosts)
        act(hosts[1])
        measured.append(watched.clean())

    found = run(hosts, stack, do)
    assert measured, "".join(said(host) for host in hosts)
    assert found.cause is not None
    assert (found.cause.node.name, found.reason) == (hosts[1].name, reason)
    assert found.exit_status != 0
    seconds, left = measured[0]
    fault_table.add(f"{fault} ({'torchrun' if stack == 'pta' else 'msrun'})", seconds, left)
