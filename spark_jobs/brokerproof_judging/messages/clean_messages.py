"""Finds the clean messages of a part by arrays. Only the others, the suspicious ones, are judged by SQL.

A message is clean if everything is seen to be right: it was attempted once and acked at a position, is stored once in
each cluster that it has to reach, and was delivered once to each subscription there, with its key and payload, and in
order. So SQL can find no anomaly of it. SQL stays the only definition of anomalies, and a message that the arrays doubt
for no reason costs time but changes no result.

SQL compares messages with each other too. It needs only the *compared* ones: messages that are not in order, that share
a position, or that were acked at a lower one than before. Clean messages that these are compared with are *witnesses*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from brokerproof.experiment.topology import Topology
from brokerproof.run.tables import AttemptOutcome

from brokerproof_judging.evidence import list_replicas
from brokerproof_judging.messages import dense_order as order
from brokerproof_judging.messages.dense_arrays import (
    NO_NUMBER,
    NO_POSITION,
    NO_TIME,
    Array,
    Mask,
    NotDescribedError,
    PartArrays,
    Rows,
)
from brokerproof_judging.messages.dense_order import number_groups


@dataclass(frozen=True, kw_only=True)
class Published:
    """Columns by slot. If a message has several rows in `publishes`, it has the values of one of them."""

    attempts: Array
    topic: Array
    producer: Array
    home: Array
    partition: Array
    key: Array
    payload_hash: Array
    position: Array
    scheduled_at: Array
    sent_at: Array
    settled_at: Array
    epoch: Array

    @classmethod
    def from_arrays(cls, part: PartArrays) -> Published:
        rows, slots = part.publishes, part.slots
        columns = {}
        for name in ("partition", "key", "payload_hash", "position", "scheduled_at", "sent_at", "settled_at", "epoch"):
            columns[name] = scatter(slots.count, rows["slot"], rows[name])
        topic, producer, _ = (values.astype(np.int32)[slots.block_of_slots] for values in slots.split_blocks())
        return cls(
            attempts=np.bincount(rows["slot"], minlength=slots.count),
            topic=topic,
            producer=producer,
            home=scatter(slots.count, rows["slot"], rows["cluster"]),
            **columns,
        )


def scatter(count: int, slot: Array, values: Array) -> Array:
    """Return the value of each slot, 0 for a slot without a row."""
    scattered = np.zeros(count, values.dtype)
    scattered[slot] = values
    return scattered


@dataclass(frozen=True, kw_only=True)
class Copy:
    """The log of one cluster, by slot: whether a message has to be there, and the position of a copy."""

    is_required: Mask
    position: Array


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A subscription of one cluster, by slot: the times of a delivery and its ack, its arrival, and its incarnation."""

    received_at: Array
    acknowledged_at: Array
    arrival: Array
    incarnation: Array


@dataclass(frozen=True, kw_only=True)
class RangesOfBlocks:
    """The lowest and highest value of the events in each block, partition and incarnation."""

    # `position`, `received_at` or `arrival`, the cluster, and the subscription of deliveries.
    value: str
    cluster: int
    subscription: int | None
    block: Array
    partition: Array
    incarnation: Array
    lowest: Array
    highest: Array


@dataclass(kw_only=True)
class PartMessages:
    """The messages of a part by slot: which are clean, and which are compared. Clusters and texts are numbers."""

    part: PartArrays
    published: Published
    clean: Mask
    compared: Mask
    copies: dict[int, Copy] = field(default_factory=dict)
    # By cluster and subscription.
    deliveries: dict[tuple[int, int], Delivery] = field(default_factory=dict)
    # Of each list of events that is compared: the lowest and highest value in each block of a producer.
    ranges: list[RangesOfBlocks] = field(default_factory=list)
    # The number of each message's topic and producer, and that of its topic, producer and key.
    producers: Array = field(init=False)
    keys: Array = field(init=False)
    # The index of each slot's block.
    blocks: Array = field(init=False)

    def __post_init__(self) -> None:
        published = self.published
        self.producers = number_groups(published.topic, published.producer)
        self.keys = number_groups(self.producers, published.key)
        self.blocks = self.part.slots.block_of_slots


