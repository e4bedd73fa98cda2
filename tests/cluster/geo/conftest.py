"""Two real clusters that replicate to each other, and a run of the jobs on them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from brokerproof import lifecycle
from brokerproof.run.directory import Run
from brokerproof.run.records import StepProblem, write_record
from brokerproof.settings import from_environment
from brokerproof.spark.submission import submit_locally

from ..conftest import ROOT, ConfiguredRun

EU, US = "cluster-eu", "cluster-us"


@pytest.fixture(scope="package")
def geo(prepared: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfiguredRun]:
    """A configured `geo_replication`, with a topic for tests beside that of the jobs."""
    run = lifecycle.reserve(
        ROOT / "dags" / "scenarios" / "geo_nominal.yaml",
        directory=str(tmp_path_factory.mktemp("geo") / "run"),
        run_id="geo",
        topologies=ROOT / "topologies",
        overrides={
            "phases": {"steady_s": 4, "impact_s": 4, "recovery_s": 2},
            # One Spark task a producer, all at once, and a machine may have no more than two cores.
            "workload.producers": 1,
            "workload.rate": 200,
            "settle_s": 60,
        },
    )
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
def judged(geo: ConfiguredRun) -> Run:
    """A run of the jobs without faults, from its load to its judgement."""
    return run_jobs(geo.reserved)
