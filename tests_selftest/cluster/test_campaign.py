"""Campaigns over hosts from the outside, with a toy model that takes no time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

from tests_selftest.cluster import hosts as machines
from tests_selftest.cluster.conftest import unavailable
from tests_selftest.cluster.hosts import Host, Hosts
from tests_selftest.cluster.toys import Toy, toy
from tests_selftest.launch.awkward import until

AGENT = "The agent: a program"
"""What the command line of a machine's agent shows."""


def left(hosts: Hosts) -> list[str]:
    """What runs on the hosts, and what lies in their folders but for what was brought there."""
    found = [words for host in hosts for words in host.processes().values()]
    for host in hosts:
        top = host.outside(host.work)
        found += [str(path) for path in top.glob("output/*")]
    return found


def environments(folder: Path, host: Host) -> list[dict[str, str]]:
    """What the two ranks of PTA had in their environment."""
    second = folder / "samples/pta" / host.address / "environment_1.json"
    first = folder / "samples/pta/environment_0.json"
    return [json.loads(path.read_text()) for path in (first, second)]


def test_a_run_is_one_over_all_hosts(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts)
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (host.address for host in hosts)
    assert f"2 machines: {first}, {second}; this machine steers" in done.stdout
    stored = json.loads((project.campaign / "campaign.json").read_text())
    assert stored["nodes"] == [first, second]
    record = project.record()
    for side in ("baseline_run", "compare_run"):
        run = record[side]
        assert (run["nodes"], run["outcome"], run["complete"]) == (2, "ok", True)
        assert [node["name"] for node in run["per_node"]] == [first, second]
        assert run["metrics"]["memory_mb"] == 101.0  # the highest of all ranks
        assert len(run["metrics"]["losses"]) == 2  # printed by the last rank, on the second host
    logs = project.iteration / "runtime_logs"
    assert "iteration" in (logs / f"pta_verify_iter1.{second}.log").read_text()
    assert "iteration" not in (logs / "pta_verify_iter1.log").read_text()
    assert left(hosts) == []

    zero, one = environments(project.iteration, hosts[1])
    assert (zero["MASTER_ADDR"], one["MASTER_ADDR"]) == (first, first)
    assert zero["MASTER_PORT"] == one["MASTER_PORT"]
    assert 20000 <= int(zero["MASTER_PORT"]) < 32768
    for rank, (found, host) in enumerate(zip((zero, one), hosts, strict=True)):
        wanted = {
            "NNODES": "2",
            "NODE_RANK": str(rank),
            "NPUS_PER_NODE": "1",
            "HCCL_IF_IP": host.address,
            "HCCL_SOCKET_IFNAME": "eth0",
            "GLOO_SOCKET_IFNAME": "eth0",
            "HCCL_CONNECT_TIMEOUT": "1200",
            "ENABLE_OVERLAP": "",
        }
        assert {name: found[name] for name in wanted} == wanted
        assert found["LMSV_RUN_DIR"].startswith(f"{host.work}/output/")
        assert found["MM_MODEL"].startswith(f"{host.work}/output/")
        assert "HCCL_IF_BASE_PORT" in found
    assert zero["LMSV_RUN_ID"].endswith(".n0")
    assert one["LMSV_RUN_ID"] == zero["LMSV_RUN_ID"][:-1] + "1"


def test_what_a_login_exports_does_not_reach_a_run(hosts: Hosts, tmp_path: Path) -> None:
    names = ["PYTHONSTARTUP", "LMSV_NOISE_RUN", "LMSV_FOO", "LOAD_PATH", "SAVE_PATH", "PTA_NAMES"]
    words = " ".join(f"{name}=/leak" for name in names)
    project = toy(tmp_path / "project", hosts)
    hosts[1].outside("/root/.bashrc").write_text(f"export {words}\n")
    assert project.run().returncode == 0
    found = environments(project.iteration, hosts[1])[1]
    assert [name for name, text in found.items() if text == "/leak"] == ["PTA_NAMES"]


