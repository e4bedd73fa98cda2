"""Takes all measurements of a run. A new measurement is added to `measure_run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from pyspark.sql import DataFrame, SparkSession

from brokerproof_judging.measurements.failover import measure_failover
from brokerproof_judging.measurements.interruption import ClientEvents, read_client_events
from brokerproof_judging.measurements.link import measure_link
from brokerproof_judging.measurements.losses import measure_missing
from brokerproof_judging.measurements.measured_values import MeasuredValue
from brokerproof_judging.measurements.placement import (
    measure_local_reads,
    measure_owner_regions,
    measure_spread,
    measure_under_replication,
)
from brokerproof_judging.measurements.publishing import measure_publishing
from brokerproof_judging.measurements.recovery import measure_faults
from brokerproof_judging.measurements.replication_lag import measure_replication_lag
from brokerproof_judging.measurements.run_times import RunTimes, read_run_times
from brokerproof_judging.measurements.samples import Samples, read_samples
from brokerproof_judging.measurements.sampling import measure_sampling_gap


@dataclass(frozen=True, kw_only=True)
class RecordedEvents:
    """The times, samples and clients' events of a run, which are read from recorded tables without judged messages."""

    times: RunTimes
    samples: Samples
    events: ClientEvents


def read_recorded_events(spark: SparkSession, run: Run, tables: Mapping[str, DataFrame]) -> RecordedEvents:
    """Read the times, samples and clients' events of a run. `tables` has `publishes` and `deliveries`."""
    times = read_run_times(run)
    return RecordedEvents(
        times=times,
        samples=read_samples(run),
        events=read_client_events(spark, run, times, tables["publishes"], tables["deliveries"]),
    )


def measure_run(run: Run, recorded: RecordedEvents, messages: DataFrame, counts: Counts) -> Iterator[MeasuredValue]:
    """Yield all measured values. `messages` is the table of judged messages, and `counts` counts its anomalies."""
    times, samples = recorded.times, recorded.samples
    yield from measure_spread(run, times)
    yield measure_under_replication(run, times, samples)
    yield from measure_local_reads(run, times, samples)
    yield from measure_owner_regions(run, times, samples)
    yield from measure_faults(run, times, samples, recorded.events, messages)
    yield from measure_missing(run, counts)
    yield from measure_publishing(run, times, messages)
    yield from measure_link(run, times, samples)
    yield from measure_replication_lag(run, times, messages)
    yield from measure_failover(run, messages)
    yield measure_sampling_gap(run, times, samples)
