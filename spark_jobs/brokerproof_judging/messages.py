"""What happened to every message at every place it had to reach or turned up at.

Two frames of facts come from here, `logs` (a message in a cluster's log) and `deliveries` (a message at a
subscription). Each row states what was published, what was found there, and what is proven about the place; the
anomalies are read from it. Both are made by sorting and grouping, so memory does not grow with the messages.
"""

from __future__ import annotations

from brokerproof.run import Run
from brokerproof.tables import Outcome
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from brokerproof_judging import frames
from brokerproof_judging.evidence import EvidenceFrames, replicas, subscriptions

MESSAGE = ["who", "number", "topic"]
LOG = [*MESSAGE, "cluster"]
POSITION = ["ledger_id", "entry_id", "batch_index"]
PLACE = [*LOG, "subscription"]

# `subscription` of a message in a log; not null, so that places can be joined on.
IN_LOG = ""


def position() -> Column:
    """A position, which compares as Pulsar's do: ledger, then entry, then index inside the batch."""
    return F.struct("ledger_id", "entry_id", "batch_index")


def logs(run: Run, publishes: DataFrame, stored: DataFrame, evidence: EvidenceFrames) -> DataFrame:
    """One row per message and cluster of the topology, and per phantom and cluster where it is stored.

    `required` tells where the message had to be. Its `first` copy is the lowest position in the partition where it
    was acked, or else tried, or else in the lowest partition: positions of two partitions do not compare.
    """
    attempts = _attempts(run, frames.identified(publishes))
    copies = frames.identified(stored).select(
        *LOG,
        "partition",
        *POSITION,
        F.lit(0).alias("attempts"),
        F.lit(0).alias("acks"),
        F.lit(0).alias("failures"),
        F.lit(0).alias("named"),
        F.lit(1).alias("stored"),
        F.col("payload_hash").alias("found_hash"),
    )
    # Both come together by the message, so that the three steps of grouping need one exchange and one sort.
    everything = attempts.unionByName(copies, allowMissingColumns=True).repartition(*MESSAGE)
    by_position = everything.groupBy(*LOG, "partition", *POSITION).agg(
        *_published(),
        F.max("stored").alias("stored"),
        F.max("named").alias("named"),
        F.min("found_hash").alias("found_hash_low"),
        F.max("found_hash").alias("found_hash_high"),
    )
    by_partition = by_position.groupBy(*LOG, "partition").agg(
        *_published(),
        *_found(),
        F.sum("stored").alias("copies"),
        F.sum("named").alias("named"),
        F.sum(F.col("stored") * F.col("named")).alias("matched"),
        F.min(F.when(F.col("stored") > 0, position())).alias("first"),
    )
    copy = F.when(
        F.col("first").isNotNull(),
        F.struct("partition", "first.ledger_id", "first.entry_id", "first.batch_index"),
    )
    tried, acked = F.col("attempts") > 0, F.col("acks") > 0
    by_log = by_partition.groupBy(*LOG).agg(
        *_published(),
        *_found(),
        F.sum("copies").cast("int").alias("copies"),
        F.sum("named").alias("named"),
        F.sum("matched").alias("matched"),
        F.coalesce(
            F.min(F.when(acked, copy)),
            F.min(F.when(tried, copy)),
            F.min(copy),
        ).alias("first"),
        F.coalesce(
            F.min(F.when(acked, F.col("partition"))),
            F.min(F.when(tried, F.col("partition"))),
            F.min("partition"),
        ).alias("partition"),
    )
    outcome = (
        F.when(F.col("attempts") == 0, F.lit(None))
        .when(F.col("acks") > 0, Outcome.ACKED)
        .when(F.col("failures") == F.col("attempts"), Outcome.FAILED)
        .otherwise(Outcome.UNKNOWN)
    )
    return (
        by_log.withColumns(
            {
                "outcome": outcome,
                "settled_at": F.coalesce("acked_at", "settled_at"),
                "required": F.coalesce("required", F.lit(False)),
                "home": F.col("home_low"),
                "subscription": F.lit(IN_LOG),
            }
        )
        .join(F.broadcast(evidence.logs), ["cluster", "topic", "partition"], "left")
        .join(F.broadcast(evidence.replication), ["topic", "home", "cluster"], "left")
    )


