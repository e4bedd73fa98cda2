"""What happened to every message at every place it had to reach or turned up at.

`gathered` brings together everything that is known of a message; `Facts` then tells, part by part, the facts about it
in each log (`in_log`) and at each subscription (`at_subscription`): what was published, what was found there and what
is proven about the place. The anomalies that one row of facts shows are found right there; what compares messages with
each other is looked for in the file of places that is written here (anomalies.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run.tables import Outcome
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from brokerproof_judging import partitioned_sql, table_io
from brokerproof_judging.evidence import EvidenceTables, replicas, subscriptions
from brokerproof_judging.messages import attempts
from brokerproof_judging.messages.message_columns import IN_LOG, LOG, MESSAGE, PLACE, POSITION, columns, identified

# A place, as it is written for the steps that follow. Times in microseconds since the epoch.
PLACES = pa.schema(
    [
        *[(name, pa.int64() if name == "number" else pa.string()) for name in PLACE],
        ("partition", pa.int32()),
        ("home", pa.string()),
        ("key", pa.string()),
        ("outcome", pa.string()),
        ("attempts", pa.int32()),
        *[(name, pa.int64()) for name in ("scheduled_at", "sent_at", "settled_at")],
        ("copies", pa.int32()),
        ("deliveries", pa.int32()),
        ("first_received_at", pa.int64()),
        # In a log the first copy's, at a subscription the first delivery's.
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("batch_index", pa.int32()),
        ("recovered", pa.bool_()),
        # Of a published message that is stored: where its first copy is, by which order is judged.
        ("stored_partition", pa.int32()),
        ("stored_ledger_id", pa.int64()),
        ("stored_entry_id", pa.int64()),
        ("stored_batch_index", pa.int32()),
        ("consumer", pa.string()),
        ("incarnation", pa.int32()),
        ("arrival", pa.int64()),
        ("found", pa.list_(pa.struct([(name, pa.string()) for name in ("anomaly", "cause", "detail")]))),
    ]
)

_PUBLISHED, _STORED, _DELIVERED = range(3)

# Every attempt once per cluster of the topology, with whether the message had to reach it. Also where it did not have
# to: what turns up there was published all the same, and is no phantom. A position that an ack names is one of the
# home log's; a replicated message has another one over there.
_TRIED = f"""
    WITH published AS (SELECT * FROM rows WHERE kind = {_PUBLISHED}),
    reached AS (
        SELECT home, name AS cluster FROM (SELECT DISTINCT cluster AS home FROM published), clusters
        UNION SELECT cluster, cluster FROM published
    ),
    spread AS (
        SELECT p.* EXCLUDE (cluster), p.cluster AS home, r.cluster,
            r.cluster = p.cluster AND p.outcome = '{Outcome.ACKED}' AND p.ledger_id IS NOT NULL AS names
        FROM published p JOIN reached r ON r.home = p.cluster
    )
    SELECT {columns(*MESSAGE, "cluster", of="s")}, s.partition,
        {", ".join(f"CASE WHEN names THEN {name} END AS {name}" for name in POSITION)},
        1 AS attempts,
        (outcome = '{Outcome.ACKED}')::INT AS acks,
        (outcome = '{Outcome.FAILED}')::INT AS failures,
        names::INT AS named,
        0 AS stored,
        s.cluster = s.home OR r.home IS NOT NULL AS required,
        s.home, key, payload_hash, scheduled_at, sent_at,
        CASE WHEN outcome = '{Outcome.ACKED}' THEN settled_at END AS acked_at,
        settled_at,
        NULL::BIGINT AS found_hash
    FROM spread s LEFT JOIN replicas r ON r.home = s.home AND r.topic = s.topic AND r.cluster = s.cluster
    UNION ALL BY NAME
    SELECT {columns(*LOG)}, partition, {columns(*POSITION)}, 0 AS attempts, 0 AS acks, 0 AS failures, 0 AS named,
        1 AS stored, payload_hash AS found_hash
    FROM rows WHERE kind = {_STORED}
