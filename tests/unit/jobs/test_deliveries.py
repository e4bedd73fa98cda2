"""When a delivery is written, and with which confirmation of its ack."""

from __future__ import annotations

from brokerproof import clock
from brokerproof.systems.clients import Position, Received
from deliveries import ConfirmedAcks, Deliveries

from ..simulated_clock import SimulatedClock

EU, US = "cluster-eu", "cluster-us"


def received(number: int) -> Received:
    return Received("p", number, "k", 0, -1, Position(1, number), 0, 0, None, None)


def confirmed(cluster: str, end: int, at: int | None = None) -> ConfirmedAcks:
    return ConfirmedAcks(cluster=cluster, positions={-1: Position(1, end)}, at=at or clock.now_us())


def test_a_delivery_waits_for_the_confirmation_of_its_ack() -> None:
    deliveries = Deliveries(await_confirmation=True)
    for number in range(3):
        deliveries.add(received(number), cluster=EU, incarnation=0)
    assert deliveries.take() == []
    acks = confirmed(EU, 2)
    deliveries.confirm(acks)
    assert [(row["seq"], row["acknowledged_at"]) for row in deliveries.take()] == [(0, acks.at), (1, acks.at)]
    assert [(row["seq"], row["acknowledged_at"]) for row in deliveries.take(last=True)] == [(2, None)]


def test_what_one_cluster_confirms_says_nothing_of_the_other() -> None:
    deliveries = Deliveries(await_confirmation=True)
    for cluster in (EU, US):
        deliveries.add(received(5), cluster=cluster, incarnation=0)
    acks = confirmed(US, 9)
    deliveries.confirm(acks)
    assert deliveries.take() == [], "the first waits for a confirmation of its own cluster"
    assert [row["acknowledged_at"] for row in deliveries.take(last=True)] == [None, acks.at]


def test_a_confirmation_from_before_the_delivery_confirms_nothing() -> None:
    deliveries = Deliveries(await_confirmation=True)
    deliveries.confirm(confirmed(EU, 9, at=clock.now_us() - 1_000_000))
    deliveries.add(received(5), cluster=EU, incarnation=0)
    assert deliveries.take() == []


def test_it_does_not_wait_for_ever() -> None:
    time = SimulatedClock()
    deliveries = Deliveries(await_confirmation=True, time=time)
    deliveries.add(received(0), cluster=EU, incarnation=0)
    time.sleep(19)
    assert deliveries.take() == []
    time.sleep(2)
    assert [row["acknowledged_at"] for row in deliveries.take()] == [None]


def test_nothing_waits_where_the_system_confirms_no_ack() -> None:
    deliveries = Deliveries(await_confirmation=False)
    deliveries.add(received(0), cluster=EU, incarnation=0)
    assert [(row["arrival"], row["acknowledged_at"]) for row in deliveries.take()] == [(0, None)]
