"""Derives facts about every message at every place (a cluster's log or a subscription), and the anomalies in them.

A message's places are those that it had to reach and those at which it was found. `sql/log_facts.sql` and
`sql/subscription_facts.sql` join the publishes of a message, its copies or deliveries at a place, and proofs about the
place. An example of a proof is that a subscription drained. Anomalies that show only when messages are compared are
found by comparisons.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from brokerproof.experiment.topology import Topology
from brokerproof.run.tables import Batches

from brokerproof_judging.database import (
    DuckDB,
    define_values,
    make_small_table,
    read_parts,
    register_tables,
    select_batches,
    write_part,
)
from brokerproof_judging.evidence import EvidenceTables, list_replicas
from brokerproof_judging.messages import publish_record
from brokerproof_judging.messages.message_columns import (
    NAMES,
    PLACE_FIELDS,
    POSITION,
    define_macros,
    read_query,
)
from brokerproof_judging.recorded_parts import RecordedParts

# The columns of the recorded tables that queries read.
_FOUND = ("producer", "seq", "topic", "cluster", "partition", *POSITION, "key", "payload_hash")
RECORDED: Mapping[str, Sequence[str]] = {
    "publishes": (*_FOUND, "epoch", "outcome", "scheduled_at", "sent_at", "settled_at"),
    "stored": _FOUND,
    "deliveries": (*_FOUND, "subscription", "consumer", "incarnation", "arrival", "received_at", "acknowledged_at"),
    "outputs": (*_FOUND, "subscription", "consumer", "written_at"),
}


def load_records(connection: DuckDB, recorded: RecordedParts, part: int) -> None:
    """Create the tables `publishes`, `stored`, `deliveries` and `outputs` with the rows of a part."""
    for table, columns in RECORDED.items():
        connection.register(f"recorded_{table}", recorded.read(table, part, columns))
    connection.execute(read_query("records"))


# The columns of the places that later steps read. Times are microseconds since the epoch.
PLACES = pa.schema(
    [
        *PLACE_FIELDS,
        ("partition", pa.int32()),
        ("home", pa.string()),
        ("key", pa.string()),
        ("outcome", pa.string()),
        ("attempts", pa.int32()),
        *[(name, pa.int64()) for name in ("scheduled_at", "sent_at", "settled_at", "last_acked_at")],
        ("copies", pa.int32()),
        ("deliveries", pa.int32()),
        ("first_received_at", pa.int64()),
        # The last time at which the subscription got the message from a position for the first time.
        ("last_position_at", pa.int64()),
        # The position of the first copy in a log, or of the first delivery to a subscription.
        ("segment", pa.int64()),
        ("offset", pa.int64()),
        ("batch_index", pa.int32()),
        ("recovered", pa.bool_()),
        # The position of a published message's first copy. Order is judged by it; null if the message has no order.
        ("stored_partition", pa.int32()),
        ("stored_segment", pa.int64()),
        ("stored_offset", pa.int64()),
        ("stored_batch_index", pa.int32()),
        ("consumer", pa.string()),
        ("incarnation", pa.int32()),
        ("arrival", pa.int64()),
        # The first delivery from a position at which the cluster does not store the message, and the last from such a
        # position of a log that was read to its end.
        ("elsewhere_from", pa.int64()),
        ("elsewhere_until", pa.int64()),
    ]
)

# The columns of a finding, which is an anomaly of a message at a place.
FINDINGS = pa.schema([*PLACE_FIELDS, *[(name, pa.string()) for name in ("anomaly", "cause", "detail")]])


@dataclass(frozen=True, kw_only=True)
class FactsOfPart:
    """Writes the facts about the messages in one part (the rows of one Spark task), and the anomalies in these facts.

    The directory `places` gets a row of facts for each message and place (a cluster's log or a subscription). The
    directory `findings` gets the anomalies. Each name in `anomalies` has a query in `sql/anomalies/`.
    """

    recorded: RecordedParts
    places: str
    findings: str
    topology: Topology
    # (cluster, subscription, cluster that it moved from, whether its consumers write outputs)
    subscriptions: Sequence[tuple[str, str, str | None, bool]]
    evidence: EvidenceTables
    # With the columns `turns.TURNS`.
    turns: pa.Table
    faults_undone: bool
    clock_error_us: int
    anomalies: Sequence[str]
    # The names of messages that need not be compared: their directory, and its parts. All are compared if it is None.
    uncompared: tuple[str, int] | None
    # Gets the findings of comparisons that the database of a part can make, or writes what other parts need for them.
    compare: Callable[[int, DuckDB], Batches]

    def __call__(self, part: int, connection: DuckDB) -> str:
        """Write the facts and anomalies of a part, and return its `PartSummary` as JSON."""
        self._prepare(part, connection)
        connection.execute(read_query("published"))
        self._register_replicas(connection)
        connection.execute(read_query("log_facts"))
        connection.execute(read_query("subscription_facts"))
        connection.execute(read_query("missing_outputs"))
        connection.execute(read_query("taken_turns"))
        connection.execute(f"CREATE TABLE places AS {read_query('places')}")
        write_part(self.places, part, PLACES, select_batches(connection, "FROM places"))
        write_part(self.findings, part, FINDINGS, self._find_anomalies(part, connection))
        return json.dumps(asdict(publish_record.summarize_part(connection)))

    def _prepare(self, part: int, connection: DuckDB) -> None:
        define_macros(connection)
        define_values(connection, {"faults_undone": self.faults_undone, "clock_error_us": self.clock_error_us})
        register_tables(
            connection,
            {
                "clusters": make_small_table("name string", [(name,) for name in self.topology.clusters]),
                "subscriptions": make_small_table(
                    "cluster string, subscription string, moved_from string, writes_outputs bool", self.subscriptions
                ),
                "log_proofs": self.evidence.logs,
                "unreadable_parts": self.evidence.unreadable,
                "drain_proofs": self.evidence.drains,
                "replication_proofs": self.evidence.replication,
                "replication_ends": self.evidence.replication_ends,
                "turns": self.turns,
            },
        )
        load_records(connection, self.recorded, part)
        directory, parts = self.uncompared or ("", 0)
        read_parts(
            connection, "uncompared", directory, self.recorded.list_parts_of(part, parts) if parts else (), NAMES
        )

    def _register_replicas(self, connection: DuckDB) -> None:
        topics = [topic for (topic,) in connection.execute("SELECT DISTINCT topic FROM published").fetchall()]
        rows = list_replicas(self.topology, topics)
        register_tables(connection, {"replicas": make_small_table("home string, topic string, cluster string", rows)})

    def _find_anomalies(self, part: int, connection: DuckDB) -> Batches:
        for anomaly in self.anomalies:
            yield from find_anomaly(connection, anomaly)
        yield from self.compare(part, connection)


def find_anomaly(connection: DuckDB, anomaly: str) -> Batches:
    """Yield the findings of an anomaly's query, with the columns of `FINDINGS`."""
    for batch in select_batches(connection, read_query(f"anomalies/{anomaly}")):
        yield batch.append_column("anomaly", pa.array([anomaly] * len(batch), pa.string()))
