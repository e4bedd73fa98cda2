"""Counts `messages` and `anomalies` without Great Expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.experiment.guarantees import Anomaly
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


@dataclass(frozen=True, kw_only=True)
class MessageCounts:
    """Numbers of rows in `messages` and `anomalies`.

    `places` has (cluster, subscription) of each place in `messages`, with None instead of a subscription for a log.
    """

    rows: int
    acked: int
    # `foreign` rows are of another run. `contradictory` rows name an unknown anomaly, or an illegal one that was not
    # found.
    foreign: int
    contradictory: int
    places: frozenset[tuple[str, str | None]]
    # Rows of `anomalies` by (anomaly, legal).
    anomalies: Mapping[tuple[str, bool], int]


def count_messages(messages: DataFrame, anomalies: DataFrame, run_id: str) -> MessageCounts:
    """Count the rows with two Spark jobs, for any number of anomalies."""
    known = F.array(*(F.lit(str(anomaly)) for anomaly in Anomaly))
    # No expectation asks for an anomaly with an unknown name. An illegal anomaly that is not in the column `anomalies`
    # was not found.
    unknown, not_found = F.array_except("anomalies", known), F.array_except("illegal", "anomalies")
    places = (
        messages.groupBy("cluster", "subscription")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(F.col("outcome") == "acked").alias("acked"),
            F.count_if(~F.col("run_id").eqNullSafe(F.lit(run_id))).alias("foreign"),
            F.count_if((F.size(unknown) > 0) | (F.size(not_found) > 0)).alias("contradictory"),
        )
        .collect()
    )
    found = anomalies.groupBy("anomaly", "legal").agg(F.count(F.lit(1)).alias("rows")).collect()
    return MessageCounts(
        rows=sum(place["rows"] for place in places),
        acked=sum(place["acked"] for place in places),
        foreign=sum(place["foreign"] for place in places),
        contradictory=sum(place["contradictory"] for place in places),
        places=frozenset((place["cluster"], place["subscription"]) for place in places),
        anomalies={(row["anomaly"], row["legal"]): row["rows"] for row in found},
    )
