"""How far clusters were behind each other, when they agreed again, and what none of them holds."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.run.directory import Run
from brokerproof.run.observations import Metric, split
from brokerproof.run.tables import Outcome
from brokerproof.systems.destinations import replication_ways
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measurement import Answer, Measured
from brokerproof_judging.measurements.run_times import FaultTimes, Timeline
from brokerproof_judging.measurements.samples import Samples

_LAGS = ("replication_lag_p50_ms", "replication_lag_p99_ms", "replication_lag_max_ms")


def of_lag(run: Run, timeline: Timeline, messages: DataFrame) -> Iterator[Measured]:
    """By way (`HOME>OTHER`) and the phase of the schedule: time from the ack at home to the first delivery there.

    One value a message and subscription of the other cluster, whose own delivery is part of it: clients are not told
    when a broker stored a replicated message. A message that was delivered there before its ack arrived has a lag of
    0. Nothing is measured of a way without a subscription at its end.
    """
    ways = replication_ways(run.topology, run.scenario.workload)
    if not ways:
        return
    lag = F.unix_micros("first_received_at") - F.unix_micros("settled_at")
    rows = (
        messages.filter("subscription IS NOT NULL AND cluster != home")
        .filter(F.col("outcome") == Outcome.ACKED)
        .select(
            "home",
            "cluster",
            timeline.phase_of(F.unix_micros("scheduled_at")).alias("phase"),
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
        for phase in timeline.phases or ("steady", "impact", "recovery"):
            row = found.get((home, other, phase))
            values = (*row.quantiles, row.longest) if row and row.delivered else (None,) * 3
            evidence = f"{row.delivered} of {row.acked} deliveries" if row else "nothing had to be delivered there"
            for metric, value in zip(_LAGS, values, strict=True):
                yield Measured(
                    metric=metric,
                    subject=f"{home}>{other}/{phase}",
                    value=None if value is None else value / 1000,
                    evidence=evidence if timeline.phases else "the load never became steady",
                )


def agreed(samples: Samples, fault: FaultTimes, timeline: Timeline) -> Answer:
    """From the return of a fault's nodes until every replication backlog was at what it had been at most before."""
    backlogs = {
        split(metric)[1]: values
        for (_, metric), values in samples.series.items()
        if split(metric)[0] == Metric.REPLICATION_BACKLOG
    }
    if not backlogs:
        return None, "no replication was sampled", False
    if fault.healed_us is None or fault.span is None:
        return None, "the failed nodes did not return", False
    steady = timeline.phases["steady"].start_us
    times: dict[str, int] = {}
    for way, values in backlogs.items():
        usual = max((int(value) for at, value in values if steady <= at <= fault.span.start_us), default=0)
        after = [(at, int(value)) for at, value in values if at >= fault.healed_us]
        if not after:
            return None, f"replication {way} was not sampled after the failed nodes returned", False
        at = next((at for at, backlog in after if backlog <= usual), None)
        if at is None:
            return (after[-1][0] - fault.healed_us) / 1e6, f"{way} was still {after[-1][1]} entries behind", True
        times[way] = at
    last = max(times, key=lambda way: times[way])
    since_effect = (times[last] - fault.span.start_us) / 1e6
    return (times[last] - fault.healed_us) / 1e6, f"{last} was last, {since_effect:.1f} s after the effect", False


def missing_everywhere(messages: DataFrame) -> DataFrame:
    """Acked messages that no cluster holds, of those with an anomaly in a log: `settled_at`, all their `anomalies`.

    A message that its home lost and another cluster still has is not gone.
    """
    wanting = messages.filter("subscription IS NULL AND outcome = 'acked' AND size(anomalies) > 0")
    return (
        # Few of many: what has an anomaly is looked for in all logs, and not everything grouped by message.
        messages.filter("subscription IS NULL")
        .join(wanting.select("topic", "producer", "seq").distinct(), ["topic", "producer", "seq"], "left_semi")
        .groupBy("topic", "producer", "seq")
        .agg(
            F.max("copies").alias("copies"),
            F.min("settled_at").alias("settled_at"),
            F.array_distinct(F.flatten(F.collect_list("anomalies"))).alias("anomalies"),
        )
        .filter("copies = 0")
    )
