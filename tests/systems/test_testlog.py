"""The log server that tests are run against: what it promises, and that it breaks its promises where it is told to.

Every cluster here is three processes on loopback addresses.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from local_nodes import LocalNodes, wait_until
from testlog.client import Delivery, LogConsumer, LogProducer, LogReader, PublishOutcome, RequestError, Settlement
from testlog.client.connection import LogConnection
from testlog.log import Entry, EntryLog
from testlog.record import MessageRecord, pack_records
from testlog.wire import Header

PAYLOAD = b"\x00\xff" * 100
KEYS = 8


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNodes]:
    nodes = LocalNodes(tmp_path_factory.mktemp("nodes"))
    yield nodes
    nodes.end()


@pytest.fixture
def nodes(shared: LocalNodes) -> LocalNodes:
    """Three nodes that run and hold the same."""
    shared.heal()
    return shared


@pytest.fixture
def topic(nodes: LocalNodes, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, the test's own."""
    name: str = request.node.name
    nodes.admin.create_topic(name)
    return name


class Load:
    """A producer at a steady rate, on a thread of its own."""

    def __init__(self, nodes: LocalNodes, topic: str, rate: int = 2000) -> None:
        self.settlements: dict[int, list[Settlement]] = {}
        # When acks came.
        self.acked_at: list[float] = []
        self._rate = rate
        self._sent = 0
        self._ending = threading.Event()
        self._producer = LogProducer(nodes.cluster, topic, "p")
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    @property
    def acked(self) -> dict[int, int]:
        """Offsets by seq."""
        return {
            seq: one.offset
            for seq, (one, *_) in self.settlements.items()
            if one.outcome is PublishOutcome.ACKED and one.offset is not None
        }

    def await_acks(self, count: int) -> None:
        """Wait until so many more messages are acked."""
        wanted = len(self.acked_at) + count
        wait_until(lambda: len(self.acked_at) >= wanted, f"{wanted} acks")

    def end(self) -> None:
        """Send no more, and wait for what was sent."""
        self._ending.set()
        self._thread.join()
        wait_until(lambda: len(self.settlements) == self._sent, "every message to be settled")
        self._producer.close()

    def longest_gap_s(self) -> float:
        """The longest time between two acks."""
        return max(after - before for before, after in zip(self.acked_at, self.acked_at[1:], strict=False))

    def _send(self) -> None:
        start = time.monotonic()
        while not self._ending.wait(0.002):
            while self._sent < (time.monotonic() - start) * self._rate and not self._ending.is_set():
                seq = self._sent
                self._producer.send(seq, f"k{seq % KEYS}", PAYLOAD, partial(self._settle, seq))
                self._sent += 1

    def _settle(self, seq: int, settlement: Settlement) -> None:
        self.settlements.setdefault(seq, []).append(settlement)
        if settlement.outcome is PublishOutcome.ACKED:
            self.acked_at.append(time.monotonic())


def publish(nodes: LocalNodes, topic: str, count: int, producer: str = "p") -> list[Settlement]:
    """Publish and wait for all answers."""
    settlements: dict[int, Settlement] = {}
    client = LogProducer(nodes.cluster, topic, producer)
    for seq in range(count):
        client.send(seq, f"k{seq % KEYS}", PAYLOAD, partial(settlements.__setitem__, seq))
    wait_until(lambda: len(settlements) == count, "all answers")
    client.close()
    return [settlements[seq] for seq in range(count)]


def read_log(nodes: LocalNodes, topic: str, partition: int = 0) -> list[Delivery]:
    """Everything from the beginning to the log's end."""
    end = nodes.admin.log_ends(topic)[partition]
    reader = LogReader(nodes.cluster, topic, partition)
    deliveries: list[Delivery] = []
    deadline = time.monotonic() + 15
    while reader.position < end and time.monotonic() < deadline:
        delivery = reader.read(0.5)
        if delivery is not None:
            deliveries.append(delivery)
    assert reader.position >= end
    assert reader.at_end()
    reader.close()
    return deliveries


def offsets_by_seq(deliveries: list[Delivery]) -> dict[int, int]:
    """Offsets by seq; no message may be there twice."""
    assert len({delivery.record.seq for delivery in deliveries}) == len(deliveries)
    return {delivery.record.seq: delivery.offset for delivery in deliveries}


def seqs_out_of_order(deliveries: list[Delivery]) -> list[int]:
    """Seqs that stand behind a higher one of their key."""
    highest: dict[str | None, int] = {}
    late: list[int] = []
    for delivery in deliveries:
        _, seq, key, *_ = delivery.record
        if seq < highest.get(key, -1):
            late.append(seq)
        highest[key] = max(seq, highest.get(key, -1))
    return late


