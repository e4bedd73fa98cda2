"""Writes runs of millions of messages with planted anomalies, column by column, for verify_scale.py.

Message number `id` is due `id / RATE_PER_S` seconds after the start. Each thing that happens to a message has the time
of a number. If a message is stored 4,000 numbers late, it is stored when message `id + 4000` is, and behind it. Several
rows of one number differ in their `lane`. In the tenth of the time after the fault, no message is acked before that
tenth ends, so a tenth of all messages is late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import IntEnum, auto
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brokerproof.checks import load_topology
from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.yaml_models import parse
from brokerproof.run.directory import Run
from brokerproof.run.division import DividedWriter, Division, commit_files
from brokerproof.run.records import (
    ClientRecordRead,
    ConsumerEnd,
    EpochRead,
    FaultsUndone,
    LoadEnd,
    LogRead,
    LogsRead,
    ObservationsWritten,
    PhaseTimes,
    ProducerEnd,
    Record,
    ReplicationDrain,
    ReplicationDrains,
    SubscriptionDrain,
    SubscriptionDrains,
    write_record,
)
from brokerproof.run.seals import WRITERS, seal_tables
from brokerproof.run.tables import SCHEMAS, FaultState
from brokerproof.systems.registry import name_topic

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"
# The topology, namespace and clusters of a run with this many clusters. All messages are published to the first one.
PLACES: Mapping[int, tuple[str, str, tuple[str, ...]]] = {
    1: ("sync_active_passive", "mytenant/eu", ("mycluster",)),
    2: ("geo_replication", "world/global", ("cluster-eu", "cluster-us")),
}
PRODUCERS, KEYS, RATE_PER_S = 8, 1000, 20_000
STEP_US = 1_000_000 // RATE_PER_S
START_US = 1_700_000_000_000_000
FAULT = "eu_killed"
SEGMENT_MESSAGES, BATCH_MESSAGES, LANES = 5_000_000, 10, 8
CHUNK = 1_000_000
# No anomaly is planted in as many messages at either end.
EDGE = 30_000
# In numbers of messages.
SOON, LATER, MUCH_LATER, EARLIER = 200, 4_000, 20_000, 400

Ints = npt.NDArray[np.int64]


class Kind(IntEnum):
    """What was planted in a message."""

    CLEAN = 0
    REDELIVERED = auto()
    REDELIVERED_AFTER_ACK = auto()
    STORED_TWICE = auto()
    RECOVERED = auto()
    UNANSWERED = auto()
    FAILED = auto()
    FAILED_BUT_STORED = auto()
    LOST = auto()
    UNDELIVERED = auto()
    STORED_OUT_OF_ORDER = auto()
    DELIVERED_OUT_OF_ORDER = auto()
    # Its payload is another one where it is stored and delivered.
    CORRUPTED = auto()
    # It is stored at the position of the next message, which is clean.
    CONFLICT = auto()
    REGRESSED = auto()
    # Its ack named a position at which no message is stored.
    MISMATCH = auto()
    # The message is clean, and a phantom is stored and delivered at the same time.
    PHANTOM = auto()
    NAMELESS_PHANTOM = auto()


# How many of 32 planted messages are of a kind.
MIXTURE: Mapping[Kind, int] = {
    Kind.REDELIVERED: 8,
    Kind.REDELIVERED_AFTER_ACK: 3,
    Kind.STORED_TWICE: 4,
    Kind.RECOVERED: 3,
    Kind.LOST: 2,
    Kind.UNDELIVERED: 2,
    **{kind: 1 for kind in Kind if Kind.UNANSWERED <= kind <= Kind.FAILED_BUT_STORED},
    **{kind: 1 for kind in Kind if kind >= Kind.STORED_OUT_OF_ORDER and kind != Kind.NAMELESS_PHANTOM},
}

# The anomalies of each kind, by the names of verify_questions.sql.
FOUND: Mapping[Kind, tuple[str, ...]] = {
    Kind.REDELIVERED: ("delivered_twice",),
    Kind.REDELIVERED_AFTER_ACK: ("redelivered_after_ack",),
    Kind.STORED_TWICE: ("stored_twice", "delivered_from_two_positions"),
    Kind.FAILED_BUT_STORED: ("failed_but_stored", "failed_but_delivered"),
    Kind.LOST: ("lost",),
    Kind.UNDELIVERED: ("undelivered",),
    Kind.STORED_OUT_OF_ORDER: ("stored_out_of_order",),
    Kind.DELIVERED_OUT_OF_ORDER: ("delivered_out_of_order",),
    Kind.CORRUPTED: ("corrupted_stored", "corrupted_delivered"),
    Kind.CONFLICT: ("position_conflict", "position_conflict"),
    Kind.REGRESSED: ("position_regressed",),
    Kind.MISMATCH: ("position_mismatch",),
    Kind.PHANTOM: ("phantom_stored", "phantom_delivered"),
    Kind.NAMELESS_PHANTOM: ("phantom_stored", "phantom_delivered"),
}


@dataclass(frozen=True)
class Plan:
    """What happens to each of `messages` messages, of which a share `suspicious` (0, 0.001 or 0.3) is not clean.

    Only a run without suspicious messages may have another number of keys, partitions, or several clusters.
    """

    messages: int
    suspicious: float
    keys: int = KEYS
    # 0 for a topic without partitions.
    partitions: int = 0
    clusters: int = 1

    @property
    def cluster_names(self) -> tuple[str, ...]:
        return PLACES[self.clusters][2]

    def find_partition(self, ids: Ints) -> Ints:
        """Return the partition of each message; -1 if the topic has no partitions."""
        return ids % self.keys % self.partitions if self.partitions else np.full(len(ids), -1)

    def count_by_partition(self) -> list[int]:
        counts = np.zeros(self.partitions, np.int64)
        for first in range(0, self.messages, CHUNK):
            ids = np.arange(first, min(first + CHUNK, self.messages), dtype=np.int64)
            counts += np.bincount(self.find_partition(ids), minlength=self.partitions)
        return counts.tolist()

    @property
    def duration_us(self) -> int:
        return self.messages * STEP_US

    @property
    def impact_at(self) -> int:
        return START_US + self.duration_us // 3

    @property
    def back_at(self) -> int:
        return self.impact_at + self.duration_us // 10

    def serve(self, numbers: Ints) -> Ints:
        """Return the times at which the cluster works at `numbers`, in µs."""
        at = START_US + numbers * STEP_US
        return np.where((at >= self.impact_at) & (at < self.back_at), self.back_at, at)

    def choose(self, ids: Ints) -> npt.NDArray[np.int8]:
        """Return the kind of each message. The next message, and the next one of its key, are clean."""
        mixture = np.repeat([int(kind) for kind in MIXTURE], list(MIXTURE.values())).astype(np.int8)
        period, slots = {0: (1, []), 0.001: (1000, [0]), 0.3: (10, [0, 3, 6])}[self.suspicious]
        planted = np.isin((ids % KEYS + ids // KEYS) % period, slots)
        planted &= (ids >= EDGE) & (ids < self.messages - EDGE)
        kinds = mixture[(ids * 2_654_435_761 >> 16) % len(mixture)]
        kinds[(kinds == Kind.PHANTOM) & (ids // KEYS % 2 == 1)] = Kind.NAMELESS_PHANTOM
        # Where nothing is acked, acks and deliveries of many messages have one time, and prove no order of the two.
        at, second = START_US + ids * STEP_US, 1_000_000
        planted &= ~(
            np.isin(kinds, [Kind.REDELIVERED_AFTER_ACK, Kind.REGRESSED])
            & (at >= self.impact_at - second)
            & (at < self.back_at + second)
        )
        return np.where(planted, kinds, np.int8(Kind.CLEAN))


@dataclass(frozen=True)
class Chunk:
    """The messages whose rows may lie in one chunk of a table."""

    plan: Plan
    ids: Ints
    kinds: npt.NDArray[np.int8]

    @classmethod
    def around(cls, plan: Plan, first: int, end: int) -> Chunk:
        ids = np.arange(max(0, first - MUCH_LATER), min(plan.messages, end + EARLIER + 1), dtype=np.int64)
        return cls(plan, ids, plan.choose(ids))

    def are(self, *kinds: Kind) -> npt.NDArray[np.bool_]:
        return np.isin(self.kinds, kinds)

    def place(self) -> tuple[Ints, Ints]:
        """Return the number and the lane of each message's first copy."""
        number, lane = self.ids.copy(), np.zeros_like(self.ids)
        for kind, shift, chosen in (
            (Kind.STORED_OUT_OF_ORDER, LATER, 2),
            (Kind.CONFLICT, 1, 0),
            (Kind.REGRESSED, -EARLIER, 3),
        ):
            number[self.are(kind)] += shift
            lane[self.are(kind)] = chosen
        return number, lane