"""

_LOWEST = ("home_low", "key", "hash_low", "scheduled_at", "sent_at", "acked_at", "found_hash_low")
_HIGHEST = ("home_high", "hash_high", "settled_at", "found_hash_high")


def _published(**renamed: str) -> str:
    """What the attempts of a message come to, at any of the three steps of grouping."""
    return ", ".join(
        [
            *[f"sum({name})::INT AS {name}" for name in ("attempts", "acks", "failures")],
            "bool_or(required) AS required",
            *[f"min({renamed.get(name, name)}) AS {name}" for name in _LOWEST],
            *[f"max({renamed.get(name, name)}) AS {name}" for name in _HIGHEST],
        ]
    )


_RAW = {
    **{"home_low": "home", "home_high": "home", "hash_low": "payload_hash", "hash_high": "payload_hash"},
    **{"found_hash_low": "found_hash", "found_hash_high": "found_hash"},
}
_AT = "{" + ", ".join(f"{name}: {name}" for name in POSITION) + "}"
_COPY = (
    "{"
    + ", ".join(
        f"{name}: {value}"
        for name, value in [("partition", "partition"), *[(name, f"first.{name}") for name in POSITION]]
    )
    + "}"
)
_ACKED, _TRIED_THERE = "FILTER (acks > 0)", "FILTER (attempts > 0)"

# One row per message and cluster of the topology, and per phantom and cluster where it is stored. Its first copy is
# the lowest position in the partition where it was acked, or else tried, or else in the lowest partition: positions
# of two partitions do not compare.
_LOGS = f"""
    WITH tried AS ({_TRIED}),
    by_position AS (
        SELECT {columns(*LOG)}, partition, {columns(*POSITION)}, {_published(**_RAW)},
            max(stored) AS stored, max(named) AS named
        FROM tried GROUP BY ALL
    ),
    by_partition AS (
        SELECT {columns(*LOG)}, partition, {_published()},
            sum(stored)::INT AS copies, sum(named)::INT AS named, sum(stored * named)::INT AS matched,
            min(CASE WHEN stored > 0 THEN {_AT} END) AS first
        FROM by_position GROUP BY {columns(*LOG)}, partition
    ),
    copied AS (SELECT *, CASE WHEN first IS NOT NULL THEN {_COPY} END AS copy FROM by_partition),
    by_log AS (
        SELECT {columns(*LOG)}, {_published()},
            sum(copies)::INT AS copies, sum(named)::INT AS named, sum(matched)::INT AS matched,
            coalesce(min(copy) {_ACKED}, min(copy) {_TRIED_THERE}, min(copy)) AS first,
            coalesce(min(partition) {_ACKED}, min(partition) {_TRIED_THERE}, min(partition)) AS partition
        FROM copied GROUP BY {columns(*LOG)}
    )
    SELECT b.* EXCLUDE (required, settled_at),
        coalesce(b.required, false) AS required,
        coalesce(b.acked_at, b.settled_at) AS settled_at,
        b.home_low AS home,
        '{IN_LOG}' AS subscription,
        CASE WHEN attempts = 0 THEN NULL WHEN acks > 0 THEN '{Outcome.ACKED}'
            WHEN failures = attempts THEN '{Outcome.FAILED}' ELSE '{Outcome.UNKNOWN}' END AS outcome,
        l.read_to_end, l.read_why, r.replicated, r.replicated_why
    FROM by_log b
    LEFT JOIN log_proofs l ON (l.cluster, l.topic, l.partition) = (b.cluster, b.topic, b.partition)
    LEFT JOIN replication_proofs r ON (r.topic, r.home, r.cluster) = (b.topic, b.home_low, b.cluster)