def test_one_node_leads_and_the_others_follow_it(nodes: LocalNodes) -> None:
    statuses = nodes.admin.statuses()
    leader = nodes.admin.leader()
    assert {name: status.leader for name, status in statuses.items()} == dict.fromkeys(nodes.names, leader)
    assert Counter(status.role for status in statuses.values()) == {"leader": 1, "follower": 2}
    assert [name for name, status in statuses.items() if status.serves] == [leader]


def test_messages_come_back_as_they_were_sent(nodes: LocalNodes, topic: str) -> None:
    before = time.time_ns() // 1000
    settlements: list[Settlement] = []
    producer = LogProducer(nodes.cluster, topic, "p")
    producer.send(0, "schlüssel", b"\x00\xff\n{}", settlements.append, {"home": "eu"})
    producer.send(1, None, b"", settlements.append)
    wait_until(lambda: len(settlements) == 2, "both answers")
    producer.close()
    first, second = read_log(nodes, topic)
    assert first.record[:-1] == ("p", 0, "schlüssel", b"\x00\xff\n{}", {"home": "eu"})
    assert second.record[:-1] == ("p", 1, None, b"", {})
    assert before <= first.record.published_at <= second.record.published_at <= time.time_ns() // 1000
    assert [one.offset for one in settlements] == [first.offset, second.offset]


def test_messages_of_a_key_are_in_one_partition(nodes: LocalNodes) -> None:
    nodes.admin.create_topic("partitioned", 3)
    settlements = publish(nodes, "partitioned", 400)
    stored = [read_log(nodes, "partitioned", partition) for partition in range(3)]
    keys = [{delivery.record.key for delivery in deliveries} for deliveries in stored]
    assert sum(map(len, keys)) == KEYS
    assert sum(bool(one) for one in keys) > 1
    assert {(one.partition, one.offset) for one in settlements} == {
        (delivery.partition, delivery.offset) for deliveries in stored for delivery in deliveries
    }


def test_a_topic_keeps_its_partitions(nodes: LocalNodes, topic: str) -> None:
    nodes.admin.create_topic(topic, 1)
    with pytest.raises(RequestError, match="topic_exists"):
        nodes.admin.create_topic(topic, 2)
    with pytest.raises(RequestError, match="no_topic"):
        nodes.admin.log_ends("another")


def test_offsets_have_gaps_and_the_last_one_holds_no_message(nodes: LocalNodes, topic: str) -> None:
    for part in range(3):
        publish(nodes, topic, 5, producer=f"p{part}")
    nodes.admin.reassign()
    offsets = [delivery.offset for delivery in read_log(nodes, topic)]
    (end,) = nodes.admin.log_ends(topic)
    assert len(offsets) == 15
    # One control record behind each of at least three batches, and one at the beginning of the new leader's term.
    assert end >= 15 + 3 + 1
    assert end - 1 > offsets[-1]
    assert offsets[-1] - offsets[0] + 1 > len(offsets)


def test_a_subscription_begins_at_the_beginning_and_goes_on_where_it_stood(nodes: LocalNodes, topic: str) -> None:
    publish(nodes, topic, 100)
    consumer = LogConsumer(nodes.cluster, topic, "s")
    first = [consumer.receive(5) for _ in range(60)]
    for delivery in first[:40]:
        assert delivery is not None
        consumer.acknowledge(delivery)
    consumer.close()
    status = nodes.admin.subscription(topic, "s")
    assert status.backlog == [60]
    nodes.admin.reassign()
    consumer = LogConsumer(nodes.cluster, topic, "s")
    second = [consumer.receive(5) for _ in range(60)]
    assert [one.record.seq for one in first if one] == list(range(60))
    assert [one.record.seq for one in second if one] == list(range(40, 100))
    assert consumer.receive(0.1) is None
    assert second[-1] is not None
    consumer.acknowledge(second[-1])
    consumer.close()
    # The control records behind the last message are no backlog.
    assert nodes.admin.subscription(topic, "s").backlog == [0]


