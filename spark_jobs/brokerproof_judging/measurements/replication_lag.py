"""How far clusters were behind each other while the load went on."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.destinations import list_replication_ways
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, PHASES, RunTimes

_LAGS = ("replication_lag_p50_ms", "replication_lag_p99_ms", "replication_lag_max_ms")


def measure_replication_lag(run: Run, times: RunTimes, messages: DataFrame) -> Iterator[MeasuredValue]:
    """By way (`HOME>OTHER`) and the phase of the schedule: time from the ack at home to the first delivery there.

    There is one value for each message and subscription of the other cluster. It includes the delivery there: clients
    do not learn when a broker stored a replicated message. A message that was delivered there before its ack arrived
    has a lag of 0. A way without a subscription at its end has no value.
    """
    ways = list_replication_ways(run.topology, run.scenario.workload)
    if not ways:
        return
    lag = F.unix_micros("first_received_at") - F.unix_micros("settled_at")
    rows = (
        messages.filter("subscription IS NOT NULL AND cluster != home")
        .filter(F.col("outcome") == AttemptOutcome.ACKED)
        .select(
            "home",
            "cluster",
            times.name_phase(F.unix_micros("scheduled_at")).alias("phase"),
            F.greatest(F.lit(0), lag).alias("lag"),
        )
        .filter("phase IS NOT NULL")
        .groupBy("home", "cluster", "phase")
        .agg(
            F.count("*").alias("acked"),
            F.count("lag").alias("delivered"),
            F.percentile_approx("lag", [0.5, 0.99], 10_000).alias("quantiles"),
            F.max("lag").alias("longest"),
        )
        .collect()
    )
    found = {(row.home, row.cluster, row.phase): row for row in rows}
    for home, other in ways:
        for phase in PHASES:
            row = found.get((home, other, phase))
            values = (*row.quantiles, row.longest) if row and row.delivered else (None,) * 3
            evidence = f"{row.delivered} of {row.acked} deliveries" if row else "nothing had to be delivered there"
            for metric, value in zip(_LAGS, values, strict=True):
                yield make_measured_value(
                    metric,
                    f"{home}>{other}/{phase}",
                    None if value is None else value / 1000,
                    evidence if times.phases else NEVER_STEADY,
                )