def test_machines_that_see_each_others_processes_do_not_end_each_others_runs(
    hosts: Hosts, tmp_path: Path
) -> None:
    """As with docker --pid=host; here one host under two names."""
    stay_then_work = "time.sleep(2.0 * RANK)  # rank 0 ends while rank 1 works"
    project = toy(tmp_path / "project", hosts)
    script = project.folder / "scripts/toy_node.py"
    text = script.read_text()
    wait = 'time.sleep(float(MODEL.get("seconds", 0)))'
    assert wait in text
    script.write_text(text.replace(wait, stay_then_work))
    settings = json.loads((project.folder / "nodes.yaml").read_text())
    several = settings["MULTI_NODE"]
    first = several["OTHER_NODES"][0]
    again = {"HOST": f"root@::ffff:{hosts[0].address}", "LMSV_PATH": f"{first['LMSV_PATH']}/again"}
    several |= {"OTHER_NODES": [first, {**first, **again}], "SSH_HOST_KEYS": "accept-new"}
    (project.folder / "nodes.yaml").write_text(json.dumps(settings))
    hosts[0].run("mkdir", "-p", again["LMSV_PATH"])
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    for side in ("baseline_run", "compare_run"):
        assert [node["exit_status"] for node in project.record()[side]["per_node"]] == [0, 0]


def test_the_host_that_failed_first_is_the_cause(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, {"msa0": "peer lost", "msa1": "raise"})
    done = project.run()
    assert done.returncode == 1
    run = project.record()["compare_run"]
    assert (run["error"]["type"], run["error"]["message"]) == (
        "RuntimeError",
        "planted on this machine",
    )
    assert run["error"]["node"] == hosts[1].address
    assert [node["is_cause"] for node in run["per_node"]] == [False, True]
    assert f"on {hosts[1].address}" in done.stdout
    report = (project.iteration / "report.md").read_text()
    assert f"- msa, rank 1, {hosts[1].address}: exit 1, failed first" in report
    assert left(hosts) == []


def test_a_host_that_fails_while_another_stays_ends_the_run(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, {"msa0": "stay", "msa1": "raise"})
    assert project.run().returncode == 1
    run = project.record()["compare_run"]
    assert (run["outcome"], run["error"]["node"]) == ("error", hosts[1].address)
    assert run["per_node"][0]["reason"] == "interrupted"
    assert run["seconds"] < 20
    assert left(hosts) == []


def test_a_host_that_failed_is_not_outvoted_by_one_that_did_all(
    hosts: Hosts, tmp_path: Path
) -> None:
    project = toy(tmp_path / "project", hosts, {"msa0": "raise"})
    assert project.run().returncode == 1
    run = project.record()["compare_run"]
    assert len(run["metrics"]["losses"]) == 2
    assert (run["outcome"], run["error"]["message"]) == ("error", "planted on this machine")
    assert run["error"]["node"] == hosts[0].address


def test_a_host_that_ends_well_without_work_is_not_outvoted_either(
    hosts: Hosts, tmp_path: Path
) -> None:
    project = toy(tmp_path / "project", hosts, {"msa0": "idle"})
    assert project.run().returncode == 1
    run = project.record()["compare_run"]
    assert (run["outcome"], run["error"]["category"]) == ("error", "incomplete")
    assert (run["error"]["rank"], run["error"]["node"]) == (0, hosts[0].address)


def test_a_second_try_finds_nothing_of_the_first(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, {"msa1": "killed once"})
    done = project.run("--lmsv-save-weights=always", "--lmsv-fetch-weights")
    assert done.returncode == 0, done.stdout
    first = project.iteration / "evidence" / "msa" / "try1"
    assert (first / "record" / "rank_0.json").is_file()
    assert (project.iteration / "record" / "msa" / "rank_0.json").is_file()
    for host in hosts:
        assert (project.iteration / "weights" / "msa" / host.address).is_dir()