# Rows of a table before they have columns: message, number, lane of the position, whether it is a phantom.
Copies = tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]


def _list_copies(chunk: Chunk) -> Copies:
    number, lane = chunk.place()
    stored = ~chunk.are(Kind.LOST, Kind.UNANSWERED, Kind.FAILED)
    twice, phantoms = chunk.are(Kind.STORED_TWICE), chunk.are(Kind.PHANTOM, Kind.NAMELESS_PHANTOM)
    parts = [
        (chunk.ids[stored], number[stored], lane[stored], False),
        (chunk.ids[twice], chunk.ids[twice] + MUCH_LATER, np.int64(1), False),
        (chunk.ids[phantoms], chunk.ids[phantoms], np.int64(4), True),
    ]
    return _join(parts)


def _join(parts: list[tuple[Ints, Ints, Any, bool]]) -> Copies:
    sizes = [len(ids) for ids, *_ in parts]
    return (
        np.concatenate([ids for ids, *_ in parts]),
        np.concatenate([numbers for _, numbers, *_ in parts]),
        np.concatenate([np.broadcast_to(lane, size) for (*_, lane, _), size in zip(parts, sizes, strict=True)]),
        np.repeat([phantom for *_, phantom in parts], sizes),
    )


def _make_position(number: Ints, lane: Ints) -> dict[str, Any]:
    return {
        "segment": number // SEGMENT_MESSAGES,
        "offset": number % SEGMENT_MESSAGES // BATCH_MESSAGES,
        "batch_index": (number % BATCH_MESSAGES + BATCH_MESSAGES * lane).astype(np.int32),
    }


