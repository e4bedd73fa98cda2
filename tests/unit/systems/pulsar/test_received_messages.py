"""The columns that Pulsar's clients make of messages, and the identity that a message gets from its producer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import _pulsar
import pulsar
import pytest
from brokerproof.run.tables import AttemptOutcome, join_columns
from brokerproof.systems.clients import Position, Settled, hash_payload
from brokerproof.systems.pulsar.client import PulsarClients, PulsarProducer
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings
from pulsar import MessageId

EU, US = "cluster-eu", "cluster-us"


@dataclass(frozen=True)
class Message:
    """A message as the C++ client shows it. `looks` gets an element each time the position is asked for."""

    place: tuple[int, int, int] = (1, 0, -1)
    topic_partition: int = -1
    owner: str = f"{EU}/p"
    time: int = 1
    looks: list[int] | None = None

    def message_id(self) -> Any:
        if self.looks is not None:
            self.looks.append(1)
        return SimpleNamespace(
            ledger_id=lambda: self.place[0],
            entry_id=lambda: self.place[1],
            batch_index=lambda: self.place[2],
            partition=lambda: self.topic_partition,
        )

    def producer_name(self) -> str:
        return self.owner

    def event_timestamp(self) -> int:
        return self.time

    def partition_key(self) -> str:
        return "k1"

    def data(self) -> bytes:
        return b"x"

    def publish_timestamp(self) -> int:
        return self.place[1]

    def redelivery_count(self) -> int:
        return self.place[0]


def describe(messages: Sequence[Any], *, is_stored: bool = True) -> list[dict[str, Any]]:
    """The rows of messages, as a client in `US` describes them."""
    clients = PulsarClients.__new__(PulsarClients)
    vars(clients).update(_cluster=US, _is_stored=is_stored)
    constant = {"run_id": "r", "cluster": US, "topic": "t", "subscription": "s", "consumer": "c", "incarnation": 0}
    times = {"arrival": 0, "received_at": 0, "acknowledged_at": None}
    return join_columns("deliveries", clients.describe(messages), constant | times).to_pylist()


def test_a_message_is_described_by_all_of_its_columns() -> None:
    (row,) = describe([_pulsar.MessageBuilder().content(b"x").partition_key("k1").build()])
    assert {name: row[name] for name in ("key", "payload_hash", "partition", "batch_index", "published_at")} == {
        "key": "k1",
        "payload_hash": hash_payload(b"x"),
        "partition": -1,
        "batch_index": None,
        # It was never published.
        "published_at": datetime(1970, 1, 1, tzinfo=UTC),
    }
    (row,) = describe([_pulsar.MessageBuilder().content(b"x").build()])
    assert row["key"] is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("topic_partition", [-1, 3])
def test_each_message_has_the_position_of_its_entry_and_its_place_in_the_batch(seed: int, topic_partition: int) -> None:
    """Entries of any size, some of them without batches, cut off at their beginning or delivered again."""
    chance = random.Random(seed)
    places: list[tuple[int, int, int]] = []
    for entry in range(chance.randint(1, 20)):
        ledger, size = 1 + entry // 7, chance.choice([0, 1, 2, 3, 8, 50])
        batch = [(ledger, entry, index) for index in range(size)] or [(ledger, entry, -1)]
        places += batch[chance.randrange(len(batch)) :] if chance.random() < 0.3 else batch
        if chance.random() < 0.3:
            places += batch
    rows = describe([Message(place=place, topic_partition=topic_partition) for place in places])
    assert [(row["segment"], row["offset"], row["batch_index"]) for row in rows] == [
        (ledger, entry, None if index < 0 else index) for ledger, entry, index in places
    ]
    assert [row["redelivery_count"] for row in rows] == [ledger for ledger, _, _ in places]
    assert [row["published_at"].microsecond for row in rows] == [entry * 1000 for _, entry, _ in places]
    assert {row["partition"] for row in rows} == {topic_partition}


def test_a_client_of_several_partitions_is_asked_for_every_position() -> None:
    """A message of another partition may come between two of one entry, of which one is missing."""
    messages = [
        Message(place=(1, 0, 3), topic_partition=0),
        Message(place=(1, 0, 4), topic_partition=0),
        Message(place=(9, 9, 0), topic_partition=1),
        Message(place=(1, 0, 6), topic_partition=0),
    ]
    assert [(row["partition"], row["batch_index"]) for row in describe(messages)] == [
        (0, 3),
        (0, 4),
        (1, 0),
        (0, 6),
    ]


def test_a_large_batch_is_asked_for_few_positions() -> None:
    looks: list[int] = []
    describe([Message(place=(1, 0, index), looks=looks) for index in range(1000)])
    assert len(looks) < 30


@pytest.mark.parametrize(("home", "replicated_from"), [(EU, EU), (US, None)])
def test_a_message_from_another_cluster_says_so(home: str, replicated_from: str | None) -> None:
    (row,) = describe([Message(owner=f"{home}/p", time=8)])
    assert (row["producer"], row["seq"], row["replicated_from"]) == ("p", 7, replicated_from)


@pytest.mark.parametrize(
    "message",
    [
        *(Message(owner=owner) for owner in ("", "standalone-0-1", f"{EU}/", "/p", f"{EU}/p/1")),
        Message(time=0),
        # They are larger than any seq.
        Message(time=10**18 + 1),
        Message(time=2**64 - 1),
    ],
)
def test_a_message_that_names_itself_otherwise_has_no_identity_and_no_home(message: Message) -> None:
    # Its neighbours keep theirs.
    before, row, after = describe([Message(place=(1, 0, -1)), message, Message(place=(1, 1, -1), time=3)])
    assert (row["producer"], row["seq"], row["replicated_from"]) == (None, None, None)
    assert [(each["producer"], each["seq"]) for each in (before, after)] == [("p", 0), ("p", 2)]


def test_a_message_that_is_not_stored_has_no_position() -> None:
    message = _pulsar.MessageBuilder().content(b"x").partition_key("k1").event_timestamp(4).build()
    (stored,), (unstored,) = describe([message]), describe([message], is_stored=False)
    places = ("segment", "offset", "batch_index")
    assert [stored[name] for name in places] != [None] * 3
    assert unstored == {**stored, **dict.fromkeys(places)}


def test_the_ack_of_a_message_that_is_not_stored_names_no_position() -> None:
    def settle(is_stored: bool) -> Any:
        producer = SimpleNamespace(send_async=lambda _, answered: answered(pulsar.Result.Ok, MessageId(-1, 0, 0, 0)))
        found: list[Settled] = []
        PulsarProducer(SimpleNamespace(_producer=producer), is_stored=is_stored).send(0, "k", b"x", found.append)
        return found[0]

    assert settle(True).position == Position(0, 0, 0)
    assert settle(False) == Settled(AttemptOutcome.ACKED, partition=-1)


def test_the_name_of_a_producer_in_pulsar_has_its_home() -> None:
    names: list[str] = []

    class Client:
        def create_producer(self, topic: str, *, producer_name: str, **settings: Any) -> Any:
            names.append(producer_name)
            return SimpleNamespace(_producer=SimpleNamespace(send_async=None))

    clients = PulsarClients.__new__(PulsarClients)
    vars(clients).update(_client=Client(), _topic="t", _cluster=EU, _settings=PulsarClientSettings(), _is_stored=True)
    clients.producer("p")
    assert names == [f"{EU}/p"]
