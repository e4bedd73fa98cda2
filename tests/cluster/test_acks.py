"""What a consumer gets again if it acknowledged only a part of a batch, and what the cluster confirms meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from brokerproof.clock import wait_until
from brokerproof.experiment.workload import Acks, Client, Subscription
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Position
from brokerproof.systems.pulsar.observation import PulsarObservation
from brokerproof.systems.registry import make_clients

from .conftest import publish

CLUSTER = "small"
# All messages of the batch, of which the first four are acknowledged.
SIZE, ACKED = 10, 4
# A batch is sent only when it is full.
CLIENT = {"batching_messages": SIZE, "batching_delay_ms": 60_000}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, prepared: None) -> Iterator[Run]:
    """A cluster whose brokers keep acks of single messages of a batch."""
    here = Path(__file__).parent
    # The brokers store schemas of their own topics as their defaults say, and there is one bookie.
    copies = {f"managedLedgerDefault{name}": 1 for name in ("EnsembleSize", "WriteQuorum", "AckQuorum")}
    settings = {"settings.broker": {"acknowledgmentAtBatchIndexLevelEnabled": True, **copies}}
    scenario, topology = load_scenario(here / "smallest.yaml", here / "topologies", settings)
    run = lifecycle.reserve(scenario, topology, directory=str(tmp_path_factory.mktemp("runs") / "acks"), run_id="acks")
    try:
        lifecycle.provision(run)
        lifecycle.configure(run)
        yield run
    finally:
        lifecycle.release(run)


@pytest.mark.parametrize("acks", Acks)
@pytest.mark.parametrize(
    ("batch_index_acks", "again"), [(None, range(SIZE)), (True, range(ACKED, SIZE))], ids=["entries", "indexes"]
)
def test_a_batch_that_was_acknowledged_in_part_comes_again(
    cluster: Run, tmp_path: Path, acks: Acks, batch_index_acks: bool | None, again: range
) -> None:
    subscription = Subscription(name="audit", acks=acks)
    changes = {
        "topic": f"{acks}-{'indexes' if batch_index_acks else 'entries'}",
        "client": Client.model_validate(CLIENT | {"batch_index_acks": batch_index_acks}),
        "subscriptions": [subscription],
    }
    workload = cluster.scenario.workload.model_copy(update=changes)
    run = Run.create(
        str(tmp_path / "run"),
        run_id="acks",
        scenario=cluster.scenario.model_copy(update={"workload": workload}),
        topology=cluster.topology,
        addresses=cluster.facts.addresses,
    )
    clients, observation = make_clients(run, CLUSTER), PulsarObservation(run)

    def find_acknowledged() -> Position | None:
        return observation.find_acknowledged(CLUSTER, "audit").get(-1)

    try:
        (entry,) = {answer.position[:2] for answer in publish(run, CLUSTER, "p0", SIZE) if answer.position}
        consumer = clients.consumer(subscription, "c0")
        messages = [consumer.receive(30) for _ in range(SIZE)]
        for message in messages[:ACKED] if acks is Acks.INDIVIDUAL else messages[ACKED - 1 : ACKED]:
            consumer.acknowledge(message)
        # It sends its acks when it is closed.
        consumer.close()
        consumer = clients.consumer(subscription, "c1")
        # The second batch shows that no more of the first one comes.
        publish(run, CLUSTER, "p1", SIZE)
        come = [consumer.receive(30) for _ in range(len(again) + SIZE)]
        columns = clients.describe(come)
        assert list(columns["producer"]) == ["p0"] * len(again) + ["p1"] * SIZE
        assert columns["seq"].to_pylist()[: len(again)] == list(again)
        # The entry is not confirmed: it is the first one of which something is not acknowledged.
        found = find_acknowledged()
        assert found is not None
        assert found[:2] <= entry
        for message in come if acks is Acks.INDIVIDUAL else come[-1:]:
            consumer.acknowledge(message)
        end = observation.find_logs(CLUSTER)[0].end
        assert end is not None
        wait_until(lambda: (at := find_acknowledged()) is not None and at.reaches(end), timeout_s=30, what="the acks")
        consumer.close()
    finally:
        clients.close()