def _hash(ids: Ints) -> Ints:
    return (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)


def _take(names: pa.Array, indices: Ints, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return names.take(pa.array(indices, mask=nulls))


def make_publishes(plan: Plan, first: int, end: int) -> dict[str, Any]:
    """Return the columns of `publishes` for the messages from `first` to before `end`."""
    chunk = Chunk.around(plan, first, end)
    number, lane = chunk.place()
    # A stored-twice message was acked only when its client sent it again.
    number[chunk.are(Kind.STORED_TWICE)] += MUCH_LATER
    lane[chunk.are(Kind.STORED_TWICE)] = 1
    lane[chunk.are(Kind.MISMATCH)] = 5
    inside = (chunk.ids >= first) & (chunk.ids < end)
    ids, number, lane = chunk.ids[inside], number[inside], lane[inside]
    chunk = Chunk(plan, ids, chunk.kinds[inside])
    failed = chunk.are(Kind.FAILED, Kind.FAILED_BUT_STORED)
    unknown = chunk.are(Kind.RECOVERED, Kind.UNANSWERED)
    unacked = failed | unknown
    at = START_US + ids * STEP_US
    position = _make_position(number, lane)
    return {
        "partition": pa.array(plan.find_partition(ids), mask=unacked),
        **_identify(plan, ids),
        "epoch": np.zeros(len(ids), np.int32),
        "payload_hash": _hash(ids),
        "scheduled_at": at,
        "sent_at": at + 20,
        "settled_at": pa.array(np.maximum(plan.serve(ids), plan.serve(number)) + 4000, mask=unknown),
        "outcome": _take(pa.array(["acked", "failed", "unknown"]), failed + 2 * unknown),
        "error": _take(pa.array(["it was refused", "no answer"]), unknown.astype(np.int64), ~unacked),
        **{name: pa.array(values, mask=unacked) for name, values in position.items()},
    }


def _list_producers(plan: Plan) -> pa.Array:
    return pa.array([f"{plan.cluster_names[0]}-p{number}" for number in range(PRODUCERS)])


def _identify(plan: Plan, ids: Ints) -> dict[str, Any]:
    return {
        "producer": _take(_list_producers(plan), ids % PRODUCERS),
        "seq": ids // PRODUCERS,
        "key": _take(pa.array([f"k{number}" for number in range(plan.keys)]), ids % plan.keys),
    }


def _describe_found(plan: Plan, ids: Ints, phantom: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return the columns of found messages; a phantom has no name, or a seq that its producer never had."""
    kinds = plan.choose(ids)
    nameless = phantom & (kinds == Kind.NAMELESS_PHANTOM)
    seq = ids // PRODUCERS + np.where(phantom, plan.messages, 0)
    return {
        **_identify(plan, ids),
        "producer": _take(_list_producers(plan), ids % PRODUCERS, nameless),
        "seq": pa.array(seq, mask=nameless),
        "payload_hash": _hash(ids) + (kinds == Kind.CORRUPTED),
    }


def make_stored(plan: Plan, first: int, end: int) -> dict[str, Any]:
    """Return the columns of `stored` for the positions from number `first` to before `end`, in the log's order."""
    ids, number, lane, phantom = _list_copies(Chunk.around(plan, first, end))
    inside = np.flatnonzero((number >= first) & (number < end))
    order = inside[np.argsort(number[inside] * LANES + lane[inside], kind="stable")]
    ids, number, lane, phantom = ids[order], number[order], lane[order], phantom[order]
    return {
        "partition": plan.find_partition(ids),
        **_describe_found(plan, ids, phantom),
        **_make_position(number, lane),
        "published_at": START_US + ids * STEP_US,
        "replicated_from": pa.nulls(len(ids), pa.string()),
    }


def make_deliveries(plan: Plan, first: int, end: int) -> dict[str, Any]:
    """Return the columns of `deliveries` for the times from number `first` to before `end`, in order of arrival."""
    chunk = Chunk.around(plan, first, end)
    ids = chunk.ids
    number, lane = chunk.place()
    got = ~chunk.are(Kind.LOST, Kind.UNANSWERED, Kind.FAILED, Kind.UNDELIVERED)
    received = np.where(chunk.are(Kind.REGRESSED), ids, number)
    received[chunk.are(Kind.DELIVERED_OUT_OF_ORDER)] += LATER
    again, again_acked = chunk.are(Kind.REDELIVERED), chunk.are(Kind.REDELIVERED_AFTER_ACK)
    twice, phantoms = chunk.are(Kind.STORED_TWICE), chunk.are(Kind.PHANTOM, Kind.NAMELESS_PHANTOM)
    turn = np.where(chunk.are(Kind.CONFLICT), 6, np.where(chunk.are(Kind.DELIVERED_OUT_OF_ORDER), 5, lane))
    # Message, number and lane of the position, number of the time, turn among those of one time, whether a phantom.
    parts: list[tuple[Ints, Ints, Any, Ints, Any, bool]] = [
        (ids[got], number[got], lane[got], received[got], turn[got], False),
        (ids[again], ids[again], 0, ids[again] + SOON, 7, False),
        (ids[again_acked], ids[again_acked], 0, ids[again_acked] + LATER, 7, False),
        (ids[twice], ids[twice] + MUCH_LATER, 1, ids[twice] + MUCH_LATER, 1, False),
        (ids[phantoms], ids[phantoms], 4, ids[phantoms], 4, True),
    ]
    sizes = [len(part[0]) for part in parts]
    ids, number, lane, received, turn, phantom = (
        np.concatenate(
            [np.broadcast_to(np.asarray(part[index]), size) for part, size in zip(parts, sizes, strict=True)]
        )
        for index in range(6)
    )
    is_first = np.repeat([True, False, False, False, False], sizes)
    inside = np.flatnonzero((received >= first) & (received < end))
    order = inside[np.argsort(received[inside] * LANES + turn[inside], kind="stable")]
    ids, number, lane, received, turn, phantom, is_first = (
        values[order] for values in (ids, number, lane, received, turn, phantom, is_first)
    )
    rows, at = len(ids), plan.serve(received) + 5000
    unconfirmed = is_first & (plan.choose(ids) == Kind.REDELIVERED)
    return {
        "partition": plan.find_partition(ids),
        "subscription": _take(pa.array(["audit"]), np.zeros(rows, np.int64)),
        "consumer": _take(pa.array(["audit-c0"]), np.zeros(rows, np.int64)),
        "incarnation": np.zeros(rows, np.int32),
        "arrival": received * LANES + turn,
        "received_at": at,
        **_describe_found(plan, ids, phantom),
        **_make_position(number, lane),
        "redelivery_count": (~is_first).astype(np.int32),
        "published_at": START_US + ids * STEP_US,
        "replicated_from": pa.nulls(rows, pa.string()),
        "acknowledged_at": pa.array(at + 1000, mask=unconfirmed),
    }


MAKERS = {"publishes": make_publishes, "stored": make_stored, "deliveries": make_deliveries}


def _write_table(run: Run, plan: Plan, table: str) -> int:
    """Write a table and return its number of rows of each cluster."""
    rows = 0
    clusters = plan.cluster_names[:1] if table == "publishes" else plan.cluster_names
    with DividedWriter(run.table(table), table, Division.for_run(run)) as writer:
        # The last rows happen after the last message.
        for first in range(0, plan.messages + MUCH_LATER, CHUNK):
            columns = MAKERS[table](plan, first, first + CHUNK)
            for cluster in clusters:
                writer.add(_make_batch(table, run, cluster, columns))
            rows += len(columns["seq"])
    commit_files(run.table(table), writer.names)
    return rows


def _make_batch(table: str, run: Run, cluster: str, columns: Mapping[str, Any]) -> pa.RecordBatch:
    size = len(columns["seq"])
    constants = {"run_id": run.run_id, "cluster": cluster, "topic": name_topic(run)}
    schema = SCHEMAS[table]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([constants[field.name]]).take(pa.array(np.zeros(size, np.int64)))
            if field.name in constants
            else pa.array(columns[field.name]).cast(field.type)
            for field in schema
        ],
        schema=schema,
    )


