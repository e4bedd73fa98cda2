"""The tables `messages` and `anomalies`, and the counts, from facts with findings."""

from __future__ import annotations

from typing import Any

from brokerproof.guarantees import Anomaly
from brokerproof.run import Run
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging import frames
from brokerproof_judging.anomalies import illegal
from brokerproof_judging.messages import IN_LOG

_SHARED = (
    *("cluster", "topic", "partition", "subscription", "home", "who", "number", "key", "outcome", "attempts"),
    *("scheduled_at", "sent_at", "settled_at", "copies", "found"),
)


def messages(run: Run, logs: DataFrame, deliveries: DataFrame) -> DataFrame:
    """One row per message and place it had to reach or turned up at.

    In a log the position is that of the first copy; at a subscription that of the first delivery.
    """
    in_log = logs.filter("required OR copies > 0").select(
        *_SHARED,
        F.lit(0).alias("deliveries"),
        F.lit(None).cast("timestamp").alias("first_received_at"),
        *[F.col(f"first.{name}").alias(name) for name in ("ledger_id", "entry_id", "batch_index")],
        F.expr("coalesce(outcome = 'unknown', false) AND copies > 0").alias("recovered"),
    )
    at_subscription = deliveries.select(
        *_SHARED,
        "deliveries",
        F.col("delivery.received_at").alias("first_received_at"),
        *[F.col(f"delivery.{name}").alias(name) for name in ("ledger_id", "entry_id", "batch_index")],
        F.lit(False).alias("recovered"),
    )
    judged = in_log.unionByName(at_subscription).withColumns(
        {
            "anomalies": F.transform("found", lambda each: each["anomaly"]),
            "illegal": F.transform(
                F.filter("found", lambda each: illegal(run.scenario, run.topology, each["anomaly"])),
                lambda each: each["anomaly"],
            ),
        }
    )
    # In a step of its own: inside a function over an array a name means the new column of that name, if there is one.
    return judged.withColumns(
        {
            "run_id": F.lit(run.run_id),
            "producer": frames.producer(),
            "seq": frames.seq(),
            "subscription": F.nullif("subscription", F.lit(IN_LOG)),
        }
    )


def anomalies(run: Run, logs: DataFrame, deliveries: DataFrame) -> DataFrame:
    """One row per anomaly, message and place."""
    columns = ["cluster", "topic", "partition", "subscription", "home", "who", "number", "key", "found"]
    found = logs.select(*columns).unionByName(deliveries.select(*columns)).filter(F.size("found") > 0)
    return (
        found.withColumn("each", F.explode("found"))
        .withColumns({name: F.col(f"each.{name}") for name in ("anomaly", "cause", "detail")})
        .withColumns(
            {
                "run_id": F.lit(run.run_id),
                "legal": ~illegal(run.scenario, run.topology, F.col("anomaly")),
                "producer": frames.producer(),
                "seq": frames.seq(),
                "subscription": F.nullif("subscription", F.lit(IN_LOG)),
            }
        )
    )


def counts(publishes: int, messages: DataFrame, anomalies: DataFrame) -> dict[str, Any]:
    """How many there are of everything; one number per anomaly, legal and illegal apart."""
    in_log, at_home = "subscription IS NULL", "subscription IS NULL AND cluster = home"
    row = messages.agg(
        F.count_if(F.expr(at_home)).alias("messages"),
        *[
            F.count_if(F.expr(f"{at_home} AND outcome = '{name}'")).alias(name)
            for name in ("acked", "failed", "unknown")
        ],
        F.count_if(F.expr(f"{at_home} AND recovered")).alias("recovered"),
        F.coalesce(F.sum(F.when(F.expr(in_log), F.col("copies"))), F.lit(0)).alias("stored"),
        F.coalesce(F.sum("deliveries"), F.lit(0)).alias("deliveries"),
    ).collect()[0]
    found: dict[str, dict[str, int]] = {kind: {str(each): 0 for each in Anomaly} for kind in ("legal", "illegal")}
    for group in anomalies.groupBy("anomaly", "legal").count().collect():
        found["legal" if group.legal else "illegal"][group.anomaly] = group["count"]
    return {"publishes": publishes, **row.asDict(), **found}
