"""A consumer: when it leaves its cluster after a fault, and how it waits until the cluster confirms its acks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from brokerproof import clock
from brokerproof.clients import consuming
from brokerproof.clients.consuming import MovingConsumer, consume, plan_consumers
from brokerproof.clients.record import RecordReader
from brokerproof.clock import wait_until
from brokerproof.errors import AdminError, RunError
from brokerproof.run.live_status import read_live_status
from brokerproof.run.records import ConsumerEnd, ConsumersStop, EarlyEnd, FaultEffective, read_record, write_record
from brokerproof.systems.clients import Position, Received, list_columns
from builders import make_run

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

EU, US = "cluster-eu", "cluster-us"


class Clients:
    """Clients of one cluster, which has endless messages; closing those of eu takes for ever."""

    describe = staticmethod(list_columns)

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._numbers: Iterator[int] = iter(range(10**9))
        self.closed = threading.Event()

    def consumer(self, subscription: Any, name: str) -> Clients:
        assert subscription.replicated
        return self

    def receive(self, timeout_s: float) -> Received | None:
        threading.Event().wait(0.001)
        number = next(self._numbers)
        return Received(self.cluster, number, "k", 0, -1, Position(1, number, None), 0, 0, None)

    def acknowledge(self, received: Received) -> None:
        pass

    def close(self) -> None:
        if self.cluster == EU:
            threading.Event().wait()
        self.closed.set()


@pytest.fixture
def consumer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MovingConsumer:
    plant_system(monkeypatch, PlantedSystem(clients=Clients))
    run = make_run(
        tmp_path / "run", "geo_replicated_subscription", {"workload.subscriptions.0.moves.after_s": 0.3, **ON_PLANTED}
    )
    return MovingConsumer(run, plan_consumers(run)[0])


@pytest.fixture
def thread(consumer: MovingConsumer) -> Iterator[threading.Thread]:
    receiving = threading.Thread(target=consumer.receive_all, daemon=True)
    receiving.start()
    yield receiving
    consumer.stopping.set()


def test_it_goes_after_the_fault_and_its_time_and_does_not_wait_for_what_it_leaves(
    consumer: MovingConsumer, thread: threading.Thread
) -> None:
    wait_until(lambda: consumer.deliveries.count > 5, timeout_s=10, what="messages of eu")
    consumer.leave_in_time()
    assert not consumer.leaving.is_set(), "no fault took effect"
    effective = clock.now_us()
    write_record(consumer.run, FaultEffective(fault="eu_destroyed", at=effective))
    while not consumer.leaving.is_set():
        consumer.leave_in_time()
    assert clock.now_us() - effective >= 0.3 * 1e6
    wait_until(lambda: consumer.cluster == US, timeout_s=10, what="the move")
    before = consumer.deliveries.count
    wait_until(lambda: consumer.deliveries.count > before + 5, timeout_s=10, what="messages of us")
    rows = consumer.deliveries.take()[0].to_pylist()
    assert {(row["cluster"], row["producer"], row["incarnation"]) for row in rows} == {(EU, EU, 0), (US, US, 1)}
    assert [row["arrival"] for row in rows] == list(range(len(rows)))


def test_a_consumer_shows_when_it_has_subscribed(consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
    run, task = consumer.run, consumer.task
    admitted = threading.Event()

    class Late(Clients):
        def consumer(self, subscription: Any, name: str) -> Clients:
            admitted.wait()
            return self

        def close(self) -> None:
            pass

    plant_system(monkeypatch, PlantedSystem(clients=Late))
    monkeypatch.setattr(consuming, "_SHOW_EVERY_S", 0.0)
    thread = threading.Thread(target=consume, args=(run, task), daemon=True)
    thread.start()
    is_subscribed = lambda: read_live_status(run, task.client).get("subscribed")  # noqa: E731
    wait_until(lambda: is_subscribed() is False, timeout_s=10, what="a status")
    admitted.set()
    wait_until(is_subscribed, timeout_s=10, what="the subscription")
    write_record(run, EarlyEnd(why="enough", at=clock.now_us()))
    thread.join()


class NotAnsweringError(Exception):
    """What a client raises whose cluster does not answer."""


def move_to_a_cluster_that_answers_at_attempt(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch, which: float
) -> list[str]:
    """Let the consumer move; the list of the attempts to subscribe grows."""
    attempts: list[str] = []

    class Late(Clients):
        def consumer(self, subscription: Any, name: str) -> Clients:
            attempts.append(self.cluster)
            if self.cluster == US and attempts.count(US) < which:
                raise NotAnsweringError("no answer in 3 s")
            return self

    plant_system(monkeypatch, PlantedSystem(clients=Late))
    monkeypatch.setattr(consuming, "_SUBSCRIBE_EVERY_S", 0.01)
    threading.Thread(target=consumer.receive_all, daemon=True).start()
    consumer.leaving.set()
    return attempts


def test_a_consumer_that_moves_tries_until_the_cluster_answers(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = move_to_a_cluster_that_answers_at_attempt(consumer, monkeypatch, 4)
    wait_until(lambda: consumer.deliveries.count > 5, timeout_s=10, what="messages of us")
    consumer.stopping.set()
    assert attempts == [EU, US, US, US, US]
    assert consumer.error is None


@pytest.mark.parametrize(("epoch", "standby", "attempts"), [(0, False, 1), (1, False, 4), (0, True, 4)])
def test_a_consumer_that_a_fault_starts_tries_until_the_cluster_answers(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch, epoch: int, standby: bool, attempts: int
) -> None:
    made: list[str] = []

    class Late(Clients):
        def consumer(self, subscription: Any, name: str) -> Clients:
            made.append(name)
            if len(made) < 4:
                raise NotAnsweringError("no answer in 3 s")
            return self

    plant_system(monkeypatch, PlantedSystem(clients=Late))
    monkeypatch.setattr(consuming, "_SUBSCRIBE_EVERY_S", 0.01)
    started = MovingConsumer(consumer.run, replace(consumer.task, standby=standby), epoch=epoch)
    threading.Thread(target=started.receive_all, daemon=True).start()
    wait_until(lambda: started.deliveries.count > 5 or started.error is not None, timeout_s=10, what="messages")
    started.stopping.set()
    assert len(made) == attempts
    assert isinstance(started.error, NotAnsweringError) == (attempts == 1)


def test_a_cluster_that_never_answers_a_move_is_told_at_the_end(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = move_to_a_cluster_that_answers_at_attempt(consumer, monkeypatch, float("inf"))
    wait_until(lambda: len(attempts) > 3, timeout_s=10, what="attempts")
    assert consumer.error is None
    consumer.stopping.set()
    wait_until(lambda: consumer.error is not None, timeout_s=10, what="the error")
    assert isinstance(consumer.error, NotAnsweringError)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_consumer_that_may_still_receive_at_its_end_leaves_no_count(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    run, task = consumer.run, consumer.task

    class ThreeMessages(Clients):
        def receive(self, timeout_s: float) -> Received:
            received = super().receive(timeout_s)
            if (received.seq or 0) < 3:
                return received
            write_record(run, EarlyEnd(why="break_it failed", at=clock.now_us()))
            if hangs:
                threading.Event().wait()
            return None  # type: ignore[return-value]

        def close(self) -> None:
            pass

    plant_system(monkeypatch, PlantedSystem(clients=ThreeMessages))
    monkeypatch.setattr(consuming, "_EARLY_CLOSE_S", 0.1 if hangs else 10.0)
    consume(run, task)
    end = read_record(run, ConsumerEnd, task.number)
    assert end is not None
    assert end.delivered == (None if hangs else 3)
    # What it received until then is recorded.
    record = RecordReader(run, task.client, epoch=0)
    assert sum(segment.rows.num_rows for segment in record.read_rest()) == 3


def test_messages_that_cannot_be_described_are_a_problem_of_the_consumer(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, task = consumer.run, consumer.task

    class Undescribed(Clients):
        def receive(self, timeout_s: float) -> Received | None:
            write_record(run, ConsumersStop(at=clock.now_us()))
            received = super().receive(timeout_s)
            return received if (received.seq or 0) < 3 else None

        def describe(self, messages: Sequence[Received]) -> dict[str, Any]:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

        def close(self) -> None:
            pass

    plant_system(monkeypatch, PlantedSystem(clients=Undescribed))
    consume(run, task)
    end = read_record(run, ConsumerEnd, task.number)
    assert end is not None
    assert end.problem is not None
    assert "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff" in end.problem
    assert end.delivered == 3


@pytest.mark.parametrize("stood_still_s", [0, 100])
def test_a_consumer_that_itself_did_nothing_says_when(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch, stood_still_s: int
) -> None:
    run, task, passed_us = consumer.run, consumer.task, [0]

    class Slow(consuming.LiveStatus):
        def show(self, **content: Any) -> None:
            # Its first look at its own record takes so long.
            passed_us[0] = stood_still_s * 1_000_000
            write_record(run, ConsumersStop(at=clock.now_us()))

    class Silent(Clients):
        def receive(self, timeout_s: float) -> Received:
            time.sleep(0.01)
            return None  # type: ignore[return-value]

        def close(self) -> None:
            pass

    plant_system(monkeypatch, PlantedSystem(clients=Silent))
    monkeypatch.setattr(consuming, "LiveStatus", Slow)
    monkeypatch.setattr(consuming, "clock", SimpleNamespace(now_us=lambda: clock.now_us() + passed_us[0]))
    # No machine is so slow that a wait of half a second takes half a minute.
    monkeypatch.setattr(consuming, "STANDSTILL_S", 30.0)
    consume(run, task)
    end = read_record(run, ConsumerEnd, task.number)
    assert end is not None
    assert end.problem is None
    assert [round((until - start) / 1e6, -1) for start, until in end.standstills] == ([100] if stood_still_s else [])


class Confirming:
    """A consumer and its cluster, which lost the ack of the messages from 5 on until they are acknowledged again."""

    def __init__(self, *coming: int, answers: Sequence[int | None] = ()) -> None:
        self.coming, self.acked, self._asked = list(coming), list[int](), 0
        self._answers = list(answers)

    def receive(self, timeout_s: float) -> Received | None:
        threading.Event().wait(0.001)
        return message(self.coming.pop(0)) if self.coming else None

    def acknowledge(self, received: Received) -> None:
        self.acked.append(received.seq or 0)

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        self._asked += 1
        assert self._asked < 100, "the acks are never confirmed"
        answer = self._answers.pop(0) if self._answers else 6 if 5 in self.acked else 5
        if answer is None:
            raise AdminError("no broker answers")
        return {-1: Position(1, answer, None)}


def message(number: int) -> Received:
    return Received("p", number, "k", 0, -1, Position(1, number, None), 0, 0, None)


def await_confirmation(consumer: MovingConsumer, cluster: Any) -> list[Any] | None:
    consumer.observation = cluster
    consumer.deliveries.begin(list_columns, cluster=EU, incarnation=0)
    return consumer._confirm(EU, list_columns, cluster, list_columns([message(4), message(5)]))


def test_a_message_that_comes_again_is_acknowledged_again_and_others_wait(consumer: MovingConsumer) -> None:
    cluster = Confirming(7, 5, 8, answers=[3, None])
    assert await_confirmation(consumer, cluster) == []
    assert cluster.acked == [5]
    # Each message that was received is a delivery.
    assert [each.seq for each in consumer._come_meanwhile] == [7, 8]
    assert consumer.deliveries.count == 3


def test_messages_from_before_that_come_again_are_acknowledged_so_that_the_cluster_can_confirm_later_ones(
    consumer: MovingConsumer,
) -> None:
    """A cluster whose lost owner had confirmed acks that it had not stored names the first of these messages again."""

    class Cluster(Confirming):
        def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
            answer = super().find_acknowledged(cluster, subscription)
            return answer if {2, 3} <= set(self.acked) else {-1: Position(1, 2, None)}

    cluster = Cluster(2, 3, 4, 5, 6)
    assert await_confirmation(consumer, cluster) == [message(2), message(3)]
    assert cluster.acked == [2, 3, 4, 5]
    assert consumer._come_meanwhile == [message(6)]


def test_the_rest_of_a_batch_is_acknowledged_before_the_cluster_confirms_its_beginning(
    consumer: MovingConsumer,
) -> None:
    """A cluster that knows acks of whole batches would never confirm the ones of the beginning alone."""
    first, second, third = [message(5)._replace(position=Position(1, 5, index), seq=5 + index) for index in range(3)]
    acked, kept, coming = list[int | None](), list[int](), [second, message(6), third]

    class Cluster(Confirming):
        def receive(self, timeout_s: float) -> Received | None:
            return coming.pop(0) if coming else super().receive(timeout_s)

        def acknowledge(self, received: Received) -> None:
            # A delivery is recorded before its ack.
            assert kept
            assert consumer.deliveries.count == kept[-1]
            acked.append(received.seq)

        def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
            return {-1: Position(1, 6 if acked == [6, 7] else 5)}

    consumer.keep = lambda: kept.append(consumer.deliveries.count)
    consumer.observation = cluster = Cluster()
    consumer.deliveries.begin(list_columns, cluster=EU, incarnation=0)
    assert consumer._confirm(EU, list_columns, cluster, list_columns([first])) == [second, third]
    assert consumer._come_meanwhile == [message(6)]


def test_acks_that_are_never_confirmed_are_given_up_only_at_the_end(
    consumer: MovingConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "_CONFIRM_S", 0.05)
    found: list[list[Any] | None] = []
    waiting = threading.Thread(target=lambda: found.append(await_confirmation(consumer, Confirming())), daemon=True)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    consumer.stopping.set()
    waiting.join(20)
    assert found == [None]


class Refusing(Clients):
    """Clients whose messages come again after 20 others if they are answered negatively; 3 and 4 came before."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster)
        self.acked, self.refused = list[int](), list[int]()
        self._again: list[tuple[int, Received]] = []

    def consumer(self, subscription: Any, name: str) -> Refusing:
        return self

    def receive(self, timeout_s: float) -> Received | None:
        if self._again and self._again[0][0] <= len(self.acked):
            return self._again.pop(0)[1]
        received = super().receive(timeout_s)
        assert received is not None
        return received._replace(redelivery_count=1) if received.seq in (3, 4) else received

    def acknowledge(self, received: Received) -> None:
        assert received.seq is not None
        self.acked.append(received.seq)

    def refuse(self, received: Received) -> None:
        assert received.seq is not None
        self.refused.append(received.seq)
        self._again.append((len(self.acked) + 20, received._replace(redelivery_count=1)))

    def close(self) -> None:
        pass