def count_planted(plan: Plan) -> dict[str, int]:
    """Return the number of messages with each anomaly, by the names of verify_questions.sql."""
    kinds: Counter[Kind] = Counter()
    for first in range(0, plan.messages, CHUNK):
        ids = np.arange(first, min(first + CHUNK, plan.messages), dtype=np.int64)
        for kind, count in enumerate(np.bincount(plan.choose(ids))):
            kinds[Kind(kind)] += int(count)
    found: Counter[str] = Counter()
    for kind, names in FOUND.items():
        for name in names:
            found[name] += kinds[kind]
    return dict(found)


def count_outcomes(plan: Plan, producer: int) -> dict[str, int]:
    """Return the number of a producer's messages with each outcome."""
    counts = dict.fromkeys(("acked", "failed", "unknown", "not_sent"), 0)
    for first in range(0, plan.messages, CHUNK):
        ids = np.arange(first, min(first + CHUNK, plan.messages), dtype=np.int64)
        kinds = plan.choose(ids[ids % PRODUCERS == producer])
        failed = int(np.isin(kinds, [Kind.FAILED, Kind.FAILED_BUT_STORED]).sum())
        unknown = int(np.isin(kinds, [Kind.RECOVERED, Kind.UNANSWERED]).sum())
        counts["failed"] += failed
        counts["unknown"] += unknown
        counts["acked"] += len(kinds) - failed - unknown
    return counts