"""

# One row per published message and subscription of a cluster, and per phantom delivered to one. A delivery is `again`
# where it is not the first at its position. The first of all is the one received earliest; at equal times the lower
# arrival. That an ack was confirmed within the clocks' error before a delivery does not prove that it was earlier.
_DELIVERIES = f"""
    WITH delivered AS (SELECT * FROM rows WHERE kind = {_DELIVERED}),
    in_time AS (
        SELECT *,
            row_number() OVER copy AS nth,
            coalesce(min(acknowledged_at) OVER (copy ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                + {{clock_error_us}} < received_at, false) AS confirmed
        FROM delivered
        WINDOW copy AS (
            PARTITION BY {columns(*PLACE)}, partition, {columns(*POSITION)}
            ORDER BY received_at, arrival, consumer NULLS FIRST, incarnation NULLS FIRST
        )
    ),
    at_place AS (
        SELECT {columns(*PLACE)},
            count(*)::INT AS deliveries,
            count_if(nth = 1)::INT AS copies,
            count_if(nth > 1 AND NOT confirmed)::INT AS again_unconfirmed,
            count_if(nth > 1 AND confirmed)::INT AS again_confirmed,
            min({{{{received_at: received_at, arrival: arrival, consumer: consumer, incarnation: incarnation,
                partition: partition, {", ".join(f"{name}: {name}" for name in POSITION)}}}}}) AS delivery,
            min(payload_hash) AS found_hash_low,
            max(payload_hash) AS found_hash_high
        FROM in_time GROUP BY {columns(*PLACE)}
    ),
    places AS (
        SELECT cluster, subscription, true AS had_to_get, moved_from FROM subscriptions
        UNION SELECT DISTINCT cluster, subscription, false, NULL FROM delivered
            WHERE (cluster, subscription) NOT IN (SELECT (cluster, subscription) FROM subscriptions)
    ),
    published AS (
        SELECT l.* EXCLUDE (subscription, found_hash_low, found_hash_high, named, matched, copies, required,
                read_to_end, read_why, replicated, replicated_why),
            l.copies AS stored_copies, l.required AS required_in_log, p.subscription,
            -- What a subscription got before it moved it does not have to get again.
            p.had_to_get AND e.cluster IS NULL AS had_to_get
        FROM logs l JOIN places p ON p.cluster = l.cluster
        LEFT JOIN at_place e ON e.cluster = p.moved_from AND e.subscription = p.subscription
            AND ({columns(*MESSAGE, of="e")}) = ({columns(*MESSAGE, of="l")})
        WHERE l.outcome IS NOT NULL
    ),
    joined AS (
        SELECT {columns(*PLACE)}, p.* EXCLUDE ({columns(*PLACE)}, partition, stored_copies, had_to_get),
            coalesce(p.partition, a.delivery.partition) AS partition,
            coalesce(p.stored_copies, 0) AS stored_copies,
            coalesce(p.had_to_get, false) AS had_to_get,
            coalesce(p.had_to_get AND p.required_in_log, false) AS required,
            coalesce(a.copies, 0) AS copies,
            coalesce(a.deliveries, 0) AS deliveries,
            a.again_unconfirmed, a.again_confirmed, a.delivery, a.found_hash_low, a.found_hash_high
        FROM published p FULL JOIN at_place a USING ({columns(*PLACE)})
    )
    SELECT j.*, d.drained, d.drained_why
    FROM joined j LEFT JOIN drain_proofs d
        ON (d.cluster, d.topic, d.partition, d.subscription) = (j.cluster, j.topic, j.partition, j.subscription)
    WHERE j.required OR j.deliveries > 0 OR (j.had_to_get AND j.stored_copies > 0)
"""

_SHARED = (
    f"{columns(*PLACE)}, partition, home, key, outcome, attempts, scheduled_at, sent_at, settled_at, copies, "
    + ", ".join(
        f"CASE WHEN outcome IS NOT NULL THEN first.{name} END AS stored_{name}" for name in ("partition", *POSITION)
    )
)
_PLACES = f"""
    SELECT {_SHARED}, 0 AS deliveries, {columns(*[f"first.{name}" for name in POSITION])},
        coalesce(outcome = '{Outcome.UNKNOWN}', false) AND copies > 0 AS recovered, {{in_log}} AS found
    FROM logs WHERE required OR copies > 0
    UNION ALL BY NAME
    SELECT {_SHARED}, deliveries, {columns(*[f"delivery.{name}" for name in POSITION])}, false AS recovered,
        delivery.received_at AS first_received_at,
        {columns(*[f"delivery.{name}" for name in ("consumer", "incarnation", "arrival")])},
        {{at_subscription}} AS found
    FROM deliveries
"""


def gathered(publishes: DataFrame, stored: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Everything that was recorded about messages, with one set of columns."""
    here = [*LOG, "partition", *POSITION, "payload_hash"]
    tables = [
        identified(publishes).select(
            F.lit(_PUBLISHED).alias("kind"),
            *here,
            *("key", "epoch", "outcome"),
            *_times("scheduled_at", "sent_at", "settled_at"),
        ),
        identified(stored).select(F.lit(_STORED).alias("kind"), *here),
        identified(deliveries).select(
            F.lit(_DELIVERED).alias("kind"),
            *here,
            *("subscription", "consumer", "incarnation", "arrival"),
            *_times("received_at", "acknowledged_at"),
        ),
    ]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), tables)


