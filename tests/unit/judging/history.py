"""A synthetic run: histories with a known flaw, or none, written as a real run's directory.

Times are microseconds after `START`. A clean history publishes one message every millisecond, which is acked 400 µs
after it was sent, stored one entry after the other, and delivered 100 µs later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from brokerproof import clock
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import parse
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    FaultsUndone,
    LoadEnd,
    LogRead,
    LogsRead,
    Record,
    ReplicationDrain,
    ReplicationDrains,
    SubscriptionDrain,
    SubscriptionDrains,
    UnreadablePart,
    write_record,
)
from brokerproof.systems.registry import find_system

START = 1_700_000_000_000_000
MILLISECOND = 1000
SECOND = 1_000_000
SEGMENT = 5
NAMESPACE, REPLICATED = "mytenant/eu", "mytenant/geo"
TOPIC = f"persistent://{NAMESPACE}/orders"

Row = dict[str, Any]


def topology(clusters: tuple[str, ...] = ("main",)) -> Topology:
    """Clusters of two regions each, with a namespace of each cluster's own and one that reaches all of them."""
    return parse(
        Topology,
        {
            "title": "t",
            "description": "d",
            "clusters": {
                cluster: {
                    "nodes": {
                        f"metadata-{cluster}": {"role": "metadata", "region": "witness"},
                        **{
                            f"{role}-{region}-{number}-{cluster}": {"role": role, "region": region}
                            for role in ("broker", "bookie")
                            for region in ("eu", "us")
                            for number in (1, 2)
                        },
                    },
                    "namespaces": {NAMESPACE: {}, REPLICATED: {"replicated_to": list(clusters)}},
                }
                for cluster in clusters
            },
        },
        file="topology",
    )


