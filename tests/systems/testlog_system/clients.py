"""The log server's clients, which wrap its own library in Brokerproof's protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from brokerproof.errors import AdminError
from brokerproof.experiment.workload import Subscription
from brokerproof.experiment.yaml_models import parse
from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Position, Received, Settled, hash_payload, list_columns
from testlog.client import Delivery, LogCluster, LogConsumer, LogProducer, LogReader, Settlement

from testlog_system.client_settings import LogClientSettings
from testlog_system.cluster import cluster_name, cluster_of, partition_numbers
from testlog_system.policies import parse_policies


class TestlogClients:
    """Makes clients of the run's cluster. Each client has its own connections."""

    def __init__(self, run: Run) -> None:
        workload = run.scenario.workload
        settings = parse(LogClientSettings, workload.client.model_dump(), file="")
        self._cluster: LogCluster = cluster_of(run, answer_timeout_s=settings.answer_timeout_s)
        self._topic, self._numbers = workload.topic, partition_numbers(run)
        self._timeout_s = float(settings.operation_timeout_s)
        self._policies = parse_policies(run.topology.clusters[cluster_name(run)])

    def producer(self, name: str) -> TestlogProducer:
        """Return a new producer. Raises AdminError if the cluster's policies refuse producers."""
        if self._policies.refuses_producers:
            raise AdminError("the cluster refuses producers")
        return TestlogProducer(
            LogProducer(self._cluster, self._topic, name, queue_timeout_s=self._timeout_s), self._numbers
        )

    def consumer(self, subscription: Subscription, name: str) -> TestlogConsumer:
        return TestlogConsumer(LogConsumer(self._cluster, self._topic, subscription.name))

    def reader(self, partition: int, start: Position | None = None) -> TestlogReader:
        offset = 0 if start is None else start.offset
        return TestlogReader(LogReader(self._cluster, self._topic, self._numbers.index(partition), offset))

    def describe(self, messages: Sequence[Delivery]) -> dict[str, Sequence[Any]]:
        return list_columns([_received(delivery, self._numbers) for delivery in messages])

    def close(self) -> None:
        """There is nothing to close, because each client closes its own connections."""


class TestlogProducer:
    def __init__(self, producer: LogProducer, numbers: list[int]) -> None:
        self._producer, self._numbers = producer, numbers

    def send(self, seq: int, key: str, payload: bytes, settle: Callable[[Settled], None]) -> None:
        self._producer.send(seq, key, payload, lambda settlement: settle(self._settled(settlement)))

    def close(self) -> None:
        """Settle all messages that are open: a sent message is unknown, an unsent one has failed."""
        self._producer.close()

    def _settled(self, settlement: Settlement) -> Settled:
        return Settled(
            AttemptOutcome(settlement.outcome),
            error=settlement.error,
            partition=self._numbers[settlement.partition],
            position=None if settlement.offset is None else Position(0, settlement.offset),
        )


class TestlogConsumer:
    def __init__(self, consumer: LogConsumer) -> None:
        self._consumer = consumer

    def receive(self, timeout_s: float) -> Delivery | None:
        return self._consumer.receive(timeout_s)

    def acknowledge(self, message: Delivery) -> None:
        """Acknowledge the message and all messages before it in its partition."""
        self._consumer.acknowledge(message)

    def close(self) -> None:
        self._consumer.close()


class TestlogReader:
    def __init__(self, reader: LogReader) -> None:
        self._reader = reader

    def read(self, timeout_s: float) -> Delivery | None:
        return self._reader.read(timeout_s)

    def at_end(self) -> bool:
        """Return whether the reader has reached the end that the leader named in its last answer."""
        return self._reader.at_end()

    def next_position(self) -> Position:
        """Return the next position. Control records before it are counted as read."""
        return Position(0, self._reader.position)

    def close(self) -> None:
        self._reader.close()


def _received(delivery: Delivery, numbers: list[int]) -> Received:
    record = delivery.record
    return Received(
        producer=record.producer,
        seq=record.seq,
        key=record.key,
        payload_hash=hash_payload(record.payload),
        partition=numbers[delivery.partition],
        position=Position(0, delivery.offset),
        redelivery_count=0,
        published_at=record.published_at,
        replicated_from=None,
    )