def _times(*names: str) -> list[Column]:
    return [table_io.microseconds(name).alias(name) for name in names]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Tells the facts of a part of `gathered`: writes its places, and yields what is to be known of the part.

    `in_log` and `at_subscription` are SQL for the anomalies that one row of facts shows.
    """

    directory: str
    topology: Topology
    subscriptions: Sequence[tuple[str, str, str | None]]
    evidence: EvidenceTables
    clock_error_us: int
    in_log: str
    at_subscription: str

    @classmethod
    def of(
        cls,
        directory: str,
        scenario: Scenario,
        topology: Topology,
        evidence: EvidenceTables,
        *,
        clock_error_us: int,
        in_log: str,
        at_subscription: str,
    ) -> Facts:
        """The facts of a run; `directory` is where its places go."""
        return cls(
            directory=directory,
            topology=topology,
            subscriptions=[(each.cluster, each.name, each.moved_from) for each in subscriptions(scenario, topology)],
            evidence=evidence,
            clock_error_us=clock_error_us,
            in_log=in_log,
            at_subscription=at_subscription,
        )

    SCHEMA = "part int, told string"

    def __call__(self, part: int, connection: partitioned_sql.Connection) -> partitioned_sql.Batches:
        """One row: the part's number and what is told of it, as JSON."""
        published = f"SELECT DISTINCT topic FROM rows WHERE kind = {_PUBLISHED}"
        topics = [topic for (topic,) in connection.execute(published).fetchall()]
        partitioned_sql.give(
            connection,
            {
                "clusters": partitioned_sql.table("name string", [(name,) for name in self.topology.clusters]),
                "replicas": partitioned_sql.table(
                    "home string, topic string, cluster string", replicas(self.topology, topics)
                ),
                "subscriptions": partitioned_sql.table(
                    "cluster string, subscription string, moved_from string", self.subscriptions
                ),
                "log_proofs": self.evidence.logs,
                "drain_proofs": self.evidence.drains,
                "replication_proofs": self.evidence.replication,
            },
        )
        connection.execute(f"CREATE TABLE logs AS {_LOGS}")
        connection.execute(f"CREATE TABLE deliveries AS {_DELIVERIES.format(clock_error_us=self.clock_error_us)}")
        places = _PLACES.format(in_log=self.in_log, at_subscription=self.at_subscription)
        selected = f"SELECT {columns(*PLACES.names)} FROM ({places})"
        partitioned_sql.write(self.directory, part, PLACES, partitioned_sql.answer(connection, selected))
        told = json.dumps(attempts.told(connection))
        yield pa.RecordBatch.from_pydict({"part": pa.array([part], pa.int32()), "told": [told]})