def find_clean(
    part: PartArrays,
    topology: Topology,
    subscriptions: Sequence[tuple[str, str]],
    turns: pa.Table,
    clock_error_us: int,
) -> PartMessages:
    """Return the messages of a part. `subscriptions` has (cluster, subscription) of each that has to get messages.

    `turns` has the columns of `turns.TURNS`.

    Raises NotDescribedError if the deliveries show that a clock was set back.
    """
    published = Published.from_arrays(part)
    found = PartMessages(
        part=part,
        published=published,
        clean=is_acked_once(part, published),
        # The arrays hold one attempt of a message. Names that were not published are those of phantoms.
        compared=published.attempts != 1,
    )
    required = find_required(part, topology)
    for table in (part.stored, part.deliveries):
        table["agrees"] = agrees(table, published)
    rows = part.deliveries
    rows["consumer_incarnation"] = number_groups(
        rows["cluster"], rows["subscription"], rows["consumer"], rows["incarnation"]
    )
    if not order.is_rising(rows["consumer_incarnation"], rows["arrival"], rows["received_at"]):
        raise NotDescribedError("the clock of a consumer was set back")
    named = [
        (part.names["cluster"].add(cluster), part.names["subscription"].add(name)) for cluster, name in subscriptions
    ]
    for cluster in range(len(part.names["cluster"])):
        _check_copies(found, cluster, required)
    for cluster, subscription in dict.fromkeys([*named, *_list_subscriptions(part.deliveries)]):
        _check_deliveries(found, cluster, subscription, (cluster, subscription) in named)
    _check_turns(found, turns)
    check_order(found, clock_error_us)
    return found


def is_acked_once(part: PartArrays, published: Published) -> Mask:
    """Return which messages have one attempt, which was acked in a partition, and all their times."""
    acked = part.names["outcome"].add(AttemptOutcome.ACKED)
    outcome = scatter(part.slots.count, part.publishes["slot"], part.publishes["outcome"])
    clean: Mask = (published.attempts == 1) & (outcome == acked) & (published.partition != NO_NUMBER)
    for times in (published.scheduled_at, published.sent_at, published.settled_at):
        clean &= times != NO_TIME
    return clean


def find_required(part: PartArrays, topology: Topology) -> Array:
    """Return whether a message has to reach a cluster, by its home, its topic and the cluster."""
    clusters, topics = part.names["cluster"], part.names["topic"]
    for cluster in topology.clusters:
        clusters.add(cluster)
    required = np.zeros((len(clusters), len(topics), len(clusters)), bool)
    for home in range(len(clusters)):
        required[home, :, home] = True
    for sender, topic, receiver in list_replicas(topology, topics.texts):
        required[clusters.find(sender), topics.find(topic), clusters.find(receiver)] = True
    return required


def agrees(rows: Rows, published: Published) -> Mask:
    """Return which found rows have the partition, key and payload of their published message, and a position."""
    slot = rows["slot"]
    if not len(published.key):
        return np.zeros(len(slot), bool)
    equal: Mask = (slot >= 0) & (rows["position"] != NO_POSITION)
    for name in ("partition", "key", "payload_hash"):
        equal &= rows[name] == getattr(published, name)[slot]
    return equal


def _check_copies(found: PartMessages, cluster: int, required: Array) -> None:
    """Demand one copy in the cluster if the message has to be there, at home at the acked position, and else none."""
    published, table = found.published, found.part.stored
    rows = select({name: table[name] for name in ("slot", "agrees", "position")}, table["cluster"] == cluster)
    is_required = required[published.home, published.topic, cluster]
    copies, count = count_named(rows, len(found.clean)), len(found.clean)
    named = rows["slot"] >= 0
    position = scatter(count, rows["slot"][named], rows["position"][named])
    found.clean &= copies == is_required
    found.clean[rows["slot"][named & ~rows["agrees"]]] = False
    found.clean &= (published.home != cluster) | (position == published.position)
    found.copies[cluster] = Copy(is_required=is_required, position=position)


def _check_deliveries(found: PartMessages, cluster: int, subscription: int, has_to_get: bool) -> None:
    """Demand one delivery from the stored position if the message has to be in the cluster, and else none."""
    table = found.part.deliveries
    columns = ("slot", "agrees", "position", "received_at", "acknowledged_at", "arrival", "consumer_incarnation")
    rows = select(
        {name: table[name] for name in columns},
        (table["cluster"] == cluster) & (table["subscription"] == subscription),
    )
    copy, named = found.copies[cluster], rows["slot"] >= 0
    found.clean &= count_named(rows, len(found.clean)) == (copy.is_required & has_to_get)
    slot = rows["slot"][named]
    found.clean[slot[~rows["agrees"][named] | (rows["position"][named] != copy.position[slot])]] = False
    by_slot = {
        name: scatter(len(found.clean), slot, rows[column][named])
        for name, column in (
            ("received_at", "received_at"),
            ("acknowledged_at", "acknowledged_at"),
            ("arrival", "arrival"),
            ("incarnation", "consumer_incarnation"),
        )
    }
    if has_to_get:
        found.deliveries[cluster, subscription] = Delivery(**by_slot)