@pytest.mark.parametrize("every", [None, 4])
def test_a_consumer_refuses_each_nth_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int | None
) -> None:
    clients = Refusing(EU)
    plant_system(monkeypatch, PlantedSystem(clients=lambda cluster: clients))
    keyed = {"name": "keyed", "type": "key_shared", "cluster": EU, "negative_ack_every": every}
    run = make_run(tmp_path / "run", "geo_nominal", {"workload.subscriptions": [keyed], **ON_PLANTED})
    task = plan_consumers(run)[0]
    thread = threading.Thread(target=consume, args=(run, task), daemon=True)
    thread.start()
    wait_until(lambda: len(clients.acked) > 100, timeout_s=20, what="100 acks")
    write_record(run, EarlyEnd(why="enough", at=clock.now_us()))
    thread.join()
    # Message 4 came before, so it is acknowledged at once.
    assert clients.refused[:4] == ([] if every is None else [0, 8, 12, 16])
    assert set(clients.refused[:4]) <= set(clients.acked)
    assert len(clients.acked) == len(set(clients.acked))
    # Each delivery is recorded, also that of a message that was answered negatively.
    rows = [row for part in RecordReader(run, task.client, epoch=0).read_rest() for row in part.rows.to_pylist()]
    assert sum(row["seq"] == 8 for row in rows) == (1 if every is None else 2)


def test_a_client_that_cannot_answer_negatively_is_named(consumer: MovingConsumer) -> None:
    with pytest.raises(RunError, match="NegativelyAcknowledges"):
        consumer._answer(list_columns, 2, Confirming(), [message(2)])