def write_run(directory: str, plan: Plan) -> Run:
    """Write a whole run, as the jobs leave it: tables, records and seals."""
    topology, namespace, clusters = PLACES[plan.clusters]
    content = {
        **{"name": "scale", "title": "t", "description": "d", "topology": topology},
        "workload": {
            **{"namespace": namespace, "rate": RATE_PER_S, "keys": plan.keys, "producers": PRODUCERS},
            "partitions": plan.partitions,
            "subscriptions": [{"name": "audit", "cluster": cluster} for cluster in clusters],
        },
        "phases": dict.fromkeys(("steady_s", "impact_s", "recovery_s"), plan.messages / RATE_PER_S / 3),
        "faults": [{"name": FAULT, "kind": "kill", "targets": {"region": "eu"}, "permanent": True}],
    }
    run = Run.create(
        directory,
        run_id="scale",
        scenario=parse(Scenario, content, file="scale"),
        topology=load_topology(topology, TOPOLOGIES),
        sealed=True,
    )
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as pool:
        rows = dict(zip(MAKERS, pool.map(_write_table, [run] * 3, [plan] * 3, MAKERS), strict=True))
    states = (FaultState.INJECTING, FaultState.EFFECTIVE)
    row = {"run_id": run.run_id, "fault": FAULT, "kind": "kill", "targets": ["broker-eu-1"], "evidence": "{}"}
    run.append("faults", [{**row, "state": state, "at": plan.impact_at} for state in states])
    for record in _list_records(run, plan, rows):
        write_record(run, record)
    seal_tables(run, *WRITERS)
    return run


