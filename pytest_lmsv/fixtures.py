"""The fixtures, and the exceptions that tests raise.

Session fixtures give environments and devices, which a project's own tests may use as well; the
function fixtures draw, launch and retry, and raise only :class:`Untested`, which pytest shows as
ERROR: could not be tested. What they find is judged in the test body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from pytest_lmsv.problems import EnvironmentProblem, InputProblem

if TYPE_CHECKING:
    from pytest_lmsv.campaign.campaign import Campaign
    from pytest_lmsv.campaign.iteration import Filled
    from pytest_lmsv.campaign.run import Runner
    from pytest_lmsv.catalog import ModelSpec
    from pytest_lmsv.cluster.cluster import Cluster
    from pytest_lmsv.launch.devices import DeviceSet, Lease
    from pytest_lmsv.launch.environments import StackEnvironment
    from pytest_lmsv.records import IterationRecord, RunRecord, Stack
    from pytest_lmsv.report.judgement import Judgement

    class Failed(Exception):
        """What pytest.fail raises, which mypy can't see as a class."""

        def __init__(self, msg: str, pytrace: bool = True) -> None: ...
else:
    Failed = pytest.fail.Exception


class Untested(EnvironmentProblem, Failed):
    """An EnvironmentProblem as pytest shows it: its own line, without a traceback of the plugin."""

    def __init__(self, problem: EnvironmentProblem) -> None:
        EnvironmentProblem.__init__(self, str(problem), problem.category)
        Failed.__init__(self, str(problem), pytrace=False)


class VerdictError(Failed):
    """A finding: its first line says all, for the dashboards that show only that."""

    def __init__(self, message: str) -> None:
        super().__init__(message, pytrace=False)


class KnownBug(Exception):
    """Known bugs cover every finding of the test, which carries a mark that expects them."""


@dataclass(frozen=True)
class Iteration:
    """One iteration of one model, which one test tests."""

    model: str
    number: int

    def __str__(self) -> str:
        return f"{self.model}-iter{self.number}"


@pytest.fixture
def iteration(request: pytest.FixtureRequest) -> Iteration:
    """The iteration that this test fills; parametrized by --model and --iters."""
    found: Iteration = request.param
    return found


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest) -> Campaign:
    """The session's campaign: its settings, its models and its folder."""
    from pytest_lmsv import session

    return session.campaign_of(request.config)


@pytest.fixture(scope="session")
def _lmsv_lease(request: pytest.FixtureRequest) -> Iterator[Lease]:
    from pytest_lmsv import machines, session
    from pytest_lmsv.launch import devices

    settings = session.settings_of(request.config)
    device = "cpu" if settings.controller else settings.device  # it steers: its NPUs are not used
    sets = machines.device_sets(request.config)
    say = session.say(request.config)
    try:
        with devices.lease(devices.default_folder(), sets, device, say=say) as leased:
            yield leased
    except EnvironmentProblem as problem:
        raise Untested(problem) from None


@pytest.fixture(scope="session")
def device_set(_lmsv_lease: Lease) -> DeviceSet:
    """The devices, ports and folders that this worker holds alone on this machine."""
    return _lmsv_lease.device_set


@pytest.fixture(scope="session")
def pta_env(request: pytest.FixtureRequest) -> StackEnvironment:
    """PTA's environment; ``pta_env.run(["script.py"])`` runs a script in it."""
    return _environment(request.config, "pta")


@pytest.fixture(scope="session")
def msa_env(request: pytest.FixtureRequest) -> StackEnvironment:
    """MSA's environment; ``msa_env.run(["script.py"])`` runs a script in it."""
    return _environment(request.config, "msa")


def _environment(config: pytest.Config, stack: Stack) -> StackEnvironment:
    from pytest_lmsv.report.stacks import environment

    try:
        return environment(config, stack)
    except EnvironmentProblem as problem:
        raise Untested(problem) from None


@pytest.fixture(scope="session")
def _lmsv_runner(
    request: pytest.FixtureRequest, campaign: Campaign, _lmsv_lease: Lease
) -> Iterator[Runner]:
    from pytest_lmsv import machines, session
    from pytest_lmsv.campaign.progress import Reporter
    from pytest_lmsv.campaign.run import Runner

    if campaign.settings.analyze is not None:
        raise Untested(EnvironmentProblem("an analysis runs nothing"))
    config, settings = request.config, campaign.settings
    steers = settings.controller and settings.device == "npu"  # its environments are elsewhere
    needed = set() if steers else set(settings.sides)
    environments = {stack: _environment(config, stack) for stack in needed}
    try:
        company = machines.company_of(config)
    except EnvironmentProblem as problem:
        raise Untested(problem) from None
    reporter = Reporter(campaign.folder, session.worker_name(config), session.say(config))
    yield Runner(
        settings,
        campaign.folder,
        _lmsv_lease,
        environments,
        reporter,
        session.bugs_of(config),
        company,
    )
    if company is not None:
        company.close()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """All machines of MULTI_NODE: ``cluster.run(["hostname"])``, ``.push``, ``.pull``."""
    from pytest_lmsv import machines, session
    from pytest_lmsv.cluster.cluster import Cluster

    nodes = machines.nodes_of(request.config)
    block = request.config.stash.get(session.MULTI_NODE, None)
    try:
        found = Cluster(nodes, block, session.settings_of(request.config).roots)
    except EnvironmentProblem as problem:
        raise Untested(problem) from None
    yield found
    found.close()