def deliveries(
    spark: SparkSession, run: Run, logs: DataFrame, delivered: DataFrame, evidence: EvidenceFrames
) -> DataFrame:
    """One row per published message and subscription of a cluster, and per phantom delivered to one.

    A delivery is `again` where it is not the first at its position. The first delivery of all is the one received
    earliest; at equal times the lower arrival.
    """
    subscribed = _subscribed(spark, run, delivered)
    copy = [*LOG, "subscription", "partition", *POSITION]
    in_time = Window.partitionBy(*copy).orderBy("received_at", "arrival", "consumer", "incarnation")
    before = in_time.rowsBetween(Window.unboundedPreceding, -1)
    clock_error = int(run.facts.get("clock_error_us", 0))
    # Confirmed at the same microsecond, or within the clocks' error, is not proven to be earlier.
    confirmed = F.unix_micros(F.min("acknowledged_at").over(before)) + clock_error < F.unix_micros("received_at")
    at_position = (
        frames.identified(delivered)
        .repartition(*MESSAGE)
        .withColumns({"nth": F.row_number().over(in_time), "confirmed": F.coalesce(confirmed, F.lit(False))})
    )
    again = F.col("nth") > 1
    at_subscription = at_position.groupBy(*LOG, "subscription").agg(
        F.count("*").cast("int").alias("deliveries"),
        F.count_if(~again).cast("int").alias("copies"),
        F.count_if(again & ~F.col("confirmed")).alias("again_unconfirmed"),
        F.count_if(again & F.col("confirmed")).alias("again_confirmed"),
        F.min(F.struct("received_at", "arrival", "consumer", "incarnation", "partition", *POSITION)).alias("delivery"),
        F.min("payload_hash").alias("found_hash_low"),
        F.max("payload_hash").alias("found_hash_high"),
    )
    published = (
        logs.filter("outcome IS NOT NULL")
        .drop("subscription", "found_hash_low", "found_hash_high", "named", "matched")
        .withColumnsRenamed({"copies": "stored_copies", "required": "required_in_log"})
        .join(F.broadcast(subscribed), "cluster")
    )
    joined = published.join(at_subscription, [*LOG, "subscription"], "full_outer")
    return (
        joined.withColumns(
            {
                "partition": F.coalesce("partition", "delivery.partition"),
                "copies": F.coalesce("copies", F.lit(0)),
                "deliveries": F.coalesce("deliveries", F.lit(0)),
                "stored_copies": F.coalesce("stored_copies", F.lit(0)),
                "required": F.coalesce(F.col("had_to_get") & F.col("required_in_log"), F.lit(False)),
                "had_to_get": F.coalesce("had_to_get", F.lit(False)),
            }
        )
        .filter("required OR deliveries > 0 OR (had_to_get AND stored_copies > 0)")
        .join(F.broadcast(evidence.drains), ["cluster", "topic", "partition", "subscription"], "left")
    )


def _attempts(run: Run, publishes: DataFrame) -> DataFrame:
    """Every attempt once per cluster of the topology, with whether the message had to reach it.

    Also where it did not have to: what turns up there was published all the same, and is no phantom.
    """
    namespace = F.regexp_extract("topic", "^[a-z-]+://([^/]+/[^/]+)/", 1)
    required = F.col("cluster") == F.col("home")
    for home, name, other in replicas(run.topology):
        required = required | ((F.col("home") == home) & (namespace == name) & (F.col("cluster") == other))
    clusters = F.array_distinct(F.array(F.col("home"), *[F.lit(name) for name in run.topology.clusters]))
    at_home = F.col("cluster") == F.col("home")
    acked = F.col("outcome") == Outcome.ACKED
    # A position is one of the home log's; a replicated message has another one over there.
    named = at_home & acked & F.col("ledger_id").isNotNull()
    return (
        publishes.withColumnRenamed("cluster", "home")
        .withColumn("cluster", F.explode(clusters))
        .select(
            *LOG,
            "partition",
            *[F.when(named, F.col(name)).alias(name) for name in POSITION],
            F.lit(1).alias("attempts"),
            acked.cast("int").alias("acks"),
            (F.col("outcome") == Outcome.FAILED).cast("int").alias("failures"),
            named.cast("int").alias("named"),
            F.lit(0).alias("stored"),
            required.alias("required"),
            F.col("home").alias("home_low"),
            F.col("home").alias("home_high"),
            "key",
            F.col("payload_hash").alias("hash_low"),
            F.col("payload_hash").alias("hash_high"),
            "scheduled_at",
            "sent_at",
            F.when(acked, F.col("settled_at")).alias("acked_at"),
            "settled_at",
        )
    )


def _published() -> list[Column]:
    """What the attempts of a message come to, at any of the three steps of grouping."""
    lowest = ["home_low", "key", "hash_low", "scheduled_at", "sent_at", "acked_at"]
    return [
        *[F.sum(name).cast("int").alias(name) for name in ("attempts", "acks", "failures")],
        F.max("required").alias("required"),
        *[F.min(name).alias(name) for name in lowest],
        *[F.max(name).alias(name) for name in ("home_high", "hash_high", "settled_at")],
    ]


def _found() -> list[Column]:
    return [
        F.min("found_hash_low").alias("found_hash_low"),
        F.max("found_hash_high").alias("found_hash_high"),
    ]


def _subscribed(spark: SparkSession, run: Run, delivered: DataFrame) -> DataFrame:
    """(cluster, subscription, had_to_get): the scenario's, and any other that something was delivered to."""
    known = {(each.cluster, each.name) for each in subscriptions(run.scenario, run.topology)}
    met = {(row.cluster, row.subscription) for row in delivered.select("cluster", "subscription").distinct().collect()}
    rows = [(*place, place in known) for place in sorted(known | met)]
    return spark.createDataFrame(rows, "cluster string, subscription string, had_to_get boolean")