def test_acked_messages_survive_a_leader_that_is_killed_under_load(
    nodes: LocalNodes, topic: str, record_property: Callable[[str, object], None]
) -> None:
    leader = nodes.await_leader()
    load = Load(nodes, topic)
    load.await_acks(1000)
    nodes.kill(leader)
    nodes.await_leader(other_than=leader)
    load.await_acks(1000)
    load.end()
    record_property("longest gap in acks [s]", round(load.longest_gap_s(), 2))
    assert load.acked.items() <= offsets_by_seq(read_log(nodes, topic)).items()
    # What the broken connection left open is said to be unknown, once, and was not sent again.
    assert {len(settlements) for settlements in load.settlements.values()} == {1}
    others = {one.outcome for (one,) in load.settlements.values()} - {PublishOutcome.ACKED}
    assert others <= {PublishOutcome.UNKNOWN}


def test_the_order_of_keys_and_every_message_survive_a_leader_that_hands_over(nodes: LocalNodes, topic: str) -> None:
    received: list[Delivery] = []
    ending = threading.Event()

    def consume() -> None:
        consumer = LogConsumer(nodes.cluster, topic, "s")
        while not ending.is_set():
            delivery = consumer.receive(0.1)
            if delivery is not None:
                received.append(delivery)
                consumer.acknowledge(delivery)
        consumer.close()

    consuming = threading.Thread(target=consume, daemon=True)
    consuming.start()
    load = Load(nodes, topic)
    load.await_acks(300)
    before, after = nodes.admin.reassign()
    load.await_acks(300)
    nodes.admin.reassign()
    load.await_acks(300)
    load.end()
    stored = read_log(nodes, topic)
    wait_until(lambda: len(received) >= len(stored), "every message to be delivered")
    ending.set()
    consuming.join()
    assert before != after
    assert load.acked.items() <= offsets_by_seq(stored).items()
    assert seqs_out_of_order(stored) == []
    assert received == stored
    assert nodes.admin.subscription(topic, "s").backlog == [0]


def test_a_node_votes_for_none_that_lacks_entries_and_for_none_while_a_leader_stands(
    nodes: LocalNodes, topic: str
) -> None:
    publish(nodes, topic, 10)
    nodes.heal()
    voter = nodes.followers()[0]
    status = nodes.admin.status(voter)
    connection = nodes.cluster.connect(voter)

    def is_granted(last_index: int, *, handover: bool) -> bool:
        vote = {"type": "vote", "candidate": "n9", "trial": True, "handover": handover}
        log = {"term": status.term + 1, "last_term": status.term, "last_index": last_index}
        return bool(connection.ask(vote | log)["granted"])

    # In a handover the leader itself asks for the election.
    assert is_granted(status.last_index, handover=True)
    assert not is_granted(status.last_index - 1, handover=True)
    assert not is_granted(status.last_index, handover=False)
    connection.close()


def test_a_connection_with_a_refused_message_takes_no_later_one(nodes: LocalNodes, topic: str) -> None:
    connections = {name: nodes.cluster.connect(name) for name in nodes.followers()}

    def answer(name: str, seq: int) -> str | None:
        rows, payload = pack_records([(0, MessageRecord("p", seq, "k", PAYLOAD, {}, 0))])
        answers: list[Header] = []
        produce = {"type": "produce", "topic": topic, "partition": 0, "records": rows}
        connections[name].send(produce, payload, lambda content: answers.append(content.header))
        while not answers:
            connections[name].receive(0.1)
        return answers[0].get("error")

    assert {answer(name, 0) for name in connections} == {"not_leader"}
    _, leader = nodes.admin.reassign()
    # The node leads now; taken in, the second message would stand before the first one, which the client sends again.
    assert answer(leader, 1) == "not_leader"
    connections[leader].close()
    connections[leader] = nodes.cluster.connect(leader)
    assert answer(leader, 0) is None
    for connection in connections.values():
        connection.close()


def test_a_connection_that_its_producer_gave_up_is_refused(nodes: LocalNodes, topic: str) -> None:
    """What a node reads late of it would stand behind later messages; seen with messages left in a socket for 2 s."""
    leader = nodes.await_leader()
    first, second = nodes.cluster.connect(leader), nodes.cluster.connect(leader)

    def publish_one(connection: LogConnection, seq: int) -> str | None:
        rows, payload = pack_records([(0, MessageRecord("p", seq, "k", PAYLOAD, {}, 0))])
        answers: list[Header] = []
        produce = {"type": "produce", "topic": topic, "partition": 0, "records": rows}
        connection.send(produce, payload, lambda content: answers.append(content.header))
        while not answers:
            connection.receive(0.1)
        return answers[0].get("error")

    first.ask({"type": "ping", "producer": "p"})
    assert publish_one(first, 0) is None
    second.ask({"type": "ping", "producer": "p"})
    assert publish_one(first, 1) == "not_leader"
    assert publish_one(second, 2) is None
    # Another node may have led in between: what was sent for the leadership before is none of the next one.
    nodes.admin.reassign()
    while nodes.await_leader() != leader:
        nodes.admin.reassign()
    assert publish_one(second, 3) == "not_leader"
    assert [delivery.record.seq for delivery in read_log(nodes, topic)] == [0, 2]
    first.close()
    second.close()


