"""Keeps the hosts of one test: makes them, and removes all of them when its stdin ends.

A program of its own, so that nothing is left when the test process is killed; the hosts die with
it as well (PR_SET_PDEATHSIG, unshare --kill-child), and what it leaves if it is killed itself is
found by the exact names of its slot by the next one that takes the slot.

stdin: one JSON line (count, work, size_mb, hidden, binds); then nothing until the end.
stdout: one JSON line: slot, folder, bridge, master, hosts [{name, address, port, work, pid}].
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PLACE = Path("/run/lmsv-hosts")
SLOTS = 100
READY_S = 20.0


def main() -> int:
    spec = json.loads(sys.stdin.readline())
    lock, slot = free_slot()
    bridge, folder = f"lmsv{slot}", PLACE / str(slot)
    remove(bridge, folder)
    hosts: list[subprocess.Popen[str]] = []
    try:
        made = make(spec, slot, bridge, folder, hosts)
        print(json.dumps(made), flush=True)
        sys.stdin.read()
    finally:
        for host in hosts:
            host.kill()  # its init dies with it, and with its init all processes of the host
        for host in hosts:
            host.wait()
        remove(bridge, folder)
        os.close(lock)
    return 0


def free_slot() -> tuple[int, int]:
    """A number that no other keeper holds and whose addresses nothing else uses."""
    PLACE.mkdir(parents=True, exist_ok=True)
    addresses = ip("-4", "-o", "address")
    for slot in range(SLOTS):
        lock = os.open(PLACE / f"{slot}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        others = [line for line in addresses.splitlines() if line.split()[1] != f"lmsv{slot}"]
        if not any(f" 10.77.{slot}." in line for line in others):
            return lock, slot
        os.close(lock)
    raise SystemExit(f"all {SLOTS} slots of {PLACE} are taken")


def make(
    spec: dict[str, Any], slot: int, bridge: str, folder: Path, hosts: list[subprocess.Popen[str]]
) -> dict[str, Any]:
    """Bridge, keys and hosts; each host's process is in *hosts* as soon as it is there."""
    Path("/run/sshd").mkdir(exist_ok=True)
    folder.mkdir(mode=0o755)
    master = f"10.77.{slot}.1"
    found = [
        {
            "name": f"lmsv{slot}h{k}",
            "address": f"10.77.{slot}.{10 + k}",
            "port": 2200 + k,
            "work": spec["work"][k - 1],
        }
        for k in range(1, spec["count"] + 1)
    ]
    ip("link", "add", bridge, "type", "bridge")
    ip("address", "add", f"{master}/24", "dev", bridge)
    ip("link", "set", bridge, "up")
    names = [f"{host['address']} {host['name']}" for host in found]
    names = ["127.0.0.1 localhost", f"{master} {socket.gethostname()}", *names]
    (folder / "hosts").write_text("\n".join(names) + "\n")
    makers = [key_maker(folder / "user")]
    for host in found:
        (folder / host["name"]).mkdir()
        makers.append(key_maker(folder / host["name"] / "key"))
    for maker in makers:
        if maker.wait():
            raise SystemExit("ssh-keygen failed")
    (folder / "known_hosts").write_text("".join(known(host, folder) for host in found))
    for host, binds in zip(found, spec["binds"], strict=True):
        hosts.append(start(host, folder / host["name"], binds, spec))
    for host, process in zip(found, hosts, strict=True):
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != "in\n":
            raise SystemExit(f"{host['name']}: {process.communicate()[1]}")
        link = f"{host['name']}v"
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
        ip("link", "set", link, "master", bridge, "up")
        process.stdin.write("go\n")
        process.stdin.close()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        host["pid"] = int(children[0])
    for host in found:
        wait_for_banner(host["address"], host["port"])
    return {"slot": slot, "folder": str(folder), "bridge": bridge, "master": master, "hosts": found}


def start(
    host: dict[str, Any], folder: Path, binds: dict[str, str], spec: dict[str, Any]
) -> subprocess.Popen[str]:
    (folder / "binds").write_text("".join(f"{a}\t{b}\n" for a, b in binds.items()))
    namespaces = ("--net", "--mount", "--pid", "--uts", "--ipc")
    return subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL", "unshare", *namespaces),
            *("--fork", "--kill-child", "--mount-proc", "--propagation", "private"),
            *("bash", str(Path(__file__).with_name("host.sh")), host["name"]),
            *(f"{host['address']}/24", str(host["port"]), str(folder), host["work"]),
            *(str(spec["size_mb"]), *spec["hidden"]),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )


def key_maker(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)])


def known(host: dict[str, Any], folder: Path) -> str:
    """The line of known_hosts that knows *host*."""
    kind, key = (folder / host["name"] / "key.pub").read_text().split()[:2]
    return f"[{host['address']}]:{host['port']} {kind} {key}\n"


def wait_for_banner(address: str, port: int) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        try:
            with socket.create_connection((address, port), timeout=1.0) as connection:
                if connection.recv(4) == b"SSH-":
                    return
        except OSError:
            pass
        time.sleep(0.02)
    raise SystemExit(f"no sshd on {address}:{port} after {READY_S:.0f} s")


def remove(bridge: str, folder: Path) -> None:
    """What is left of a slot by its own names; nothing if there is nothing."""
    if Path(f"/sys/class/net/{bridge}").exists():
        for link in Path(f"/sys/class/net/{bridge}/brif").iterdir():
            with contextlib.suppress(SystemExit):  # it goes with its host, too
                ip("link", "delete", link.name)
        ip("link", "delete", bridge)
    if folder.exists():
        shutil.rmtree(folder)


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
