"""The doctor on the other machines of a campaign, by the system's own ssh.

Host keys are checked and no password is asked for. The other machine runs its own copy of this
package (LMSV_PATH of config.json), which needs nothing but Python for this.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import PurePosixPath

from pytest_lmsv.doctor.rows import Row, fail, from_json, ok
from pytest_lmsv.doctor.site import Site
from pytest_lmsv.task6_config import NodeConfig

LIMIT_S = 180.0


def checks(site: Site) -> Iterator[Row]:
    """The rows of every other machine, each under its name."""
    for node in site.nodes.other_nodes if site.nodes else ():
        yield from _node(site, node)


def command(site: Site, node: NodeConfig) -> list[str]:
    """The ssh call that runs the doctor on *node* and prints JSON."""
    words = ["doctor", "--json", "--this-machine", "--device", site.device]
    words += ["--pta-env", node.pta_name, "--msa-env", node.msa_name]
    code = node.mindspeed_mm_path or str(PurePosixPath(node.pta_path) / "MindSpeed-MM")
    words += ["--mindspeed-mm-path", code]
    # DATASET_ROOT is one path on all machines, as in Task6.
    for option, value in (("--dataset-root", site.dataset_root), ("--load-path", site.load_path)):
        if value is not None:
            words += [option, str(value)]
    for model in site.models:
        words += ["--model", model.name]
    remote = (
        f"cd {shlex.quote(node.lmsv_path)} && if command -v lmsv >/dev/null; then lmsv "
        f"{shlex.join(words)}; else PYTHONPATH=. python3 -c 'from pytest_lmsv.cli import main; "
        f"raise SystemExit(main())' {shlex.join(words)}; fi"
    )
    host = f"{node.user}@{node.host}" if node.user else node.host
    options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-p", str(node.ssh_port)]
    return ["ssh", *options, "--", host, remote]


def _node(site: Site, node: NodeConfig) -> Iterator[Row]:
    argv = command(site, node)
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        yield _named(node, fail("ssh", "no ssh program", "install OpenSSH's client"))
        return
    except subprocess.TimeoutExpired:
        yield _named(node, fail("ssh", f"no answer in {LIMIT_S:.0f} s", "look at the machine"))
        return
    try:
        values = json.loads(done.stdout)["rows"]
    except (ValueError, KeyError, TypeError):
        last = (
            done.stderr.strip() or done.stdout.strip() or f"exit {done.returncode}"
        ).splitlines()
        remedy = f"try by hand: {shlex.join(argv[:-1])} true"
        yield _named(node, fail("ssh", last[-1], remedy))
        return
    yield _named(node, ok("ssh", "answers"))
    yield from from_json(values, node.host)


def _named(node: NodeConfig, row: Row) -> Row:
    return Row(row.check, row.state, row.found, row.remedy, node.host)