@dataclass(frozen=True)
class _Baseline:
    spec: ModelSpec
    filled: Filled | None
    stored: IterationRecord | None


@pytest.fixture
def _lmsv_baseline(
    request: pytest.FixtureRequest, iteration: Iteration, campaign: Campaign
) -> _Baseline:
    from pytest_lmsv import session

    spec = campaign.models[iteration.model]
    if campaign.settings.analyze is not None:
        try:
            found = campaign.record(iteration.model, iteration.number)
        except InputProblem as problem:
            raise Untested(EnvironmentProblem(str(problem))) from None
        if found is None or found.status != "DONE":
            _publish(request, iteration, campaign)
            raise Untested(EnvironmentProblem(found.reason if found else "no result is stored"))
        return _Baseline(spec, None, found)
    try:
        stored = campaign.stored(spec, iteration.number)
    except InputProblem as problem:
        raise Untested(EnvironmentProblem(str(problem))) from None
    if stored is not None:  # --lmsv-resume: its stored figures go through the same assertions
        return _Baseline(spec, None, stored)
    given = session.replayed_mutation(request.config)
    if given is not None:
        given = replace(given, iteration=iteration.number)
    try:
        runner: Runner = request.getfixturevalue("_lmsv_runner")
        return _Baseline(spec, campaign.baseline(runner, spec, iteration.number, given), None)
    except EnvironmentProblem as problem:
        campaign.untested(spec, iteration.number, problem)
        _publish(request, iteration, campaign)
        raise Untested(problem) from None
    except InputProblem as problem:
        raise Untested(EnvironmentProblem(str(problem))) from None


@pytest.fixture
def pta_run(_lmsv_baseline: _Baseline) -> RunRecord:
    """The baseline side's run, with a valid mutation that has effect."""
    if _lmsv_baseline.stored is not None:
        assert _lmsv_baseline.stored.baseline_run is not None
        return _lmsv_baseline.stored.baseline_run
    assert _lmsv_baseline.filled is not None
    return _lmsv_baseline.filled.run


@pytest.fixture
def _lmsv_record(
    request: pytest.FixtureRequest,
    iteration: Iteration,
    campaign: Campaign,
    _lmsv_baseline: _Baseline,
) -> IterationRecord:
    if _lmsv_baseline.stored is not None:
        record = _lmsv_baseline.stored
    else:
        assert _lmsv_baseline.filled is not None
        try:
            runner: Runner = request.getfixturevalue("_lmsv_runner")
            record = campaign.compare(runner, _lmsv_baseline.spec, _lmsv_baseline.filled)
        except EnvironmentProblem as problem:
            _publish(request, iteration, campaign)
            raise Untested(problem) from None
    _publish(request, iteration, campaign)
    if campaign.settings.locate and _lmsv_baseline.filled is not None:
        _locate(request, campaign, record)
    if campaign.settings.analyze is None:
        request.config.hook.pytest_lmsv_iteration_finished(config=request.config, record=record)
    return record


def _locate(request: pytest.FixtureRequest, campaign: Campaign, record: IterationRecord) -> None:
    """Say where the two sides differ first, where what is wrong was not located before."""
    from pytest_lmsv import session
    from pytest_lmsv.campaign import located

    told = located.for_new_signature(request.getfixturevalue("_lmsv_runner"), campaign, record)
    if told is not None:
        session.say(request.config)(told if told.startswith("lmsv") else f"lmsv {told}")
        request.node.user_properties.append(("lmsv.located", told))


@pytest.fixture
def msa_run(_lmsv_record: IterationRecord) -> RunRecord:
    """The compare side's run of the same mutation, whatever its outcome."""
    assert _lmsv_record.compare_run is not None
    return _lmsv_record.compare_run


@pytest.fixture
def judgement(
    request: pytest.FixtureRequest, campaign: Campaign, _lmsv_record: IterationRecord
) -> Judgement:
    """The verdicts of this iteration, and what decides whether the test passes."""
    from pytest_lmsv import session
    from pytest_lmsv.report.judgement import Judgement

    expected = session.expected_bugs(request.config, _lmsv_record.model)
    return Judgement(campaign, _lmsv_record, expected)


def _publish(request: pytest.FixtureRequest, iteration: Iteration, campaign: Campaign) -> None:
    """Give the test's report the stored iteration's figures, for JUnit, HTML and the terminal."""
    from pytest_lmsv.report.properties import properties

    request.node.user_properties.extend(properties(campaign, iteration.model, iteration.number))