def test_a_host_of_which_nothing_comes_back_is_lost(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, seconds=2.0)
    with project.start() as process:
        try:
            for _ in range(2):  # it is tried once more
                assert until(lambda: bool(running(hosts[1], "msa")), 60)
                agents = [p for p, words in hosts[1].processes().items() if AGENT in words]
                for pid in agents:
                    os.kill(pid, signal.SIGKILL)
                assert until(lambda: not running(hosts[1], "msa"), 60)
            output, _ = process.communicate(timeout=90)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "nothing came back" in output
    assert "could not be tested" in output


def test_a_lost_host_is_an_error_and_not_a_finding(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, {"msa0": "stay", "msa1": "stay"})
    with project.start() as process:
        try:
            assert until(lambda: bool(running(hosts[1], "msa")), 60)
            hosts[1].kill()
            output, _ = process.communicate(timeout=90)
        finally:
            process.kill()
    assert "could not be tested" in output
    assert "the connection was lost" in output or "no answer" in output
    assert hosts[1].address in output
    assert process.returncode == 1
    assert until(lambda: not hosts[0].processes(), 10)


def running(host: Host, stack: str) -> list[str]:
    return [words for words in host.processes().values() if f"toy_node.py {stack}" in words]


def test_names_of_a_host_are_not_trusted(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, {"pta0": "hostile", "pta1": "hostile"})
    done = project.run()
    assert done.returncode == 0, done.stdout
    links = [path for path in project.campaign.rglob("*") if path.is_symlink()]
    assert links == []
    names = {path.name for path in (project.iteration / "samples").rglob("*") if path.is_file()}
    assert names == {"environment_0.json", "environment_1.json"}
    notes = [note["text"] for note in project.record()["baseline_run"]["notes"]]
    assert any("'run/samples/a\\nb' is no safe name" in note for note in notes)
    assert any("'run/record/rank_7.json' is no regular file" in note for note in notes)
    assert any("'run/samples/out' is no regular file" in note for note in notes)


def test_a_clock_that_is_an_hour_off_changes_nothing(hosts: Hosts, tmp_path: Path) -> None:
    if machines.faketime() is None:
        unavailable("libfaketime is not installed: apt-get install faketime")
    # For what is started over ssh; sshd itself does not live with a shifted clock.
    shifted = f"export LD_PRELOAD={machines.faketime()} FAKETIME=-3600s\n"
    hosts[1].outside("/root/.bashrc").write_text(shifted)
    project = toy(tmp_path / "project", hosts)
    done = project.run()
    assert done.returncode == 0, done.stdout
    assert project.record()["baseline_run"]["notes"] == []


