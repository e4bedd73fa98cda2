"""Measures latency and rate of publishing in each phase, and the latency while a fault slowed clients down.

Also measures how long after its ack a message was delivered in another cluster, for each phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokerproof.experiment.scenario import Phase
from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.destinations import list_replication_ways
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes, Span
from brokerproof_judging.measurements.standstills import OF_STANDSTILLS, Times, mark_own, read_standstills

_LATENCIES = ("publish_latency_p50_ms", "publish_latency_p99_ms", "publish_latency_max_ms")
_LAGS = ("replication_lag_p50_ms", "replication_lag_p99_ms", "replication_lag_max_ms")


def measure_publishing(run: Run, times: RunTimes, messages: DataFrame) -> Iterator[MeasuredValue]:
    """Yield the latency from a message's scheduled time to its first ack, and the share of scheduled messages acked.

    Both are measured for each phase, the latency also for the time in which a fault slowed clients down. If messages
    are published to several clusters, the scopes `PHASE/CLUSTER` and `FAULT/CLUSTER` have each cluster's latency.

    A message belongs to the time in which it was scheduled. If it was never acked, its latency lasts until the load's
    end. The number scheduled is the target rate times the phase's length, so it includes messages without an attempt.
    """
    if not times.phases:
        metrics = (*_LATENCIES, "rate_held")
        yield from (make_measured_value(metric, phase, None, NEVER_STEADY) for phase in Phase for metric in metrics)
        return
    homes = run.scenario.workload.list_homes(run.topology)
    apart = homes if len(homes) > 1 else []
    spans = {**times.phases, **times.slowed}
    found = _find_latencies(messages, spans, times.load.end_us, read_standstills(run).of_acks, apart=bool(apart))
    for when in spans:
        for home in (None, *apart):
            row = found.get((when, home))
            subject = when if home is None else f"{when}/{home}"
            values = (*row.quantiles, row.longest) if row else (None,) * 3
            proven = (*row.proven, row.longest_proven) if row else values
            for metric, value, least in zip(_LATENCIES, values, proven, strict=True):
                own = value != least
                evidence = _describe_messages(row) + (OF_STANDSTILLS if own else "")
                yield make_measured_value(
                    metric, subject, convert_to_ms(value), evidence, at_most=own, proven=convert_to_ms(least) or 0.0
                )
    for phase, span in times.phases.items():
        row = found.get((phase, None))
        planned, acked = run.scenario.workload.target_rate * span.seconds, row.acked if row else 0
        share = min(1.0, acked / planned) if planned else None
        yield make_measured_value("rate_held", phase, share, f"{acked} acked of {planned:.0f} scheduled")


def convert_to_ms(latency_us: float | None) -> float | None:
    return None if latency_us is None else latency_us / 1000


def _describe_messages(row: Row | None) -> str:
    if row is None:
        return "no message of this time's schedule was recorded"
    never = row.messages - row.acked
    late = f", {never} never acked and late until the end of the load" if never else ""
    return f"{row.acked} messages acked{late}"


def _find_latencies(
    messages: DataFrame, times: Mapping[str, Span], load_end_us: int, standstills: Times, *, apart: bool
) -> dict[tuple[str, str | None], Row]:
    """Return {(name, home): row}, with the numbers of all and of acked messages and a summary of latencies in µs.

    `name` is a phase or fault in `times`. `home` is a cluster that messages were published to, or None for all of them.
    Rows for single clusters are made only if `apart`.
    """
    acked = F.col("outcome") == AttemptOutcome.ACKED
    scheduled = F.unix_micros("scheduled_at")
    settled = F.when(acked, F.unix_micros("settled_at")).otherwise(F.lit(load_end_us))
    timed = keep_home_logs(messages).withColumns({"start": scheduled, "end": settled})
    spans = F.array(
        *[F.when((scheduled >= span.start_us) & (scheduled < span.end_us), F.lit(name)) for name, span in times.items()]
    )
    homes = [F.lit(None).cast("string"), *([F.col("home")] if apart else [])]
    rows = (
        mark_own(timed, standstills, F.col("producer"))
        .select(F.explode(spans).alias("when"), "home", acked.alias("acked"), F.expr("end - start AS latency"), "own")
        .filter("when IS NOT NULL")
        .select("when", "acked", "latency", "own", F.explode(F.array(*homes)).alias("home"))
        .groupBy("when", "home")
        .agg(
            F.count("*").alias("messages"),
            F.count_if("acked").alias("acked"),
            *_summarize("latency"),
        )
        .collect()
    )
    return {(row.when, row.home): row for row in rows}


def _summarize(time: str) -> Iterator[Column]:
    """Yield two columns: the quantiles (p50, p99) and the maximum of the column `time`.

    Then yield the same two columns without the effect of standstills: a message whose `own` is true counts as 0,
    because a client that itself stood still may have delayed it.
    """
    proven = F.when(F.col("own"), F.lit(0)).otherwise(F.col(time))
    for values, quantiles, longest in (
        (F.col(time), "quantiles", "longest"),
        (proven, "proven", "longest_proven"),
    ):
        # Exact to 1/10,000 of the rank. For an exact quantile, memory would grow with the number of messages.
        yield F.percentile_approx(values, [0.5, 0.99], 10_000).alias(quantiles)
        yield F.max(values).alias(longest)


def keep_home_logs(messages: DataFrame) -> DataFrame:
    """Return only the rows of `messages` about the log of the cluster that the message was published to (its home)."""
    return messages.filter("subscription IS NULL AND cluster = home")


def measure_replication_lag(run: Run, times: RunTimes, messages: DataFrame) -> Iterator[MeasuredValue]:
    """Yield, for each direction `HOME>OTHER` and phase, the time from the ack in HOME to the first delivery in OTHER.

    A message belongs to the phase in which it was scheduled, and has a lag for each subscription of OTHER. The delivery
    ends the lag, because clients do not learn when a node stored a replicated message. The lag is 0 if the delivery
    came before the ack, and null without a subscription of OTHER. It is "at most" if a consumer that itself stood still
    may have caused it.
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
            *_summarize("lag"),
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