def _check_turns(found: PartMessages, turns: pa.Table) -> None:
    """Doubt each message that a consumer received within the turn of another consumer."""
    rows, names = found.part.deliveries, found.part.names
    whole = turns.filter(pc.is_null(turns["since"]))
    for by_key in (False, True):
        columns = ("cluster", "topic", "subscription", "partition", *(["key"] if by_key else []))
        chosen = whole.filter(pc.is_valid(whole["key"]) if by_key else pc.is_null(whole["key"])).to_pylist()
        if not chosen:
            continue
        number = number_groups(*(rows[name] for name in columns))
        by_group = order.sort_stably(number)
        starts = order.list_runs(number[by_group])
        places = np.split(by_group, starts[1:])
        by_place = {tuple(int(rows[name][place[0]]) for name in columns): place for place in places if len(place)}
        for turn in chosen:
            numbers = {name: names[name].find(turn[name]) if name in names else turn[name] for name in turn}
            place = by_place.get(tuple(numbers[name] for name in columns))
            if place is None:
                continue
            is_other = rows["consumer"][place] != numbers["consumer"]
            is_other |= rows["incarnation"][place] != turn["incarnation"]
            received_at = rows["received_at"][place]
            slot = rows["slot"][place[is_other & (received_at > turn["first_at"]) & (received_at < turn["last_at"])]]
            found.clean[slot[slot >= 0]] = False


def select(rows: Rows, chosen: Mask) -> Rows:
    """Return the chosen rows."""
    if chosen.all():
        return dict(rows)
    places = np.flatnonzero(chosen)
    return {name: values[places] for name, values in rows.items()}


def count_named(rows: Rows, count: int) -> Array:
    """Return the number of rows of each slot."""
    slot = rows["slot"]
    return np.bincount(slot[slot >= 0], minlength=count)


def _list_subscriptions(deliveries: Rows) -> Iterator[tuple[int, int]]:
    cluster, subscription = deliveries["cluster"], deliveries["subscription"]
    for row in order.list_groups(number_groups(cluster, subscription))[0]:
        yield int(cluster[row]), int(subscription[row])


@dataclass(frozen=True, kw_only=True)
class Events:
    """First copies, or first deliveries of stored messages, with their `value`: a position, time or arrival."""

    slot: Array
    partition: Array
    value: Array
    # The consumer's incarnation if the value is an arrival, or else 0.
    incarnation: Array

    def take(self, chosen: Array) -> Events:
        return Events(
            slot=self.slot[chosen],
            partition=self.partition[chosen],
            value=self.value[chosen],
            incarnation=self.incarnation[chosen],
        )


def join_events(first: Events, second: Events) -> Events:
    return Events(
        **{
            name: np.concatenate([getattr(first, name), getattr(second, name)])
            for name in ("slot", "partition", "value", "incarnation")
        }
    )


def check_order(found: PartMessages, clock_error_us: int) -> None:
    """Doubt each clean message with a higher seq of its key before it. Find what SQL compares to judge the order."""
    rows = found.part.publishes
    if (rows["key"] != found.published.key[rows["slot"]]).any():
        raise NotDescribedError("a message was published with two keys")
    for cluster in found.copies:
        check_sequence(found, list_copies(found, cluster), "position", (cluster, None))
        for place in found.deliveries:
            if place[0] == cluster:
                received = list_deliveries(found, *place, "received_at")
                check_sequence(found, received, "received_at", place, clock_error_us)
                check_sequence(found, list_deliveries(found, *place, "arrival"), "arrival", place)


def list_ranges(found: PartMessages, value: str, place: tuple[int, int | None], events: Events) -> None:
    """Add the ranges of the blocks that have events."""
    block = found.blocks[events.slot]
    number = number_groups(block, events.partition, events.incarnation)
    first, _ = order.list_groups(number)
    count = int(number.max()) + 1 if len(number) else 0
    lowest, highest = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    if count:
        runs = order.list_runs(number)
        np.minimum.at(lowest, number[runs], np.minimum.reduceat(events.value, runs))
        np.maximum.at(highest, number[runs], np.maximum.reduceat(events.value, runs))
    found.ranges.append(
        RangesOfBlocks(
            value=value,
            cluster=place[0],
            subscription=place[1],
            block=block[first],
            partition=events.partition[first],
            incarnation=events.incarnation[first],
            lowest=lowest[number[first]],
            highest=highest[number[first]],
        )
    )