def test_hosts_that_share_their_folder_write_side_by_side(
    can_have_hosts: None, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    binds = [{"/nfs/a": tmp_path / "shared"}, {"/nfs/b": tmp_path / "shared"}]
    with machines.hosts(tmp_path, binds=binds) as found:
        project = toy(tmp_path / "project", found, work=["/nfs/a", "/nfs/b"])
        done = project.run(iters=2)
        assert done.returncode == 0, done.stdout
        zero, one = environments(project.iteration, found[1])
        assert zero["LMSV_RUN_DIR"].startswith("/nfs/a/")
        assert one["LMSV_RUN_DIR"].startswith("/nfs/b/")
        parts = [Path(e["LMSV_RUN_DIR"]).relative_to(Path(e["LMSV_RUN_DIR"]).parents[-3])
                 for e in (zero, one)]  # fmt: skip
        assert parts[0] != parts[1]
        assert len(list((tmp_path / "shared/.lmsv").glob("launchers-*"))) == 1
        assert not list((tmp_path / "shared/.lmsv").glob(".*"))
        assert not list((tmp_path / "shared/output").iterdir())
        assert "share" in done.stdout


def test_two_campaigns_at_once_do_not_meet(hosts: Hosts, tmp_path: Path) -> None:
    projects = [toy(tmp_path / name, hosts, seconds=0.5) for name in ("a", "b")]
    processes = [project.start() for project in projects]
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
    ports = {environments(p.iteration, hosts[1])[0]["MASTER_PORT"] for p in projects}
    assert len(ports) == 2
    assert left(hosts) == []


def test_weights_stay_on_the_hosts(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts)
    assert project.run("--lmsv-save-weights=always").returncode == 0
    assert not list(project.campaign.rglob("part_*"))
    for rank, host in enumerate(hosts):
        kept = list(host.outside(host.work).glob("output/*/*/toy/iter1/*/weights/*"))
        assert [path.name for path in kept] == [f"part_{rank}"] * 2
    fetched = project.run("--lmsv-save-weights=always", "--lmsv-fetch-weights")
    assert fetched.returncode == 0
    names = [host.address for host in hosts]
    places = [project.iteration / f"weights/msa/{n}/part_{k}" for k, n in enumerate(names)]
    assert all(path.read_text() == "weights" for path in places)


def test_killing_pytest_leaves_nothing(hosts: Hosts, tmp_path: Path) -> None:
    project = toy(tmp_path / "project", hosts, {"pta0": "stay", "pta1": "stay"})
    with project.start() as process:
        assert until(lambda: all(running(host, "pta") for host in hosts), 60)
        process.kill()
        began = time.monotonic()
        assert until(lambda: not any(host.processes() for host in hosts), 12)
        assert time.monotonic() - began < 12


def on_npu(project: Toy, hosts: Hosts) -> Toy:
    """The same on two machines with two NPUs each, of which a run takes both."""
    model = project.folder / "models/toy"
    shutil.copytree(model / "cpu", model / "npu")
    text = (model / "model.yaml").read_text()
    text = text.replace("{cpu: toy.py}", "{cpu: toy.py, npu: toy.py}")
    (model / "model.yaml").write_text(
        text.replace("  cpu: {dev", "  npu: {devices: 2, tp: 1, pp: 1, cp: 1}\n  cpu: {dev")
    )
    config = json.loads((project.folder / "nodes.yaml").read_text())
    for entry, host in zip(config["MULTI_NODE"]["OTHER_NODES"], hosts, strict=True):
        entry.update(PTA_NAME="mindspeed", MSA_NAME="msadapter", PTA_PATH=f"/ws{host.name}",
                     MSA_PATH="/msws", MINDSPEED_MM_PATH=f"/mm{host.name}")  # fmt: skip
        login = "export ASCEND_RT_VISIBLE_DEVICES=4,5\n"
        host.outside("/root/.bashrc").write_text(login)
    (project.folder / "nodes.yaml").write_text(json.dumps(config))
    return project


def test_npus_of_all_machines_are_held_by_one_campaign(hosts: Hosts, tmp_path: Path) -> None:
    projects = [on_npu(toy(tmp_path / n, hosts, seconds=1.0), hosts) for n in ("a", "b")]
    options = ("--lmsv-device=npu", "--lmsv-gate=accuracy", "-s")
    processes = [project.start(*options) for project in projects]
    outputs = []
    for process in processes:
        output, _ = process.communicate(timeout=180)
        assert process.returncode == 0, output
        outputs.append(output)
    assert sum("waiting for NPUs of" in output for output in outputs) == 1
    spans = []
    for project in projects:
        for rank, found in enumerate(environments(project.iteration, hosts[1])):
            wanted = {
                "ASCEND_RT_VISIBLE_DEVICES": "4,5",
                "NPUS_PER_NODE": "2",
                "HCCL_IF_BASE_PORT": "61064",
                "PTA_NAME": "mindspeed",
                "WORKSPACE_ROOT": f"/ws{hosts[rank].name}",
                "MINDSPEED_MM_PATH": f"/mm{hosts[rank].name}",
                "LOAD_PATH": "",
            }
            assert {name: found[name] for name in wanted} == wanted
            assert "LMSV_ENV" not in found
        times = [path.stat().st_mtime for path in project.iteration.rglob("rank_*.json")]
        spans.append((min(times), max(times)))
    spans.sort()
    assert spans[0][1] <= spans[1][0]