def _list_records(run: Run, plan: Plan, rows: Mapping[str, int]) -> Iterator[Record]:
    at = START_US + plan.duration_us
    topic = name_topic(run)
    places = [
        {"cluster": cluster, "topic": topic, "partition": number}
        for cluster in plan.cluster_names
        for number in range(plan.partitions) or [-1]
    ]
    ends = []
    for task in plan_producers(run):
        counts = count_outcomes(plan, task.number)
        end = {"task": task.number, "producer": task.producer, "scheduled": sum(counts.values()), **counts}
        ends.append(ProducerEnd(**end, epoch=0, segments=1, problem=None, at=at))
        yield _make_read(task.client, sum(counts.values()), at)
    yield from ends
    yield LoadEnd(finished=True, why="", scheduled=plan.messages, producers=tuple(ends), at=at)
    for task in plan_consumers(run):
        count = rows["deliveries"]
        end = {"task": task.number, "consumer": task.consumer, "delivered": count}
        yield ConsumerEnd(**end, epoch=0, segments=1, problem=None, at=at)
        yield _make_read(task.client, count, at)
    drains = [SubscriptionDrain(subscription="audit", drained=True, why="0", **place) for place in places]
    yield SubscriptionDrains(subscriptions=tuple(drains), at=at)
    home, *others = plan.cluster_names
    replicated = [
        ReplicationDrain(**{"topic": topic, "from": home, "to": other}, drained=True, why="0") for other in others
    ]
    yield ReplicationDrains(drains=tuple(replicated), at=at)
    counts = plan.count_by_partition() if plan.partitions else [rows["stored"]]
    reads = [
        LogRead(task=0, end=None, read_to_end=True, why="read", messages=count, **place)
        for place, count in zip(places, counts * plan.clusters, strict=True)
    ]
    yield LogsRead(started_at=at, finished_at=at, logs=tuple(reads))
    yield FaultsUndone(undone=True, problems=(), at=at)
    yield ObservationsWritten(at=at)
    third = plan.duration_us // 3
    yield PhaseTimes(steady_at=START_US, impact_at=plan.impact_at, recovery_at=START_US + 2 * third, ends_at=at)


def _make_read(client: str, rows: int, at: int) -> ClientRecordRead:
    return ClientRecordRead(client=client, epochs=(EpochRead(epoch=0, segments=1, rows=rows, missing=()),), at=at)
