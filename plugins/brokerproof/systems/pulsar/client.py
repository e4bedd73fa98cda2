"""Pulsar's own Python client, adapted to the protocols in systems/clients.py."""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import _pulsar
import numpy as np
import pulsar
import pyarrow as pa
from pulsar import MessageId

from brokerproof.experiment.guarantees import SubscriptionType
from brokerproof.experiment.topology import name_clients_place
from brokerproof.experiment.workload import Acks, OnRestart, Subscription
from brokerproof.experiment.yaml_models import parse
from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Position, Settled, hash_payload
from brokerproof.systems.pulsar import topic
from brokerproof.systems.pulsar.addressing import Addressing, name_listener
from brokerproof.systems.pulsar.client_settings import ProducerAccess, PulsarClientSettings
from brokerproof.systems.pulsar.roles import Role

# A message carries its identity in fields of its own, so a corrupted payload does not hide it. The name of its producer
# is HOME/PRODUCER, where the home is the cluster that it was published to: the client (3.13) has no accessor for the
# broker's own `replicated_from`. The event time is seq + 1, because 0 means that there is none. The client returns this
# number in 0.1 µs; a property that holds the identity takes 1.1 µs until it is parsed. A larger event time is no seq's.
_MOST_EVENT_TIME = 10**18
# The C++ client's results are slow to compare, their numbers are not.
_OK = int(pulsar.Result.Ok)

_TYPES = {
    SubscriptionType.EXCLUSIVE: pulsar.ConsumerType.Exclusive,
    SubscriptionType.FAILOVER: pulsar.ConsumerType.Failover,
    SubscriptionType.SHARED: pulsar.ConsumerType.Shared,
    SubscriptionType.KEY_SHARED: pulsar.ConsumerType.KeyShared,
}

_ACCESS = {
    None: pulsar.ProducerAccessMode.Shared,
    ProducerAccess.EXCLUSIVE: pulsar.ProducerAccessMode.Exclusive,
    ProducerAccess.EXCLUSIVE_WITH_FENCING: pulsar.ProducerAccessMode.ExclusiveWithFencing,
}

# The client gives these errors before it sends anything. After any other error, the message may be stored.
_NOT_WRITTEN = (
    pulsar.Result.MessageTooBig,
    pulsar.Result.ProducerQueueIsFull,
    pulsar.Result.MemoryBufferIsFull,
    pulsar.Result.InvalidMessage,
)


class PulsarClients:
    """One Pulsar client, which connects to a cluster from `region`.

    Without a region, it connects directly and not through an emulated link between regions.
    """

    def __init__(self, run: Run, cluster: str, region: str | None = None) -> None:
        self._cluster = cluster
        self._topic = topic.make_full_name(run.scenario.workload)
        self._is_stored = run.scenario.workload.is_stored
        self._settings = parse(PulsarClientSettings, run.scenario.workload.client.model_dump(), file="")
        addressing = Addressing.from_run(run)
        brokers = run.topology.clusters[cluster].names(role=Role.BROKER)
        self._client = pulsar.Client(
            "pulsar://" + ",".join(addressing.format_service_address(name, region) for name in brokers),
            listener_name=None if region is None else name_listener(name_clients_place(region)),
            operation_timeout_seconds=self._settings.operation_timeout_s,
            connection_timeout_ms=int(self._settings.connection_timeout_s * 1000),
            # A Python logger would be called on the client's threads, which then wait for Python's lock.
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn),
        )

    def producer(self, name: str) -> PulsarProducer:
        """Return a new producer. Messages of one key go to one partition."""
        settings = make_producer_settings(self._settings)
        owner = f"{self._cluster}/{name}"
        producer = self._client.create_producer(self._topic, producer_name=owner, **settings)
        return PulsarProducer(
            producer, is_numbered=self._settings.on_restart is OnRestart.CONTINUE, is_stored=self._is_stored
        )

    def consumer(self, subscription: Subscription, name: str) -> PulsarConsumer:
        delay_ms = self._settings.redelivery_delay_ms
        consumer = self._client.subscribe(
            self._topic,
            subscription.name,
            consumer_type=_TYPES[subscription.type],
            consumer_name=name,
            receiver_queue_size=self._settings.receiver_queue,
            initial_position=pulsar.InitialPosition.Earliest,
            replicate_subscription_state_enabled=subscription.replicated,
            batch_index_ack_enabled=bool(self._settings.batch_index_acks),
            **({} if delay_ms is None else {"negative_ack_redelivery_delay_ms": delay_ms}),
        )
        return PulsarConsumer(consumer, is_cumulative=subscription.acks is Acks.CUMULATIVE)

    def reader(self, partition: int, start: Position | None = None) -> PulsarReader:
        name = self._topic + (f"-partition-{partition}" if partition >= 0 else "")
        first = MessageId.earliest if start is None else MessageId(partition, start.segment, start.offset, -1)
        # The broker reads the entry at a start position even for a reader that begins after it, and fails if it is
        # unreadable (`getNonDurableSubscription` of PersistentTopic). So the reader begins with `start` itself.
        reader = self._client.create_reader(name, first, start_message_id_inclusive=start is not None)
        return PulsarReader(reader)

    def describe(self, messages: Sequence[Any]) -> dict[str, Any]:
        """Return the columns of messages of the C++ client.

        A message without a valid identity has no producer and no seq. `replicated_from` is the cluster that the message
        was published to; null if that is this cluster. A reader's messages have the partition -1.
        """
        starts, ids = _find_entries(messages)
        counts = np.diff(starts, append=len(messages))
        firsts = [messages[start] for start in starts]
        homes, producers = zip(*(_parse_owner(first.producer_name()) for first in firsts), strict=True)

        def repeat(values: Sequence[Any], dtype: Any = None) -> Any:
            return np.repeat(np.array(values, dtype), counts)

        first_index = repeat([each.batch_index() for each in ids])
        place = np.arange(len(messages)) - np.repeat(starts, counts)
        event_times = np.array([each.event_timestamp() for each in messages], np.uint64)
        is_valid = (event_times > 0) & (event_times <= _MOST_EVENT_TIME) & repeat([each is not None for each in homes])
        replicated_from = [None if home == self._cluster else home for home in homes]
        return {
            "producer": np.where(is_valid, repeat(producers, object), None),
            "seq": pa.array(event_times.astype(np.int64) - 1, mask=~is_valid),
            "key": [each.partition_key() or None for each in messages],
            "payload_hash": [hash_payload(each.data()) for each in messages],
            "partition": repeat([each.partition() for each in ids]),
            "segment": repeat([each.ledger_id() for each in ids]),
            "offset": repeat([each.entry_id() for each in ids]),
            "batch_index": pa.array(first_index + place, mask=first_index < 0),
            "redelivery_count": repeat([each.redelivery_count() for each in firsts]),
            "published_at": repeat([each.publish_timestamp() * 1000 for each in firsts]),
            "replicated_from": np.where(is_valid, repeat(replicated_from, object), None),
            # All messages that are not stored have the ledger and the entry 0.
            **({} if self._is_stored else dict.fromkeys(("segment", "offset", "batch_index"), [None] * len(messages))),
        }

    def close(self) -> None:
        self._client.close()


