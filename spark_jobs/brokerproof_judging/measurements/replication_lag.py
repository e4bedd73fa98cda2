"""Measures how long after its ack a message was delivered in another cluster, for each phase."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.experiment.scenario import Phase
from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.destinations import list_replication_ways
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.publishing import convert_to_ms
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes
from brokerproof_judging.measurements.standstills import OF_STANDSTILLS, mark_own, read_standstills

_LAGS = ("replication_lag_p50_ms", "replication_lag_p99_ms", "replication_lag_max_ms")


def measure_replication_lag(run: Run, times: RunTimes, messages: DataFrame) -> Iterator[MeasuredValue]:
    """Yield, for each direction `HOME>OTHER` and phase, the time from the ack in HOME to the first delivery in OTHER.

    A message belongs to the phase in which it was scheduled, and has a lag for each subscription of the other cluster.
    The lag includes the delivery, because clients do not learn when a node stored a replicated message. It is 0 if the
    delivery came before the ack. If the other cluster has no subscription, the value is null. If a standstill of a
    consumer may have caused lags, the value is "at most".
    """
    ways = list_replication_ways(run.topology, run.scenario.workload)
    if not ways:
        return
    deliveries = (
        messages.filter("subscription IS NOT NULL AND cluster != home")
        .filter(F.col("outcome") == AttemptOutcome.ACKED)
        .withColumns({"start": F.unix_micros("settled_at"), "end": F.unix_micros("first_received_at")})
    )
    standstills = read_standstills(run).of_consumers
    proven = F.when(F.col("own"), F.lit(0)).otherwise(F.col("lag"))
    rows = (
        mark_own(deliveries, standstills, F.col("subscription"))
        .select(
            "home",
            "cluster",
            times.name_phase(F.unix_micros("scheduled_at")).alias("phase"),
            F.greatest(F.lit(0), F.expr("end - start")).alias("lag"),
            "own",
        )
        .filter("phase IS NOT NULL")
        .groupBy("home", "cluster", "phase")
        .agg(
            F.count("*").alias("acked"),
            F.count("lag").alias("delivered"),
            F.percentile_approx("lag", [0.5, 0.99], 10_000).alias("quantiles"),
            F.max("lag").alias("longest"),
            F.percentile_approx(proven, [0.5, 0.99], 10_000).alias("proven"),
            F.max(proven).alias("longest_proven"),
        )
        .collect()
    )
    found = {(row.home, row.cluster, row.phase): row for row in rows}
    for home, other in ways:
        for phase in Phase:
            row = found.get((home, other, phase))
            values = (*row.quantiles, row.longest) if row and row.delivered else (None,) * 3
            proven_values = (*row.proven, row.longest_proven) if row and row.delivered else values
            evidence = f"{row.delivered} of {row.acked} deliveries" if row else "nothing had to be delivered there"
            for metric, value, least in zip(_LAGS, values, proven_values, strict=True):
                own = value != least
                yield make_measured_value(
                    metric,
                    f"{home}>{other}/{phase}",
                    convert_to_ms(value),
                    (evidence + (OF_STANDSTILLS if own else "")) if times.phases else NEVER_STEADY,
                    at_most=own,
                    proven=convert_to_ms(least) or 0.0,
                )
