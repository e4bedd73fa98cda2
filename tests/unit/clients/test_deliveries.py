"""When the row of a delivery is complete, and with which confirmation of its ack."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pyarrow as pa
from brokerproof import clock
from brokerproof.clients.deliveries import AckedDeliveries, ConfirmedAcks, Deliveries
from brokerproof.systems.clients import Position, Received, list_columns

EU, US = "cluster-eu", "cluster-us"
S = 1_000_000
START = 1_800_000_000 * S
CONSTANT = {"run_id": "r", "topic": "t", "subscription": "s", "consumer": "c"}


def received(number: int, partition: int = -1) -> Received:
    position = Position(1, number)
    return Received("p", number, "k", 0, partition, position, 0, 0, None)


def confirmed(end: int, at: int, cluster: str = EU, partition: int = -1) -> ConfirmedAcks:
    return ConfirmedAcks(cluster=cluster, positions={partition: Position(1, end)}, at=at)


def rows_of(*numbers: int, at: int = START, cluster: str = EU, partition: int = -1) -> pa.RecordBatch:
    deliveries = Deliveries(CONSTANT, SimpleNamespace(now_us=lambda: at))  # type: ignore[arg-type]
    deliveries.begin(list_columns, cluster=cluster, incarnation=0)
    for number in numbers:
        deliveries.add(received(number, partition))
    return deliveries.take()[0]


def acked(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, int | None]]:
    rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    times = [row["acknowledged_at"] for row in rows]
    return [
        (row["seq"], None if at is None else clock.to_microseconds(at)) for row, at in zip(rows, times, strict=True)
    ]


def test_rows_have_the_values_of_their_incarnation_and_the_times_at_which_they_came() -> None:
    times = iter(range(START, START + 5))
    deliveries = Deliveries(CONSTANT, SimpleNamespace(now_us=lambda: next(times)))  # type: ignore[arg-type]
    for incarnation, cluster, numbers in ((0, EU, (7, 8)), (1, US, (3, 4, 5))):
        deliveries.begin(list_columns, cluster=cluster, incarnation=incarnation)
        for number in numbers:
            deliveries.add(received(number))
    rows = deliveries.take()[0].to_pylist()
    assert [(row["cluster"], row["incarnation"], row["seq"], row["arrival"]) for row in rows] == [
        (EU, 0, 7, 0),
        (EU, 0, 8, 1),
        (US, 1, 3, 2),
        (US, 1, 4, 3),
        (US, 1, 5, 4),
    ]
    assert [clock.to_microseconds(row["received_at"]) - START for row in rows] == [0, 1, 2, 3, 4]
    assert deliveries.take()[0].num_rows == 0


def test_messages_are_dropped_while_they_wait_for_the_record() -> None:
    class Message:
        pass

    deliveries, alive = Deliveries(CONSTANT), WeakSet[Message]()
    deliveries.begin(lambda messages: list_columns([received(0)] * len(messages)), cluster=EU, incarnation=0)
    for _ in range(2500):
        alive.add(message := Message())
        deliveries.add(message)
    del message
    assert (deliveries.count, len(alive)) == (2500, 500)
    assert deliveries.take()[0].column("arrival").to_pylist() == list(range(2500))
    assert len(alive) == 0


def test_a_delivery_waits_for_the_confirmation_of_its_ack() -> None:
    deliveries = AckedDeliveries()
    assert acked(deliveries.add(rows_of(0, 1, 2), [])) == []
    assert acked(deliveries.add(rows_of(), [confirmed(2, START + S)])) == []
    assert acked(deliveries.add(rows_of(), [confirmed(3, START + 2 * S)])) == [
        (0, START + S),
        (1, START + S),
        (2, START + 2 * S),
    ]


def test_what_is_left_comes_with_what_is_known() -> None:
    deliveries = AckedDeliveries()
    assert acked(deliveries.add(rows_of(0, 1), [confirmed(1, START + S)])) == []
    assert acked(deliveries.finish()) == [(0, START + S), (1, None)]


def test_what_one_cluster_confirms_says_nothing_of_the_other() -> None:
    deliveries = AckedDeliveries()
    list(deliveries.add(rows_of(5, cluster=EU), []))
    list(deliveries.add(rows_of(6, cluster=US), [confirmed(9, START + S, cluster=US)]))
    assert acked(deliveries.finish()) == [(5, None), (6, START + S)]


def test_what_is_confirmed_of_one_partition_says_nothing_of_another() -> None:
    deliveries = AckedDeliveries()
    list(deliveries.add(rows_of(5, partition=0), []))
    list(deliveries.add(rows_of(6, partition=1), [confirmed(9, START + S, partition=1)]))
    assert acked(deliveries.finish()) == [(5, None), (6, START + S)]


def test_a_batch_that_is_acknowledged_in_part_is_not_confirmed() -> None:
    """A cluster's position is before the first entry of which a message is not acknowledged."""
    deliveries = Deliveries(CONSTANT, SimpleNamespace(now_us=lambda: START))  # type: ignore[arg-type]
    deliveries.begin(list_columns, cluster=EU, incarnation=0)
    for seq, place in enumerate([Position(1, 4, 0), Position(1, 5, 0), Position(1, 5, 1)]):
        deliveries.add(received(seq)._replace(position=place))
    judged = AckedDeliveries()
    assert acked(judged.add(deliveries.take()[0], [confirmed(5, START + S)])) == []
    assert acked(judged.add(rows_of(), [confirmed(6, START + 2 * S)])) == [
        (0, START + S),
        (1, START + 2 * S),
        (2, START + 2 * S),
    ]


def test_a_confirmation_from_before_the_delivery_confirms_nothing() -> None:
    deliveries = AckedDeliveries()
    assert acked(deliveries.add(rows_of(5), [confirmed(9, START - 1)])) == []
    assert acked(deliveries.finish()) == [(5, None)]


def test_a_delivery_without_a_position_is_never_confirmed() -> None:
    deliveries = AckedDeliveries()
    batch = rows_of(5)
    place = batch.schema.get_field_index("segment")
    batch = batch.set_column(place, batch.schema.field(place), pa.nulls(1, pa.int64()))
    list(deliveries.add(batch, [confirmed(9, START + S)]))
    assert acked(deliveries.finish()) == [(5, None)]


def test_it_does_not_wait_for_ever() -> None:
    deliveries = AckedDeliveries()
    assert acked(deliveries.add(rows_of(0), [])) == []
    assert acked(deliveries.add(rows_of(1, at=START + 19 * S), [])) == []
    assert acked(deliveries.add(rows_of(2, at=START + 21 * S), [])) == [(0, None)]


def test_rows_keep_their_order_though_a_later_one_is_confirmed_first() -> None:
    deliveries = AckedDeliveries()
    list(deliveries.add(rows_of(7), []))
    assert acked(deliveries.add(rows_of(3), [confirmed(5, START + S)])) == []
    assert acked(deliveries.finish()) == [(7, None), (3, START + S)]


def test_an_answer_is_recorded_as_it_was() -> None:
    answer = confirmed(7, START)
    assert ConfirmedAcks.from_plain(answer.to_plain()) == answer
