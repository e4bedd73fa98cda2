"""What tests of real clusters share, and small clusters that tests break; larger ones have a directory of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from brokerproof.clock import wait_until
from brokerproof.run.directory import Run
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.systems.clients import Settled
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.pulsar.provisioning import PulsarProvisioning, find_distribution
from brokerproof.systems.pulsar.system import PulsarAdministration
from brokerproof.systems.registry import make_clients

HERE = Path(__file__).parent


@dataclass(frozen=True)
class ConfiguredRun:
    """A configured topology with the parts that Pulsar makes for its run, and its runtime."""

    run: Run
    provisioning: PulsarProvisioning
    administration: PulsarAdministration
    observation: PulsarObservation
    runtime: ProcessRuntime
    # The run that the nodes belong to; `run` may be a view of it with a topic for tests.
    reserved: Run

    @classmethod
    def from_runs(cls, run: Run, reserved: Run) -> ConfiguredRun:
        """Of a view of a run."""
        return cls(
            run=run,
            provisioning=PulsarProvisioning(run),
            administration=PulsarAdministration(run),
            observation=PulsarObservation(run),
            runtime=lifecycle.make_runtime(reserved),
            reserved=reserved,
        )


@pytest.fixture(scope="session")
def prepared() -> None:
    """As `run` does before its first scenario on a machine."""
    find_distribution("4.0.8").fetch(print)


@pytest.fixture
def reserve_small(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Reserves runs of the smallest topology; whatever they started is ended after the test."""
    runs: list[Run] = []

    def reserve(name: str = "run", **settings: Any) -> Run:
        scenario, topology = load_scenario(HERE / "smallest.yaml", HERE / "topologies", settings)
        run = lifecycle.reserve(scenario, topology, directory=str(tmp_path / name), run_id=name)
        runs.append(run)
        return run

    yield reserve
    for run in runs:
        lifecycle.release(run)


def publish(run: Run, cluster: str, producer_name: str, count: int) -> list[Settled]:
    """Publish to the run's topic and wait for every answer."""
    answers: list[Settled] = []
    clients = make_clients(run, cluster)
    try:
        producer = clients.producer(producer_name)
        for seq in range(count):
            producer.send(seq, "k0", b"x" * 100, answers.append)
        wait_until(lambda: len(answers) == count, timeout_s=30, what="all answers")
        producer.close()
    finally:
        clients.close()
    return answers
