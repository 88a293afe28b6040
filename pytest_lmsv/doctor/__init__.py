"""``lmsv doctor``: looks at what would stop a campaign or spoil it, before anything runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from pytest_lmsv.doctor import ascend_checks, machine, nodes, packages
from pytest_lmsv.doctor.rows import Row, as_json, table
from pytest_lmsv.doctor.site import Site, of_folder, of_settings
from pytest_lmsv.problems import EnvironmentProblem

__all__ = ["Row", "Site", "checks", "demand", "main", "of_settings"]


def checks(site: Site, *, other_machines: bool = True) -> list[Row]:
    """All rows for *site*. Nothing is changed or started, but npu-smi, conda and ssh are asked."""
    rows: list[Row] = []
    if site.controller and site.nodes is not None:  # nothing runs here
        return [*machine.disk(site), *(nodes.checks(site) if other_machines else ())]
    if site.device == "npu":
        rows += packages.checks(site)
        for part in (
            ascend_checks.cann,
            ascend_checks.devices,
            ascend_checks.sources,
            ascend_checks.data,
        ):
            rows += part(site)
    else:
        rows += machine.cpu(site)
    for look in (machine.disk, machine.shared_memory, machine.ports):
        rows += look(site)
    if other_machines:
        rows += nodes.checks(site, tuple(rows))
    return rows


def demand(rows: Sequence[Row]) -> None:
    """Raise EnvironmentProblem where a FAIL stands among *rows*: a campaign begins with this."""
    failed = [row for row in rows if row.state == "FAIL"]
    if failed:
        told = "; ".join(
            f"{row.node + ': ' if row.node else ''}{row.check}: {row.found} ({row.remedy})"
            for row in failed
        )
        raise EnvironmentProblem(f"lmsv doctor: {told}")


def main(argv: Sequence[str]) -> int:
    """Print the table, or JSON; 1 where anything would stop a campaign, else 0."""
    parser = argparse.ArgumentParser(
        prog="lmsv doctor",
        description="Check this machine, and the others of MULTI_NODE, before a campaign. Options "
        "win over pytest's ini, and that over config.json of this folder.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--device", choices=("auto", "cpu", "npu"))
    parser.add_argument("--model", action="append", metavar="NAME", help="all, or models to check")
    parser.add_argument("--config", metavar="FILE")
    for name in ("pta-env", "msa-env", "mindspeed-mm-path", "dataset-root", "load-path", "output"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--save-weights", choices=("never", "abnormal", "always"))
    parser.add_argument(
        "--controller", action="store_true", help="this machine only steers (--lmsv-controller)"
    )
    parser.add_argument("--this-machine", action="store_true", help="leave the other machines out")
    options = parser.parse_args(argv)
    given = {**vars(options), "model": ",".join(options.model or ())}
    site = of_folder(Path.cwd(), given)
    rows = checks(site, other_machines=not options.this_machine)
    failed = any(row.state == "FAIL" for row in rows)
    if options.json:
        print(
            json.dumps({"device": site.device, "ok": not failed, "rows": as_json(rows)}, indent=2)
        )
    else:
        print(f"device: {site.device}")
        print(table(rows))
    return 1 if failed else 0
