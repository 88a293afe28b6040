"""Planted faults on real stacks: each does what it says, is caught, and is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_lmsv import catalog, data
from pytest_lmsv.cli import main
from pytest_lmsv.score import bank, caught, plan
from pytest_lmsv.score.bank import Fault
from pytest_lmsv.score.plan import Cell
from pytest_lmsv.score.rules import Pair, drifted
from pytest_lmsv.score.servers import Answer, Server, of_two_workers

if TYPE_CHECKING:
    from pytest_lmsv.launch.environments import StackEnvironment

HERE = Path(__file__).parent
MODELS = catalog.load([data.mm_configs()])
FAULTS = bank.load(HERE / "bank")
CELLS = caught.plan(HERE / "caught.yaml", MODELS, FAULTS).cells
ROUNDED = {"half", "bits", "hf32", "bfloat16"}
"""Words in the names of faults that round: what lies near the middle rounds either way."""
FEW = {"layer-norm-without-bias", "cache-position-one-late", "guidance-ignored", "beta2-default"}


def request(cell: Cell, fault: str = "", noise: int = 0) -> dict[str, Any]:
    """A run of the cell's configuration."""
    asked: dict[str, Any] = {
        "model": cell.model,
        "documents": cell.configurations[0].documents,
        "steps": 5,
        "seed": 43,
        "noise": noise,
    }
    return {**asked, "fault": fault} if fault else asked


@pytest.fixture(scope="module")
def servers(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """Both stacks, as processes that take runs."""
    folder = tmp_path_factory.mktemp("servers")
    both = tuple(Server(each, HERE, folder / each.stack) for each in (pta_env, msa_env))
    yield both[0], both[1]
    for server in both:
        server.close()


def assert_does_what_it_says(cell: Cell, runs: list[Answer]) -> None:
    """*runs*: clean and faulty PTA, faulty noise run of PTA, faulty MSA."""
    assert not [run["error"] for run in runs if "error" in run]
    clean, pta, noise, msa = runs
    planted = drifted(Pair(pta, noise, msa))
    assert planted.ratio is not None
    if ROUNDED & set(cell.fault.name.split("-")):
        seen = drifted(Pair(clean, clean, msa)).ratio
        assert seen is not None
        assert planted.ratio < max(seen, 1.0), planted.reason
    else:
        assert planted.result == "OK", planted.reason


def check(cell: Cell, servers: tuple[Server, Server]) -> None:
    pta, msa = servers
    name = cell.fault.name
    runs = [pta.ask(request(cell)), pta.ask(request(cell, name))]
    runs += [pta.ask(request(cell, name, noise=1)), msa.ask(request(cell, name))]
    assert_does_what_it_says(cell, runs)


@pytest.mark.stacks
@pytest.mark.parametrize(
    "cell", [c for c in CELLS if c.fault.name in FEW], ids=lambda cell: cell.fault.name
)
def test_a_fault_planted_on_both_stacks_makes_them_agree(
    cell: Cell, servers: tuple[Server, Server]
) -> None:
    check(cell, servers)


@pytest.mark.stacks
@pytest.mark.slow
@pytest.mark.parametrize(
    "cell",
    [c for c in CELLS if c.fault.name not in FEW and c.fault.workers == 1],
    ids=lambda cell: cell.fault.name,
)
def test_every_fault_planted_on_both_stacks_makes_them_agree(
    cell: Cell, servers: tuple[Server, Server]
) -> None:
    check(cell, servers)


@pytest.mark.stacks
@pytest.mark.slow
def test_faults_between_workers_planted_on_both_stacks_make_them_agree(
    pta_env: StackEnvironment, msa_env: StackEnvironment, tmp_path: Path
) -> None:
    cells = [cell for cell in CELLS if cell.fault.workers == 2]
    asked: list[dict[str, Any]] = []
    for cell in cells:
        name = cell.fault.name
        asked += [request(cell), request(cell, name), request(cell, name, noise=1)]
    pta, msa = (
        of_two_workers(each, HERE, tmp_path / each.stack, asked) for each in (pta_env, msa_env)
    )
    for place, cell in enumerate(cells):
        runs = [*pta[3 * place : 3 * place + 3], msa[3 * place + 1]]
        assert_does_what_it_says(cell, runs)


@pytest.mark.stacks
@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.equivalent], ids=lambda fault: fault.name
)
def test_an_equivalent_fault_shows_nowhere(fault: Fault, servers: tuple[Server, Server]) -> None:
    pta, msa = servers
    planned = plan.make(list(MODELS.values()), [fault], seed=43, configurations=2, clean=0)
    for cell in planned.cells:
        runs = [pta.ask(request(cell)), pta.ask(request(cell, noise=1))]
        runs.append(msa.ask(request(cell, fault.name)))
        seen = drifted(Pair(*runs))
        assert seen.result == "OK", f"{cell.model}: {seen.reason}"


@pytest.mark.stacks
def test_a_fault_is_gone_after_its_run(servers: tuple[Server, Server]) -> None:
    cell = next(cell for cell in CELLS if cell.model == "qwenvl")
    for server in servers:
        before = server.ask(request(cell))
        for name in ("softmax-half", "rotary-pairs", "rsqrt-12-bits", "mrope-by-time-only"):
            assert server.ask(request(cell, name))["logprobs"] != before["logprobs"], name
        after = server.ask(request(cell))
        assert after["logprobs"] == before["logprobs"]


@pytest.mark.stacks
def test_a_process_without_plants_can_not_be_made_to_plant(
    pta_env: StackEnvironment, tmp_path: Path
) -> None:
    cell = next(cell for cell in CELLS if cell.model == "qwenvl")
    server = Server(pta_env, tmp_path / "no plants", tmp_path)
    try:
        assert "No module named 'plants'" in server.ask(request(cell, "softmax-half"))["error"]
    finally:
        server.close()


@pytest.mark.stacks
def test_a_server_that_died_is_started_again(pta_env: StackEnvironment, tmp_path: Path) -> None:
    cell = next(cell for cell in CELLS if cell.model == "qwenvl")
    package = tmp_path / "plants"
    package.mkdir()
    package.joinpath("__init__.py").write_text(
        "import os\ndef planted(name):\n    os._exit(3)\n", encoding="utf-8"
    )
    server = Server(pta_env, tmp_path, tmp_path / "run")
    try:
        assert "exit status 3" in server.ask(request(cell, "x"))["error"]
        assert "token_ids" in server.ask(request(cell))
        assert server.restarts == 1
    finally:
        server.close()


@pytest.mark.stacks
def test_nothing_that_was_caught_once_is_missed(
    pta_env: StackEnvironment, msa_env: StackEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """CI's part of the score: one configuration of each fault with one worker."""
    alone = [cell.fault.name for cell in CELLS if cell.fault.workers == 1]
    places = ["--pta-env", str(pta_env.path), "--msa-env", str(msa_env.path)]
    status = main(["score", "--only-ci", *places, "--faults", *alone])
    said = capsys.readouterr().out
    assert status == 0, said
    assert "Missed by drift: 0." in said


@pytest.mark.stacks
def test_a_limit_that_is_too_wide_misses_and_the_status_says_so(
    pta_env: StackEnvironment, msa_env: StackEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--pta-env", str(pta_env.path), "--msa-env", str(msa_env.path)]
    wide = ["--limit", "factor=1e9", "--faults", "cache-half"]
    assert main(["score", "--only-ci", *places, *wide]) == 1
    assert "cache-half: at most" in capsys.readouterr().out
