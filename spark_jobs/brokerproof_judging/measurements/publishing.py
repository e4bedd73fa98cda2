"""Latency and rate of publishing in each phase, and latency while a fault slowed it down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, PHASES, RunTimes, Span

_LATENCIES = ("publish_latency_p50_ms", "publish_latency_p99_ms", "publish_latency_max_ms")


def measure_publishing(run: Run, times: RunTimes, messages: DataFrame) -> Iterator[MeasuredValue]:
    """Latency from schedule to first ack, and the share of the schedule that was acked.

    Both are measured for each phase, and the latency also for the time of each fault that slows clients down. If
    several clusters are published to, there is one value for all of them and, as `PHASE/CLUSTER` and `FAULT/CLUSTER`,
    a latency of each. A message belongs to the time that it was scheduled in. The latency of a message that was never
    acked lasts until the end of the load. The schedule is the target rate times the phase's length, so a message that
    was never tried counts as not held.
    """
    if not times.phases:
        for phase in PHASES:
            for metric in (*_LATENCIES, "rate_held"):
                yield make_measured_value(metric, phase, None, NEVER_STEADY)
        return
    homes = run.scenario.workload.list_homes(run.topology)
    apart = homes if len(homes) > 1 else []
    spans = {**times.phases, **times.slowed}
    found = _find_latencies(messages, spans, times.load.end_us, apart=bool(apart))
    for when in spans:
        for home in (None, *apart):
            row = found.get((when, home))
            evidence = _describe_messages(row)
            subject = when if home is None else f"{when}/{home}"
            for metric, value in zip(_LATENCIES, (*row.quantiles, row.longest) if row else (None,) * 3, strict=True):
                yield make_measured_value(metric, subject, None if value is None else value / 1000, evidence)
    for phase, span in times.phases.items():
        row = found.get((phase, None))
        planned, acked = compute_target_rate(run) * span.seconds, row.acked if row else 0
        share = min(1.0, acked / planned) if planned else None
        yield make_measured_value("rate_held", phase, share, f"{acked} acked of {planned:.0f} scheduled")


def _describe_messages(row: Row | None) -> str:
    if row is None:
        return "no message of this time's schedule was recorded"
    if row.messages == row.acked:
        return f"{row.acked} messages acked"
    return f"{row.acked} messages acked, {row.messages - row.acked} never acked and late until the end of the load"


def _find_latencies(
    messages: DataFrame, times: Mapping[str, Span], load_end_us: int, *, apart: bool
) -> dict[tuple[str, str | None], Row]:
    """By time, and if `apart` also by time and home: messages, acked ones, quantiles and the longest latency, in µs."""
    acked = F.col("outcome") == AttemptOutcome.ACKED
    scheduled = F.unix_micros("scheduled_at")
    latency = F.when(acked, F.unix_micros("settled_at")).otherwise(F.lit(load_end_us)) - scheduled
    spans = F.array(
        *[F.when((scheduled >= span.start_us) & (scheduled < span.end_us), F.lit(name)) for name, span in times.items()]
    )
    homes = [F.lit(None).cast("string"), *([F.col("home")] if apart else [])]
    rows = (
        keep_home_logs(messages)
        .select(F.explode(spans).alias("when"), "home", acked.alias("acked"), latency.alias("latency"))
        .filter("when IS NOT NULL")
        .select("when", "acked", "latency", F.explode(F.array(*homes)).alias("home"))
        .groupBy("when", "home")
        .agg(
            F.count("*").alias("messages"),
            F.count_if("acked").alias("acked"),
            # 1/10,000 of the rank; its memory does not grow with the messages, as that of the exact quantile does.
            F.percentile_approx("latency", [0.5, 0.99], 10_000).alias("quantiles"),
            F.max("latency").alias("longest"),
        )
        .collect()
    )
    return {(row.when, row.home): row for row in rows}


def compute_target_rate(run: Run) -> float:
    """Messages a second that all producers of all clusters together had to publish."""
    return float(run.scenario.workload.rate * max(1, len(run.scenario.workload.produce_on)))


def keep_home_logs(messages: DataFrame) -> DataFrame:
    """The rows of `messages` about the log that a message was published to: one a message."""
    return messages.filter("subscription IS NULL AND cluster = home")
