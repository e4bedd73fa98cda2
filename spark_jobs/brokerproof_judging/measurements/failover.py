"""Counts the messages that a subscription got twice or never because it moved from one cluster to another."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value


def measure_failover(run: Run, messages: DataFrame) -> Iterator[MeasuredValue]:
    """Yield `repeated_by_move` and `missed_by_move` for each subscription that moves.

    A repeated message was delivered in both clusters. A missed message was acked, and delivered in neither cluster.
    `missed_by_move` is null if an undelivered message is `unproven` in the cluster that the subscription moved to.
    """
    for each in run.scenario.workload.subscriptions:
        if each.moves is None:
            continue
        before, after = (F.col("cluster") == cluster for cluster in each.list_clusters(run.topology))
        here = F.col("subscription") == each.name
        got_before = F.coalesce(F.max(F.when(here & before, F.col("deliveries"))), F.lit(0)) > 0
        got_after = F.coalesce(F.max(F.when(here & after, F.col("deliveries"))), F.lit(0)) > 0
        at_its_end = after & (here | F.col("subscription").isNull())
        row = (
            messages.groupBy("topic", "producer", "seq")
            .agg(
                got_before.alias("before"),
                got_after.alias("after"),
                F.max(F.col("outcome") == AttemptOutcome.ACKED).alias("acked"),
                F.max(at_its_end & F.array_contains("anomalies", "unproven")).alias("unproven"),
            )
            .agg(
                F.count_if("before").alias("had"),
                F.count_if(F.col("before") & F.col("after")).alias("repeated"),
                F.count_if(F.col("acked") & ~F.col("before") & ~F.col("after")).alias("missed"),
                F.count_if(F.col("unproven") & ~F.col("before") & ~F.col("after")).alias("unproven"),
            )
            .collect()[0]
        )
        clusters = " and ".join(each.list_clusters(run.topology))
        evidence = f"delivered on {clusters}, of {row.had} that were delivered before it moved"
        yield make_measured_value("repeated_by_move", each.name, float(row.repeated), evidence)
        if row.unproven:
            yield make_measured_value("missed_by_move", each.name, None, f"{row.unproven} of them are unproven")
        else:
            evidence = f"delivered on neither of {clusters}"
            yield make_measured_value("missed_by_move", each.name, float(row.missed), evidence)