def check_sequence(
    found: PartMessages, listed: tuple[Events, Events], value: str, place: tuple[int, int | None], error: int = 0
) -> None:
    """Compare events of clean messages, and of others, by their values. Equal times of delivery are in order.

    What happened less than `error` earlier is not known to be before.
    """
    events, clean = join_events(*listed), len(listed[0].slot)
    list_ranges(found, value, place, events)
    may_tie = value == "received_at"
    # If two messages of a key are crossed, they are also crossed among all messages of their producer. Most are not.
    crossed = order.find_crossed(_compare(events, _group(events, found.producers)), clean, may_tie=may_tie)
    suspects = np.flatnonzero(np.logical_or(*crossed))
    if not len(suspects):
        return
    group = _group(events, found.keys)
    clean_suspects = int(np.count_nonzero(suspects < clean))
    crossed = order.find_crossed(_compare(events.take(suspects), group[suspects]), clean_suspects, may_tie=may_tie)
    late, early = (suspects[each] for each in crossed)
    found.clean[events.slot[late]] = False
    found.compared[events.slot[late]] = True
    found.compared[events.slot[early[early >= clean]]] = True
    is_rising = order.is_in_groups(group, group[late])
    is_rising[late] = False
    rows = np.flatnonzero(is_rising[:clean])
    rising = order.Rising(compared=_compare(events.take(rows), group[rows]), rows=order.sort_stably(group[rows]))
    found.compared[order.find_witnesses(rising, group[late], events.value[late] - error)] = True


def _group(events: Events, number: Array) -> Array:
    """Return the number of each event's group. `number` has a number for each slot."""
    return number_groups(number[events.slot], events.partition, events.incarnation)


def _compare(events: Events, group: Array) -> order.Compared:
    return order.Compared.from_values(events.slot, group, events.value)


def list_copies(found: PartMessages, cluster: int) -> tuple[Events, Events]:
    """Return the copies of clean messages in a log by producer and seq, and the first copies of the others."""
    copy, slot = found.copies[cluster], _list_required(found, cluster)
    return _make_events(slot, found.published.partition[slot], copy.position[slot]), _list_first_copies(found, cluster)


def _list_required(found: PartMessages, cluster: int) -> Array:
    return np.flatnonzero(found.clean & found.copies[cluster].is_required)


def _list_first_copies(found: PartMessages, cluster: int) -> Events:
    """Return the first copy in each partition of each message that is not clean."""
    rows = _select_others(found, found.part.stored, found.part.stored["cluster"] == cluster)
    sorted_rows = np.lexsort((rows["position"], rows["partition"], rows["slot"]))
    slot, partition, value = (rows[name][sorted_rows] for name in ("slot", "partition", "position"))
    is_first = np.ones(len(slot), bool)
    is_first[1:] = (slot[1:] != slot[:-1]) | (partition[1:] != partition[:-1])
    return _make_events(slot[is_first], partition[is_first], value[is_first])


def list_deliveries(found: PartMessages, cluster: int, subscription: int, value: str) -> tuple[Events, Events]:
    """Return the deliveries of clean messages by producer and seq, and the first ones of others that the log stores."""
    delivery, table = found.deliveries[cluster, subscription], found.part.deliveries
    is_arrival = value == "arrival"
    slot = _list_required(found, cluster)
    clean = _make_events(
        slot,
        found.published.partition[slot],
        getattr(delivery, value)[slot],
        delivery.incarnation[slot] if is_arrival else None,
    )
    rows = _select_others(found, table, (table["cluster"] == cluster) & (table["subscription"] == subscription))
    stored = _list_first_copies(found, cluster)
    first = np.full(len(found.clean), np.iinfo(np.int64).max)
    np.minimum.at(first, rows["slot"], rows["received_at"])
    # Arrivals follow the times within an incarnation, so the first delivery is one with the earliest time.
    rows = select(rows, rows["received_at"] == first[rows["slot"]])
    row, copy = order.join_by_slot(rows["slot"], stored.slot)
    incarnation = rows["consumer_incarnation"][row] if is_arrival else None
    return clean, _make_events(rows["slot"][row], stored.partition[copy], rows[value][row], incarnation)


def _select_others(found: PartMessages, table: Rows, chosen: Mask) -> Rows:
    return select(table, chosen & (table["slot"] >= 0) & ~_take(found.clean, table["slot"]))


def _take(values: Array, slot: Array) -> Array:
    return values[slot] if len(values) else np.zeros(len(slot), values.dtype)


def _make_events(slot: Array, partition: Array, value: Array, incarnation: Array | None = None) -> Events:
    incarnation = np.zeros(len(slot), np.int32) if incarnation is None else incarnation
    return Events(slot=slot, partition=partition, value=value, incarnation=incarnation)