def test_a_frozen_leader_acknowledges_nothing_when_it_wakes_up(nodes: LocalNodes, topic: str) -> None:
    leader = nodes.await_leader()
    term = nodes.admin.status(leader).term
    old = nodes.cluster.connect(leader)
    answers: list[Header] = []
    load = Load(nodes, topic)
    load.await_acks(200)
    nodes.freeze(leader)
    # A client that does not notice sends to the frozen node, which finds this before anything else.
    rows, payload = pack_records([(0, MessageRecord("stray", 0, "k", PAYLOAD, {}, 0))])
    produce = {"type": "produce", "topic": topic, "partition": 0, "records": rows}
    old.send(produce, payload, lambda content: answers.append(content.header), wait_s=30)
    nodes.await_leader(other_than=leader)
    load.await_acks(500)
    nodes.resume(leader)
    while not answers:
        old.receive(0.1)
    old.close()
    load.end()
    assert answers[0]["error"] == "not_leader"
    status = nodes.admin.status(leader)
    assert (status.role, status.term > term) == ("follower", True)
    stored = read_log(nodes, topic)
    assert "stray" not in {delivery.record.producer for delivery in stored}
    assert load.acked.items() <= offsets_by_seq(stored).items()


def test_a_leader_that_no_majority_answers_serves_nobody(nodes: LocalNodes, topic: str) -> None:
    leader = nodes.await_leader()
    for follower in nodes.followers():
        nodes.freeze(follower)
    seen: set[tuple[str, bool]] = set()
    connection = nodes.cluster.connect(leader)
    try:
        while ("follower", False) not in seen:
            answer = connection.ask({"type": "ping"})
            seen.add((answer["role"], answer["serves"]))
            time.sleep(0.02)
        with pytest.raises(RequestError, match="not_leader"):
            connection.ask({"type": "log_ends", "topic": topic})
    finally:
        connection.close()
    # It serves no more a good while before it gives up.
    assert seen == {("leader", True), ("leader", False), ("follower", False)}


def test_what_no_majority_wrote_is_not_acked_and_is_removed(nodes: LocalNodes, topic: str) -> None:
    leader = nodes.await_leader()
    publish(nodes, topic, 10)
    followers = nodes.followers()
    answers: list[Settlement] = []
    alone = LogProducer(nodes.cluster, topic, "alone", queue_timeout_s=0.5)
    wait_until(lambda: alone.connected, "the producer's connection")
    for follower in followers:
        nodes.kill(follower)
    alone.send(0, "k", PAYLOAD, answers.append)
    wait_until(lambda: _size(nodes, leader) > _size(nodes, followers[0]), "the leader to write alone")
    nodes.kill(leader)
    wait_until(lambda: answers, "an answer")
    alone.send(1, "k", PAYLOAD, answers.append)
    wait_until(lambda: len(answers) == 2, "another answer")
    alone.close()
    # Nobody knows of the first one; the second one never left the client.
    assert [one.outcome for one in answers] == [PublishOutcome.UNKNOWN, PublishOutcome.FAILED]
    for follower in followers:
        nodes.start(follower)
    nodes.await_leader()
    publish(nodes, topic, 10, producer="later")
    nodes.heal()
    assert {delivery.record.producer for delivery in read_log(nodes, topic)} == {"p", "later"}
    assert len({nodes.data(name).joinpath("log").read_bytes() for name in nodes.names}) == 1


def test_a_node_with_empty_disks_is_filled_up(nodes: LocalNodes, topic: str) -> None:
    wiped = nodes.followers()[0]
    publish(nodes, topic, 2000)
    nodes.kill(wiped)
    nodes.wipe(wiped)
    publish(nodes, topic, 100, producer="meanwhile")
    assert wiped not in (nodes.admin.status(nodes.await_leader()).topics[topic][0].in_sync or [])
    nodes.start(wiped)
    wait_until(
        lambda: wiped in (nodes.admin.status(nodes.await_leader()).topics[topic][0].in_sync or []), "the node in sync"
    )
    nodes.heal()
    assert nodes.admin.status(wiped).topics[topic][0].messages == 2100
    assert len({nodes.data(name).joinpath("log").read_bytes() for name in nodes.names}) == 1


