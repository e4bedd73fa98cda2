"""What Pulsar's own client puts into one batch, and which positions its acks name, asked of a stand-in for a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pulsar
import pytest
from brokerproof.clock import wait_until
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Settled
from brokerproof.systems.pulsar.client import PulsarProducer, make_producer_settings
from brokerproof.systems.pulsar.client_settings import PulsarClientSettings

from .accepting_broker import LEDGER, AcceptingBroker

KEYS = ("k0", "k1", "k2")
MESSAGES = 12


@pytest.fixture
def broker() -> Iterator[AcceptingBroker]:
    with AcceptingBroker() as broker:
        yield broker
        broker.shutdown()


def publish(
    broker: AcceptingBroker, settings: PulsarClientSettings, on_answer: Callable[[], None] = lambda: None
) -> list[Settled]:
    """Publish messages of several keys in turn; the results, by the messages' order."""
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = PulsarProducer(client.create_producer("orders", producer_name="p", **make_producer_settings(settings)))
    settled: dict[int, Settled] = {}

    def settle(seq: int, result: Settled) -> None:
        on_answer()
        settled[seq] = result

    for seq in range(MESSAGES):
        producer.send(seq, KEYS[seq % len(KEYS)], b"x" * 16, partial(settle, seq))
    wait_until(lambda: len(settled) == MESSAGES, timeout_s=20, what="the acks")
    producer.close()
    client.close()
    return [settled[seq] for seq in range(MESSAGES)]


def test_a_batch_mixes_keys_by_default(broker: AcceptingBroker) -> None:
    publish(broker, PulsarClientSettings(batching_delay_ms=500, batching_messages=MESSAGES))
    assert broker.entries == [[*KEYS] * 4]


def test_a_batch_by_key_holds_one_key_and_every_ack_names_the_place_in_its_batch(broker: AcceptingBroker) -> None:
    results = publish(
        broker, PulsarClientSettings(batching_delay_ms=500, batching_messages=MESSAGES, batch_by_key=True)
    )
    assert broker.entries == [[key] * 4 for key in KEYS]
    assert {each.outcome for each in results} == {AttemptOutcome.ACKED}
    assert [each.position for each in results] == [
        (LEDGER, seq % len(KEYS), seq // len(KEYS)) for seq in range(MESSAGES)
    ]


def test_the_event_time_of_a_message_is_its_seq_and_one(broker: AcceptingBroker) -> None:
    publish(broker, PulsarClientSettings(batching_delay_ms=500, batching_messages=MESSAGES))
    assert broker.event_times == list(range(1, MESSAGES + 1))


@pytest.mark.parametrize("settings", [{"batching_delay_ms": 0}, {"batching_messages": 1}], ids=str)
def test_a_client_without_batches_sends_every_message_alone(broker: AcceptingBroker, settings: dict[str, int]) -> None:
    assert not PulsarClientSettings(**settings).batches
    assert not make_producer_settings(PulsarClientSettings(**settings))["batching_enabled"]
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.create_producer("orders", producer_name="p", **make_producer_settings(PulsarClientSettings(**settings)))
    client.close()


def test_the_thread_of_the_answers_keeps_its_state_in_python(broker: AcceptingBroker) -> None:
    # Values of this object live in the thread's state.
    state = threading.local()
    counts: list[int] = []

    def count() -> None:
        state.count = getattr(state, "count", 0) + 1
        counts.append(state.count)

    publish(broker, PulsarClientSettings(batching_delay_ms=500, batching_messages=MESSAGES), count)
    assert counts == list(range(1, MESSAGES + 1))