def make_producer_settings(client: PulsarClientSettings) -> dict[str, Any]:
    """Return the arguments of `create_producer`, except the topic and the producer's name."""
    return {
        "send_timeout_millis": int(client.send_timeout_s * 1000),
        # The job limits pending messages itself, because a full queue inside the client fails or blocks.
        "max_pending_messages": client.max_pending + 1000,
        "max_pending_messages_across_partitions": 50 * client.max_pending,
        "batching_enabled": client.batches,
        "batching_max_publish_delay_ms": max(1, client.batching_delay_ms),
        # The client counts messages of all keys together, and refuses 1. With batches by key, each new key restarts
        # the delay (`isFirstMessageToAdd` of its BatchMessageKeyBasedContainer) until this number is reached.
        "batching_max_messages": max(2, client.batching_messages),
        "batching_type": pulsar.BatchingType.KeyBased if client.batch_by_key else pulsar.BatchingType.Default,
        "block_if_queue_full": False,
        "access_mode": _ACCESS[client.access],
    }


class PulsarProducer:
    def __init__(self, producer: pulsar.Producer, *, is_numbered: bool = False, is_stored: bool = True) -> None:
        """With `is_numbered`, the seqs are the numbers by which the broker deduplicates, also of another process.

        If messages are not stored (`is_stored`), their acks name no position.
        """
        self._producer, self._is_numbered, self._is_stored = producer, is_numbered, is_stored
        # The C++ client's own producer. The wrapper's `send_async` takes 8 µs more, because it checks ten arguments.
        self._send_async = producer._producer.send_async
        # The client's thread that brings the answers, once it has a lasting state in Python.
        self._attached = 0

    def send(self, seq: int, key: str, payload: bytes, settle: Callable[[Settled], None]) -> None:
        """Begin to publish a message. The callback `settle` must be quick, because it runs on the client's I/O thread.

        If the client raises an exception at once, `settle` runs on the caller's thread.
        """

        def answered(result: pulsar.Result, message_id: Any) -> None:
            if get_ident() != self._attached:
                self._attach()
            settle(_settled(result, message_id, self._is_stored))

        message = _pulsar.MessageBuilder()
        message.content(payload)
        message.event_timestamp(seq + 1)
        message.partition_key(key)
        if self._is_numbered:
            message.sequence_id(seq)
        try:
            self._send_async(message.build(), answered)
        except pulsar.PulsarException as error:
            settle(Settled(AttemptOutcome.UNKNOWN, error=type(error).__name__))

    def find_last_seq(self) -> int:
        return int(self._producer.last_sequence_id())

    def _attach(self) -> None:
        """Let the present thread, which is the C++ client's, keep its state in Python until the process ends.

        Otherwise Python makes a state and maps memory for each answer, and frees both again. Then a published message
        costs 35 µs of processor time instead of 21.
        """
        ctypes.pythonapi.PyGILState_Ensure()
        self._attached = get_ident()

    def close(self) -> None:
        """Close the producer.

        For each attempt to publish that has no result yet, the client reports an error, which counts as `unknown`.
        """
        self._producer.close()


