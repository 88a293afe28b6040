"""Machines for tests: network, PID, mount, UTS and IPC namespaces of this one, each with real sshd.

Each host has its own address on a bridge, processes, host name, /etc/hosts, /dev/shm and files:
what it writes lands in its own memory disk on top of this machine's root file system, which it
sees as it is (so the stacks' environments are there). The test process stays where it is and
reaches the hosts through the bridge's own address. Each host's root may log in on all others, so
that a pytest on one of them (``host.command``) can be the master: then no process of it sees
those of the others, as the test process does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

WORK = ("/shared/train", "/remote/train", "/data3/train", "/data4/train")
"""Each host's folder to work in: a different path on each."""
PROGRAMS = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "rsync": "rsync",
    "ip": "iproute2",
    "unshare": "util-linux",
}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"


def missing() -> str | None:
    """What this machine lacks to have hosts, with the remedy; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts are network namespaces: run the tests as root on Linux"
    path = f"{os.environ.get('PATH', '')}:{SBIN}"
    lacking = sorted({PROGRAMS[name] for name in PROGRAMS if shutil.which(name, path=path) is None})
    if lacking:
        return f"not installed: {', '.join(lacking)}; apt-get install {' '.join(lacking)}"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], check=False)
    if tried.returncode:
        return "this container may not make namespaces: run it with CAP_SYS_ADMIN and CAP_NET_ADMIN"
    return None


@dataclass
class Host:
    """One host. Paths are absolute and as the host sees them, unless said otherwise."""

    name: str
    address: str
    port: int
    work: str
    """Its folder to work in."""
    pid: int
    """Its first process (sshd), as this machine numbers it."""
    folder: Path

    def outside(self, path: str) -> Path:
        """The host's *path* as the test process can open it, while the host lives."""
        return Path(f"/proc/{self.pid}/root{path}")

    def command(self, *argv: str) -> list[str]:
        """The command line that runs *argv* on the host, without SSH; folder: ``work``."""
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-r"]
        return [*enter, f"--wd={self.outside(self.work)}", "env", "-i", path, "HOME=/root", *argv]

    def run(self, *argv: str) -> str:
        """What *argv* prints on the host; CalledProcessError if it fails."""
        return subprocess.run(
            self.command(*argv), capture_output=True, text=True, check=True
        ).stdout

    def processes(self) -> dict[int, str]:
        """All that runs on the host but its sshd: this machine's pid and the command line."""
        try:
            here = Path(f"/proc/{self.pid}/ns/pid").readlink()
        except OSError:
            return {}
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            try:
                if (entry / "ns" / "pid").readlink() != here:
                    continue
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                continue
            if words and not words.startswith(("sshd", "/usr/sbin/sshd")):
                found[int(entry.name)] = words
        return found

    def link_down(self) -> None:
        """Pull the cable: packets vanish, nothing is told to either side."""
        _ip("link", "set", f"{self.name}v", "down")

    def link_up(self) -> None:
        _ip("link", "set", f"{self.name}v", "up")

    def kill(self) -> None:
        """All its processes die at once; its network goes with them, after the farewells."""
        os.kill(self.pid, 9)

    def power_off(self) -> None:
        """As a machine without power: not even its kernel says good-bye."""
        self.link_down()
        self.kill()

    def fill_disk(self) -> None:
        """Leave no space on any path of the host that is not a bind; until :meth:`empty_disk`."""
        self._disk("1")  # less than is used: allowed only as what is used, so nothing is free

    def empty_disk(self, size_mb: int = 4096) -> None:
        self._disk(f"{size_mb}m")

    def _disk(self, size: str) -> None:
        disk = f"{self.folder}/disk"
        used = os.statvfs(self.outside("/"))
        if size == "1":
            size = str((used.f_blocks - used.f_bfree) * used.f_frsize)
        words = ["nsenter", "-t", str(self.pid), "-m", "mount", "-o", f"remount,size={size}", disk]
        subprocess.run(words, check=True, capture_output=True)

    def new_host_key(self) -> None:
        """A new host key for connections from now on, as after a new installation."""
        key = self.folder / "new_key"
        _keygen(key)
        for name in ("", ".pub"):
            target = self.outside(f"/etc/ssh/lmsv_host_key{name}")
            target.write_bytes(Path(f"{key}{name}").read_bytes())
        os.kill(self.pid, 1)  # sshd reads its configuration again, as the same process

    def set_clock(self, seconds: int) -> None:
        """Shift the clock for all that is started over SSH from now on, by libfaketime.

        Programs there see another time of day. What the kernel keeps (timers, the times that it
        gives to files) is not shifted: that part of a wrong clock is not shown.
        """
        library = faketime()
        assert library is not None, "install faketime"
        words = f"export LD_PRELOAD={library} FAKETIME={seconds:+d}s"
        self.outside("/root/.bashrc").write_text(f"{words}\n")  # sshd itself can't live with it


@dataclass
class Hosts:
    """The hosts of one test, and what a user of them has on the master."""

    members: list[Host]
    master: str
    """The test process's own address among them."""
    interface: str
    """The interface of that address."""
    home: Path
    """A HOME whose .ssh lets its user in on all hosts, and knows their keys."""
    slot: int
    keeper: subprocess.Popen[str] = field(repr=False)

    def __getitem__(self, index: int) -> Host:
        return self.members[index]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def key(self) -> Path:
        return self.home / ".ssh" / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.home / ".ssh" / "known_hosts"

    def close(self) -> None:
        """Remove all; nothing of the hosts is left when this returns."""
        assert self.keeper.stdin is not None
        self.keeper.stdin.close()
        self.keeper.wait(timeout=30)


@contextmanager
def hosts(
    folder: Path,
    count: int = 2,
    *,
    hidden: Sequence[Path] = (),
    binds: Sequence[Mapping[str, Path]] | None = None,
    size_mb: int = 4096,
) -> Iterator[Hosts]:
    """*count* hosts; ``home`` is made in *folder*.

    *hidden*: this machine's folders that the hosts must not see. *binds*: for each host, its path
    -> this machine's folder that it sees there (the same folder on several: a shared file system).
    """
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SBIN}"},
    )
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    spec = {
        "count": count,
        "work": WORK[:count],
        "size_mb": size_mb,
        "hidden": [str(path) for path in hidden],
        "binds": [
            {inside: str(outside) for inside, outside in seen.items()}
            for seen in (binds if binds is not None else [{}] * count)
        ],
    }
    with keeper:
        keeper.stdin.write(json.dumps(spec) + "\n")
        keeper.stdin.flush()
        line = keeper.stdout.readline()
        assert line, "the keeper of the hosts failed: see its message above"
        made = json.loads(line)
        place = Path(made["folder"])
        members = [Host(**host, folder=place / host["name"]) for host in made["hosts"]]
        home = _home(folder / "home", place)
        found = Hosts(members, made["master"], made["bridge"], home, made["slot"], keeper)
        try:
            yield found
        finally:
            found.close()


def faketime() -> str | None:
    """The library that shifts a host's clock; None if it is not installed."""
    found = sorted(Path("/").glob(FAKETIME.lstrip("/")))
    return str(found[0]) if found else None


def _home(home: Path, place: Path) -> Path:
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700, parents=True)
    shutil.copy(place / "user", ssh / "id_ed25519")
    shutil.copy(place / "user.pub", ssh / "id_ed25519.pub")
    shutil.copy(place / "known_hosts", ssh)
    return home


def _keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


def _ip(*words: str) -> None:
    program = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:{SBIN}") or "ip"
    subprocess.run([program, *words], check=True)
