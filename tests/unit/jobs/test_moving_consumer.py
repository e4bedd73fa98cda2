"""A consumer that leaves its cluster after a fault: when, with what, and what is confirmed of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import consume
import pytest
from brokerproof import clock
from brokerproof.checks import load_scenario
from brokerproof.clock import wait_until
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Position, Received

ROOT = Path(__file__).parents[3]
EU, US = "cluster-eu", "cluster-us"


class Clients:
    """Clients of one cluster, which has endless messages; closing those of eu takes for ever."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._numbers: Iterator[int] = iter(range(10**9))
        self.closed = threading.Event()

    def consumer(self, subscription: Any, name: str) -> Clients:
        assert subscription.replicated
        return self

    def receive(self, timeout_s: float) -> Received:
        threading.Event().wait(0.001)
        number = next(self._numbers)
        return Received(self.cluster, number, "k", 0, -1, Position(1, number, None), 0, 0, None, None)

    def acknowledge(self, received: Received) -> None:
        pass

    def close(self) -> None:
        if self.cluster == EU:
            threading.Event().wait()
        self.closed.set()


@pytest.fixture
def consumption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> consume.Consumption:
    scenario, topology = load_scenario(
        ROOT / "dags/scenarios/geo_replicated_subscription.yaml",
        ROOT / "topologies",
        {"workload.subscriptions.0.moves.after_s": 0.3},
    )
    run = Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario, topology=topology, addresses={})
    monkeypatch.setattr(consume, "clients_for", lambda run, cluster, region: Clients(cluster))
    return consume.Consumption(run, 0, consume.consumers_of(run)[0])


@pytest.fixture
def thread(consumption: consume.Consumption) -> Iterator[threading.Thread]:
    receiving = threading.Thread(target=consumption.receive_all, daemon=True)
    receiving.start()
    yield receiving
    consumption.stopping.set()


def test_it_goes_after_the_fault_and_its_time_and_does_not_wait_for_what_it_leaves(
    consumption: consume.Consumption, thread: threading.Thread
) -> None:
    wait_until(lambda: consumption.delivered > 5, timeout_s=10, what="messages of eu")
    consumption.leave_in_time()
    assert not consumption.leaving.is_set(), "no fault took effect"
    effective = clock.now_us()
    consumption.run.leave_state("effective-eu_destroyed", {"at": effective})
    while not consumption.leaving.is_set():
        consumption.leave_in_time()
    assert clock.now_us() - effective >= 0.3 * 1e6
    wait_until(lambda: consumption.cluster == US, timeout_s=10, what="the move")
    before = consumption.delivered
    wait_until(lambda: consumption.delivered > before + 5, timeout_s=10, what="messages of us")
    rows = list(consumption.unconfirmed)
    assert {(row["cluster"], row["producer"], row["incarnation"]) for row in rows} == {(EU, EU, 0), (US, US, 1)}
    assert [row["arrival"] for row in rows] == list(range(len(rows)))


def test_what_one_cluster_confirms_says_nothing_of_the_other(consumption: consume.Consumption) -> None:
    received_at = clock.now_us() - 1_000_000
    for cluster in (EU, US):
        consumption.unconfirmed.append(
            {"cluster": cluster, "partition": -1, "ledger_id": 1, "entry_id": 5, "received_at": received_at}
            | {"acknowledged_at": None}
        )
    consumption.confirmed, consumption.confirmed_at = (US, {-1: Position(1, 9, None)}), clock.now_us()
    assert consumption.take() == [], "the first waits for a confirmation of its own cluster"
    eu, us = consumption.take(last=True)
    assert eu["acknowledged_at"] is None
    assert us["acknowledged_at"] == consumption.confirmed_at