class PulsarConsumer:
    def __init__(self, consumer: pulsar.Consumer, *, is_cumulative: bool = False) -> None:
        # The C++ client's own consumer, whose messages need no wrapper.
        self._consumer = consumer._consumer
        self._acknowledge = self._consumer.acknowledge_cumulative if is_cumulative else self._consumer.acknowledge

    def receive(self, timeout_s: float) -> Any | None:
        try:
            return self._consumer.receive(int(timeout_s * 1000))
        except pulsar.Timeout:
            return None

    def acknowledge(self, message: Any) -> None:
        self._acknowledge(message)

    def refuse(self, message: Any) -> None:
        self._consumer.negative_acknowledge(message)

    def close(self) -> None:
        self._consumer.close()


class PulsarReader:
    def __init__(self, reader: pulsar.Reader) -> None:
        # The C++ client's own reader, whose messages need no wrapper.
        self._reader = reader._reader
        self._last: Any = None

    def read(self, timeout_s: float) -> Any | None:
        try:
            self._last = self._reader.read_next(int(timeout_s * 1000))
        except pulsar.Timeout:
            return None
        return self._last

    def at_end(self) -> bool:
        return not self._reader.has_message_available()

    def next_position(self) -> Position | None:
        """Return the position after the entry of the last message that was read; None before the first message.

        If the entry is a batch, more of its messages may be left to read. `at_end` is true only after all of them.
        """
        if self._last is None:
            return None
        last = self._last.message_id()
        return Position(last.ledger_id(), last.entry_id() + 1)

    def close(self) -> None:
        self._reader.close()


def _find_entries(messages: Sequence[Any]) -> tuple[Sequence[int], list[Any]]:
    """Return the index and the id of each message that begins another entry, in ascending order; 0 is the first index.

    The messages between two of these indexes share an entry. Their batch indexes ascend one by one, because the client
    takes the messages of a batch out of it in order. A client of several partitions may mix their messages, so each
    message is returned then.
    """
    starts, ids = [0], [messages[0].message_id()]
    if ids[0].partition() >= 0:
        return range(len(messages)), [each.message_id() for each in messages]
    while (end := _find_end(messages, starts[-1], ids[-1])) < len(messages):
        starts.append(end)
        ids.append(messages[end].message_id())
    return starts, ids


def _find_end(messages: Sequence[Any], start: int, first: Any) -> int:
    """Return the index after the last message of an entry, which begins or goes on at `start` with the id `first`."""
    if first.batch_index() < 0:
        return start + 1
    ledger, entry, offset = first.ledger_id(), first.entry_id(), first.batch_index() - start

    def is_behind(at: int) -> bool:
        each = messages[at].message_id()
        return each.batch_index() - at != offset or each.entry_id() != entry or each.ledger_id() != ledger

    # The steps double until a message is behind the entry, so a small entry takes few looks.
    step = 1
    while start + step < len(messages) and not is_behind(start + step):
        start, step = start + step, step * 2
    candidates = range(start + 1, min(start + step, len(messages)))
    return start + 1 + bisect_left(candidates, True, key=is_behind)


def _parse_owner(name: str) -> tuple[str, str] | tuple[None, None]:
    """Return the home and the producer of messages from the name of Pulsar's producer; twice None for another form."""
    home, _, producer = name.partition("/")
    return (home, producer) if home and producer and "/" not in producer else (None, None)


def _settled(result: pulsar.Result, message_id: Any, is_stored: bool) -> Settled:
    """Return the result of an attempt. `message_id` is the C++ client's own."""
    if int(result) != _OK:
        outcome = AttemptOutcome.FAILED if result in _NOT_WRITTEN else AttemptOutcome.UNKNOWN
        return Settled(outcome, error=str(result).removeprefix("Result."))
    # A deduplicated retry is acked at (-1, -1), and a message that is not stored at (0, 0). Neither is a position.
    segment, position = message_id.ledger_id(), None
    if segment >= 0 and is_stored:
        batch = message_id.batch_index()
        position = Position(segment, message_id.entry_id(), None if batch < 0 else batch)
    return Settled(AttemptOutcome.ACKED, partition=message_id.partition(), position=position)