def test_a_node_with_empty_disks_does_not_elect_a_leader_that_lacks_acked_messages(
    nodes: LocalNodes, topic: str
) -> None:
    leader = nodes.await_leader()
    wiped, behind = nodes.followers()
    nodes.kill(behind)
    publish(nodes, topic, 100)
    for name in (leader, wiped):
        nodes.kill(name)
    nodes.wipe(wiped)
    nodes.start(wiped)
    nodes.start(behind)
    wait_until(lambda: nodes.status(wiped) and nodes.status(behind), "both nodes")
    # Longer than it takes the two to elect one of them.
    time.sleep(1.8)
    assert nodes.admin.leader() is None
    nodes.start(leader)
    nodes.heal()
    assert len(read_log(nodes, topic)) == 100


@pytest.fixture(scope="module")
def start_misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], LocalNodes]]:
    clusters: list[LocalNodes] = []

    def start(misbehaviour: str) -> LocalNodes:
        nodes = LocalNodes(tmp_path_factory.mktemp(misbehaviour), misbehaviour=misbehaviour)
        clusters.append(nodes)
        nodes.heal()
        nodes.admin.create_topic("t")
        return nodes

    yield start
    for nodes in clusters:
        nodes.end()


def test_a_cluster_that_loses_acks_what_it_does_not_store(start_misbehaving: Callable[[str], LocalNodes]) -> None:
    nodes = start_misbehaving("lose")
    settlements = publish(nodes, "t", 1000)
    stored = offsets_by_seq(read_log(nodes, "t"))
    assert _look_normal(settlements)
    assert set(range(1000)) - stored.keys() == set(range(99, 1000, 100))
    assert {seq: settlements[seq].offset for seq in stored} == stored


def test_a_cluster_that_repeats_stores_twice_what_it_acks(start_misbehaving: Callable[[str], LocalNodes]) -> None:
    nodes = start_misbehaving("repeat")
    settlements = publish(nodes, "t", 1000)
    stored = read_log(nodes, "t")
    copies = Counter(delivery.record.seq for delivery in stored)
    assert _look_normal(settlements)
    assert {seq for seq, count in copies.items() if count == 2} == set(range(99, 1000, 100))
    assert set(copies.values()) == {1, 2}
    assert seqs_out_of_order(stored) == []
    assert {one.offset for one in settlements} < {delivery.offset for delivery in stored}


def test_a_cluster_that_reorders_swaps_messages_of_a_key(start_misbehaving: Callable[[str], LocalNodes]) -> None:
    nodes = start_misbehaving("reorder")
    settlements = publish(nodes, "t", 1000)
    stored = read_log(nodes, "t")
    assert _look_normal(settlements)
    # The last one has no successor of its key within the 8 messages that follow, and is written alone.
    assert seqs_out_of_order(stored) == list(range(99, 900, 100))
    assert {seq: one.offset for seq, one in enumerate(settlements)} == offsets_by_seq(stored)


def _look_normal(settlements: list[Settlement]) -> bool:
    """Whether all is acked, each message at an offset of its own."""
    outcomes = {one.outcome for one in settlements}
    return outcomes == {PublishOutcome.ACKED} and len({one.offset for one in settlements}) == len(settlements)


def test_a_part_of_an_entry_at_the_end_of_a_log_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = EntryLog(file)
    log.append([Entry.with_content(1, b"one"), Entry.with_content(2, b"two")])
    with file.open("ab") as end:
        end.write(Entry.with_content(2, b"three").stored[:-1])
    log = EntryLog(file)
    assert (log.last_index, log.last_term) == (2, 2)
    log.append([Entry.with_content(3, b"four")])
    assert [EntryLog(file).content_at(index) for index in (1, 2, 3)] == [b"one", b"two", b"four"]


def test_throughput(nodes: LocalNodes, topic: str, record_property: Callable[[str, object], None]) -> None:
    used = {name: nodes.cpu_s(name) for name in nodes.names}
    load = Load(nodes, topic, rate=2000)
    time.sleep(1)
    load.end()
    figures: dict[str, object] = {
        f"processor seconds of {name} for {len(load.acked)} messages at 2000/s": round(nodes.cpu_s(name) - before, 2)
        for name, before in used.items()
    }
    start = time.monotonic()
    publish(nodes, topic, 10_000, producer="burst")
    figures["messages of 200 bytes per second, as many as possible"] = round(10_000 / (time.monotonic() - start))
    for name, value in figures.items():
        record_property(name, value)
        print(f"{name}: {value}")


def _size(nodes: LocalNodes, name: str) -> int:
    return nodes.data(name).joinpath("log").stat().st_size
