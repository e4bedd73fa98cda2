"""Two real clusters that replicate to each other, and a run of the jobs on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from brokerproof import clock, lifecycle
from brokerproof.checks import load_scenario
from brokerproof.machine.files import write_whole
from brokerproof.run.directory import Run
from brokerproof.run.records import PhaseTimes, StepProblem, read_record, write_record
from brokerproof.settings import from_environment
from brokerproof.spark.submission import submit_locally
from builders import ROOT

from ..conftest import HERE, ConfiguredRun

EU, US = "cluster-eu", "cluster-us"
# Of Debian's package faketime.
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
# The steps of the wall clocks in seconds, by client: of the consumer in one cluster, and of the producer in the other.
STEPS = {"consume-0": -2, "load-1": 2}


@pytest.fixture(scope="package")
def geo(prepared: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfiguredRun]:
    """A configured `geo_replication`, with a topic for tests beside that of the jobs."""
    scenario, topology = load_scenario(
        ROOT / "dags" / "scenarios" / "geo_nominal.yaml",
        ROOT / "topologies",
        {
            "phases": {"steady_s": 4, "impact_s": 4, "recovery_s": 2},
            # One Spark task a producer, all at once, and a machine may have no more than two cores.
            "workload.producers": 1,
            "workload.rate": 200,
            "settle_s": 60,
            # Replication lags on a busy machine. These tests ask what becomes of the messages.
            "bounds": {"replication_lag_p99_ms": {"max": 60_000}},
        },
    )
    directory = tmp_path_factory.mktemp("geo") / "run"
    run = lifecycle.reserve(scenario, topology, directory=str(directory), run_id="geo")
    try:
        lifecycle.provision(run)
        lifecycle.configure(run)
        workload = run.scenario.workload.model_copy(update={"topic": "tests"})
        tests = Run.create(
            str(tmp_path_factory.mktemp("tests") / "run"),
            run_id="tests",
            scenario=run.scenario.model_copy(update={"workload": workload}),
            topology=run.topology,
            addresses=run.facts.addresses,
        )
        yield ConfiguredRun.from_runs(tests, run)
    finally:
        lifecycle.release(run)


def submit(run: Run, job: str, *arguments: str) -> None:
    submit_locally(from_environment(), job, [run.directory, *arguments])


def run_jobs(run: Run) -> Run:
    """A run without faults, from its load to its judgement."""
    failures: list[BaseException] = []

    def side_by_side(job: str) -> threading.Thread:
        def work() -> None:
            try:
                submit(run, job)
            except BaseException as error:
                failures.append(error)
                # Or else the timeline waits for a load that never comes.
                write_record(run, StepProblem(step=job, problem=str(error)))

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    threads = [side_by_side(job) for job in ("load", "consume")]
    lifecycle.break_it(run)
    for thread in threads:
        thread.join()
    assert not failures
    submit(run, "read_back")
    submit(run, "verify", "--expectations", str(ROOT / "expectations"))
    return run


@pytest.fixture(scope="package")
def judged(geo: ConfiguredRun, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the jobs without faults, from its load to its judgement.

    If libfaketime is here, the wall clocks of two clients step while the load is steady.
    """
    if FAKETIME is None:
        return run_jobs(geo.reserved)
    places = tmp_path_factory.mktemp("wall-clocks")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OWN_WALL_CLOCKS", str(places))
        environment.setenv("OWN_WALL_CLOCKS_LIBRARY", str(FAKETIME))
        path = os.pathsep.join([str(HERE / "own_wall_clocks"), os.environ.get("PYTHONPATH", "")])
        environment.setenv("PYTHONPATH", path)
        set_wall_clocks(places, dict.fromkeys(STEPS, 0))
        stepping = threading.Thread(target=step_wall_clocks, args=(geo.reserved, places), daemon=True)
        stepping.start()
        run = run_jobs(geo.reserved)
        stepping.join()
    return run


def step_wall_clocks(run: Run, places: Path) -> None:
    """Have the wall clocks step half-way through the load."""
    phases = clock.wait_until(lambda: read_record(run, PhaseTimes), timeout_s=300, what="the load to be steady")
    clock.wait_until(lambda: clock.now_us() > phases.impact_at, timeout_s=60, what="the middle of the load")
    set_wall_clocks(places, STEPS)


def set_wall_clocks(places: Path, ahead_s: Mapping[str, int]) -> None:
    """Say how many seconds the wall clock of each client is ahead."""
    for client, seconds in ahead_s.items():
        write_whole(places / client, f"{seconds:+d}")
