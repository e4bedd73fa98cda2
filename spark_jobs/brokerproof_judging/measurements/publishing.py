"""How publishing went in each phase, and while a fault slowed it down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokerproof.run.directory import Run
from brokerproof.run.tables import Outcome
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measurement import Measured
from brokerproof_judging.measurements.run_times import PHASES, Span, Timeline

_LATENCIES = ("publish_latency_p50_ms", "publish_latency_p99_ms", "publish_latency_max_ms")


def of_publishing(run: Run, timeline: Timeline, messages: DataFrame) -> Iterator[Measured]:
    """Latency from schedule to first ack, and the share of the schedule that was acked.

    Of each phase, and the latency also of the time that each fault lasted which slows things down. With several
    clusters published to, all of that together and, as `PHASE/CLUSTER` and `FAULT/CLUSTER`, the latency of each. A
    message belongs to the time that it was scheduled in. The schedule is the target rate times the phase's length, so
    that what was never tried counts as not held.
    """
    if not timeline.phases:
        for phase in PHASES:
            for metric in (*_LATENCIES, "rate_held"):
                yield Measured(metric=metric, subject=phase, value=None, evidence="the load never became steady")
        return
    slowed = {fault.name: fault.slowed for fault in timeline.faults if fault.slowed is not None}
    homes = run.scenario.workload.homes(run.topology)
    apart = homes if len(homes) > 1 else []
    found = _latencies(messages, {**timeline.phases, **slowed}, apart=bool(apart))
    for when in (*timeline.phases, *slowed):
        for home in (None, *apart):
            row = found.get((when, home))
            for metric, value in zip(_LATENCIES, (*row.quantiles, row.longest) if row else (None,) * 3, strict=True):
                yield Measured(
                    metric=metric,
                    subject=when if home is None else f"{when}/{home}",
                    value=None if value is None else value / 1000,
                    evidence=f"{row.acked} messages acked" if row else "no message of this time's schedule was acked",
                )
    for phase, span in timeline.phases.items():
        row = found.get((phase, None))
        planned, acked = target_rate(run) * span.seconds, row.acked if row else 0
        yield Measured(
            metric="rate_held",
            subject=phase,
            value=min(1.0, acked / planned) if planned else None,
            evidence=f"{acked} acked of {planned:.0f} scheduled",
        )


def _latencies(messages: DataFrame, times: Mapping[str, Span], *, apart: bool) -> dict[tuple[str, str | None], Row]:
    """By time, and if `apart` also by time and home: acked messages, quantiles and the longest latency, in µs."""
    scheduled, latency = F.unix_micros("scheduled_at"), F.unix_micros("settled_at") - F.unix_micros("scheduled_at")
    spans = F.array(
        *[F.when((scheduled >= span.start_us) & (scheduled < span.end_us), F.lit(name)) for name, span in times.items()]
    )
    together_or_apart = [F.lit(None).cast("string"), *([F.col("home")] if apart else [])]
    rows = (
        at_home(messages)
        .filter(F.col("outcome") == Outcome.ACKED)
        .select(F.explode(spans).alias("when"), "home", latency.alias("latency"))
        .filter("when IS NOT NULL")
        .select("when", "latency", F.explode(F.array(*together_or_apart)).alias("home"))
        .groupBy("when", "home")
        .agg(
            F.count("*").alias("acked"),
            # 1/10,000 of the rank; its memory does not grow with the messages, as that of the exact quantile does.
            F.percentile_approx("latency", [0.5, 0.99], 10_000).alias("quantiles"),
            F.max("latency").alias("longest"),
        )
        .collect()
    )
    return {(row.when, row.home): row for row in rows}


def target_rate(run: Run) -> float:
    """Messages a second that all producers of all clusters together had to publish."""
    return float(run.scenario.workload.rate * max(1, len(run.scenario.workload.produce_on)))


def at_home(messages: DataFrame) -> DataFrame:
    """The rows of `messages` about the log that a message was published to: one a message."""
    return messages.filter("subscription IS NULL AND cluster = home")