class History:
    """Rows of a run's tables and its evidence, to be changed at will and then written.

    `topic` is the one that rows are made and looked for in; one history may tell of many topics.
    """

    def __init__(self, *, clusters: tuple[str, ...] = ("main",), **scenario: Any) -> None:
        self.topology = topology(clusters)
        self.topic = TOPIC
        subscriptions = scenario.pop("subscriptions", [{"name": "audit"}])
        self.scenario = parse(
            Scenario,
            {
                "name": "planted",
                "title": "t",
                "description": "d",
                "topology": "t",
                "workload": {"namespace": NAMESPACE, "subscriptions": subscriptions, **scenario.pop("workload", {})},
                **scenario,
            },
            file="scenario",
        )
        self.facts: dict[str, Any] = {}
        self.publishes: list[Row] = []
        self.stored: list[Row] = []
        self.deliveries: list[Row] = []
        self.outputs: list[Row] = []
        self.faults: list[Row] = []
        self.observations: list[Row] = []
        self.copies: list[Row] = []
        # Those that are None are not left.
        self.records: dict[type[Record], Record | None] = {}
        self.leave(LoadEnd(finished=True, why="", scheduled=0, producers=(), at=START))
        self.leave(FaultsUndone(undone=True, problems=(), at=START))
        self._entries: dict[tuple[str, str, int], int] = {}
        # By topic, the partitions that were published to.
        self.partitions: dict[str, set[int]] = {}
        # By cluster, topic and partition.
        self.unread: dict[tuple[str, str, int], dict[str, Any]] = {}
        # By cluster, topic and partition: what the log's reader counted, by default the rows of `stored`.
        self.read_counts: dict[tuple[str, str, int], int | None] = {}
        self._unrecorded: set[tuple[str, ...]] = set()
        self._undrained: set[tuple[str, str, str]] = set()
        self._unreplicated: set[tuple[str, str, str]] = set()
        self._drained_to: dict[tuple[str, ...], tuple[int, int]] = {}

    # One message ------------------------------------------------------------------------------------------------

    def message(
        self,
        producer: str,
        seq: int,
        *,
        cluster: str = "main",
        partition: int = -1,
        key: str | None = None,
        at: int | None = None,
    ) -> Row:
        """Publish, ack, store and deliver a message everywhere.

        Returns the row of `publishes`.
        """
        if at is None:
            at = sum(row["topic"] == self.topic for row in self.publishes) * MILLISECOND
        entry = self.next_entry(cluster, partition)
        place = {"cluster": cluster, "partition": partition}
        name = {"producer": producer, "seq": seq, "key": key or f"{producer}-key-{seq % 2}"}
        self.publish(**place, **name, at=at, segment=SEGMENT, offset=entry)
        published = self.publishes[-1]
        for other, subscriptions in self.list_reached(cluster).items():
            # Another cluster has other positions.
            there = entry if other == cluster else self.next_entry(other, partition) + 100
            copy = {**place, "cluster": other, **name, "segment": SEGMENT, "offset": there}
            self.store(**copy, replicated_from=None if other == cluster else cluster)
            for subscription in subscriptions:
                self.deliver(**copy, subscription=subscription, at=at + 500)
                if subscription in self.writing:
                    self.write_output(**copy, subscription=subscription, at=at + 520)
        return published

    @property
    def writing(self) -> set[str]:
        """The subscriptions whose consumers write outputs."""
        return {each.name for each in self.scenario.workload.subscriptions if each.outputs_guarantee is not None}

    def publish(self, *, at: int, producer: str, seq: int, **values: Any) -> Row:
        """A row of `publishes`, acked unless said otherwise, sent `at` and settled 400 µs later.

        Only an ack names the partition.
        """
        if (partition := values.get("partition", -1)) is not None:
            self.partitions.setdefault(self.topic, set()).add(partition)
        row: Row = {
            **{"cluster": "main", "topic": self.topic, "partition": -1, "epoch": 0, "outcome": "acked"},
            **{"producer": producer, "seq": seq, "key": key_of(producer, seq), "payload_hash": hash_of(producer, seq)},
            **{"scheduled_at": START + at, "sent_at": START + at, "settled_at": START + at + 400},
            **values,
        }
        if row["outcome"] != "acked":
            row["partition"] = None
        self.publishes.append(row)
        return row

    def never_answer(self, producer: str, seq: int, outcome: str = "unknown") -> Row:
        """Have an attempt end without an ack, which would have named a partition and a position."""
        row = self.rows("publishes", producer, seq)[0]
        row.update(outcome=outcome, partition=None, segment=None, offset=None)
        return row

    def store(self, *, producer: str | None, seq: int | None, **values: Any) -> Row:
        """A row of `stored`."""
        row = {
            **{"cluster": "main", "topic": self.topic, "partition": -1, "segment": SEGMENT},
            **{"producer": producer, "seq": seq, "key": key_of(producer, seq)},
            **{"payload_hash": hash_of(producer, seq), **values},
        }
        self.stored.append(row)
        return row

    def deliver(self, *, at: int, producer: str | None, seq: int | None, acked: int | None = 50, **values: Any) -> Row:
        """A row of `deliveries`, received `at` and its ack confirmed `acked` µs later, never if None."""
        row = {
            **{"cluster": "main", "topic": self.topic, "partition": -1, "segment": SEGMENT},
            **{"subscription": "audit", "consumer": "consumer-0", "incarnation": 0, "redelivery_count": 0},
            **{"producer": producer, "seq": seq, "key": key_of(producer, seq)},
            **{"payload_hash": hash_of(producer, seq)},
            **{"arrival": len(self.deliveries), "received_at": START + at},
            "acknowledged_at": None if acked is None else START + at + acked,
            **values,
        }
        self.deliveries.append(row)
        return row

    def write_output(self, *, at: int, producer: str | None, seq: int | None, **values: Any) -> Row:
        """A row of `outputs`, written `at`."""
        row = {
            **{"cluster": "main", "topic": self.topic, "partition": -1, "segment": SEGMENT},
            **{"subscription": "audit", "consumer": "consumer-0", "incarnation": 0},
            **{"producer": producer, "seq": seq, "key": key_of(producer, seq)},
            **{"payload_hash": hash_of(producer, seq), "object": f"output-{len(self.outputs)}"},
            **{"written_at": START + at, **values},
        }
        self.outputs.append(row)
        return row

    def next_entry(self, cluster: str = "main", partition: int = -1) -> int:
        """The next free entry of the topic's log."""
        place = (cluster, self.topic, partition)
        self._entries[place] = self._entries.get(place, -1) + 1
        return self._entries[place]

    def list_reached(self, home: str) -> dict[str, list[str]]:
        """Every cluster that a message of the topic published in `home` has to reach, with its subscriptions."""
        clusters = list(self.topology.clusters) if f"/{REPLICATED}/" in self.topic else [home]
        return {
            cluster: [
                each.name for each in self.scenario.workload.subscriptions if each.find_home(self.topology) == cluster
            ]
            for cluster in clusters
        }

    # Many messages ----------------------------------------------------------------------------------------------

    def clean(self, producers: int = 2, messages: int = 6, **values: Any) -> History:
        """Messages of several producers in turn, two keys each, with nothing wrong."""
        for seq in range(messages):
            for number in range(producers):
                self.message(f"p{number}", seq, **values)
        return self

    def rows(self, table: str, producer: str, seq: int, **values: Any) -> list[Row]:
        """The rows of a message of the topic in a table, in their order."""
        wanted = {"topic": self.topic, "producer": producer, "seq": seq, **values}
        return [row for row in getattr(self, table) if all(row.get(name) == value for name, value in wanted.items())]

    def forget(self, table: str, producer: str, seq: int, **values: Any) -> Row:
        """Take the rows of a message out of a table; returns the first of them."""
        gone = self.rows(table, producer, seq, **values)
        assert gone, f"{table} holds no {producer}/{seq}"
        getattr(self, table)[:] = [row for row in getattr(self, table) if row not in gone]
        return gone[0]

    # Evidence ---------------------------------------------------------------------------------------------------

    def leave(self, record: Record) -> None:
        """Have a record left, in the place of another one of its kind."""
        self.records[type(record)] = record

    def not_read_to_end(
        self,
        cluster: str = "main",
        *,
        partition: int = -1,
        passed: tuple[int, int] | None = None,
        unreadable: Sequence[tuple[tuple[int, int], tuple[int, int]]] = (),
    ) -> None:
        """Have a log of the topic not read to its end, but up to `passed`, except for parts that are `unreadable`."""
        parts = tuple(UnreadablePart(start=start, end=end) for start, end in unreadable)
        self.unread[cluster, self.topic, partition] = {"passed": passed, "unreadable": parts}

    def not_recorded(self, *place: str) -> None:
        """Have no record left of the topic: of the reading of a cluster's logs, or of replication (home, other)."""
        self._unrecorded.add((self.topic, *place))

    def drained_to(self, end: tuple[int, int], *place: str) -> None:
        """Have a drain of the topic prove only what lies before `end`.

        `place` is (cluster, subscription) or, of replication, (home, other cluster).
        """
        self._drained_to[self.topic, *place] = end

    def not_drained(self, subscription: str = "audit", cluster: str = "main") -> None:
        """Have a subscription of the topic not drained."""
        self._undrained.add((cluster, self.topic, subscription))

    def not_replicated(self, home: str = "main", other: str = "other") -> None:
        """Have the topic's replication not drained."""
        self._unreplicated.add((self.topic, home, other))

    def write(self, directory: Path) -> Run:
        """Write everything as a run's directory."""
        run = Run.create(str(directory), run_id="r1", scenario=self.scenario, topology=self.topology, **self.facts)
        tables = ("publishes", "stored", "deliveries", "faults", "observations", "copies")
        for table in (*tables, *(["outputs"] if self.writing else [])):
            rows = getattr(self, table)
            run.append(table, [{"run_id": "r1", **row} for row in rows])
        for record in (self._proofs() | self.records).values():
            if record is not None:
                write_record(run, record)
        return run

    def _proofs(self) -> dict[type[Record], Record | None]:
        # As a run does, it reads every partition of the workload, also one that nothing was published to.
        workload = self.scenario.workload
        topic_of_workload = find_system(self.topology).topic(workload)
        places = sorted(
            {
                *((topic, partition) for topic, partitions in self.partitions.items() for partition in partitions),
                *((topic_of_workload, partition) for partition in workload.list_partitions()),
            }
        )
        rows = Counter((row["cluster"], row["topic"], row["partition"]) for row in self.stored)
        logs = [(cluster, *place) for cluster in self.topology.clusters for place in places]
        read = LogsRead(
            started_at=START + 100 * SECOND,
            finished_at=START + 110 * SECOND,
            logs=tuple(
                LogRead(
                    task=task,
                    cluster=cluster,
                    topic=topic,
                    partition=partition,
                    end="5:100",
                    read_to_end=(cluster, topic, partition) not in self.unread,
                    why="the reader stopped",
                    messages=self.read_counts.get((cluster, topic, partition), rows[cluster, topic, partition]),
                    **self.unread.get((cluster, topic, partition), {}),
                )
                for task, (cluster, topic, partition) in enumerate(logs)
                if (topic, cluster) not in self._unrecorded
            ),
        )
        drains = SubscriptionDrains(
            subscriptions=tuple(
                SubscriptionDrain(
                    cluster=cluster,
                    topic=topic,
                    partition=partition,
                    subscription=each.name,
                    drained=(cluster, topic, each.name) not in self._undrained,
                    end=self._drained_to.get((topic, cluster, each.name)),
                    why="a backlog of 3",
                )
                for cluster, topic, partition in logs
                for each in self.scenario.workload.subscriptions
                if each.list_clusters(self.topology)[-1] == cluster
            ),
            at=START,
        )
        replication = ReplicationDrains(
            drains=tuple(
                ReplicationDrain(
                    topic=topic,
                    sender=home,
                    receiver=other,
                    drained=(topic, home, other) not in self._unreplicated,
                    ends=dict.fromkeys(
                        [partition for name, partition in places if name == topic], self._drained_to[topic, home, other]
                    )
                    if (topic, home, other) in self._drained_to
                    else {},
                    why="12 behind",
                )
                for topic in sorted({topic for topic, _ in places})
                for home in self.topology.clusters
                for other in self.topology.clusters
                if home != other and (topic, home, other) not in self._unrecorded
            ),
            at=START,
        )
        return {LogsRead: read, SubscriptionDrains: drains, ReplicationDrains: replication}


def key_of(producer: str | None, seq: int | None) -> str:
    """The key that a message has unless said otherwise."""
    return f"{producer}-key-{(seq or 0) % 2}"


def hash_of(producer: str | None, seq: int | None) -> int:
    """The payload hash of a message."""
    return sum(map(ord, f"{producer}/{seq}")) * 1_000_003


def table(run: Run, name: str) -> list[Row]:
    """The rows of a table that was written."""
    return [
        {key: clock.to_microseconds(value) - START if hasattr(value, "tzinfo") else value for key, value in row.items()}
        for row in pq.read_table(run.table(name)).to_pylist()
    ]
