"""Takes all measurements of a run.

A new measurement is added to `measure_faults` if it has one value for each fault, such as a loss or a recovery time.
Any other measurement is added to `measure_run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from brokerproof.experiment.metrics import METRICS
from brokerproof.faults.registry import list_destroying_faults
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from brokerproof.run.measurement import Measurement

from brokerproof_judging.database import DuckDB
from brokerproof_judging.measurements.catching_up import measure_agreement, measure_backlog_drain, measure_rereplication
from brokerproof_judging.measurements.failover import (
    measure_detection,
    measure_failover,
    measure_node_recovery,
    measure_reassignment,
)
from brokerproof_judging.measurements.interruption import ClientEvents, measure_interruption, read_client_events
from brokerproof_judging.measurements.link import measure_link
from brokerproof_judging.measurements.losses import measure_counted, measure_losses, measure_missed, measure_outputs
from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.node_shares import (
    measure_owned_shares,
    measure_owner_changes,
    measure_written_shares,
)
from brokerproof_judging.measurements.placement import (
    measure_local_reads,
    measure_owner_regions,
    measure_spread,
    measure_under_replication,
)
from brokerproof_judging.measurements.publishing import (
    measure_moved_keys,
    measure_publishing,
    measure_replication_lag,
)
from brokerproof_judging.measurements.reached_states import measure_states
from brokerproof_judging.measurements.run_times import RunTimes, read_run_times
from brokerproof_judging.measurements.samples import Samples, read_samples
from brokerproof_judging.measurements.sampling import measure_sampling_gap
from brokerproof_judging.measurements.shared_subscriptions import measure_sharing
from brokerproof_judging.measurements.standstills import read_standstills
from brokerproof_judging.messages.legality import list_destroyed

FAULT_METRICS = tuple(name for name, metric in METRICS.items() if metric.is_per_fault)


@dataclass(frozen=True, kw_only=True)
class RecordedEvents:
    """The times, samples and clients' events of a run. They come from the recorded data, before messages are judged."""

    times: RunTimes
    samples: Samples
    events: ClientEvents


def read_recorded_events(run: Run) -> RecordedEvents:
    """Read the times, samples and clients' events of a run."""
    times = read_run_times(run)
    return RecordedEvents(times=times, samples=read_samples(run), events=read_client_events(run, times))


def measure_run(run: Run, recorded: RecordedEvents, messages: DuckDB, counts: Counts) -> Iterator[MeasuredValue]:
    """Yield all measured values of a run.

    `messages` is a database with the table `messages` of judged messages, and `counts` counts anomalies.
    """
    times, samples = recorded.times, recorded.samples
    yield from measure_spread(run, times)
    yield measure_under_replication(run, times, samples)
    yield from measure_local_reads(run, times, samples)
    yield from measure_owner_regions(run, times, samples)
    yield from measure_written_shares(run, times, samples)
    yield from measure_owned_shares(run, times, samples)
    yield from measure_owner_changes(run, times, samples)
    yield from measure_faults(run, times, samples, recorded.events, messages)
    yield from measure_counted(run, counts)
    yield from measure_missed(run, times, messages)
    yield from measure_outputs(run, messages)
    yield from measure_sharing(run, times)
    yield from measure_publishing(run, times, messages)
    yield from measure_moved_keys(run)
    yield from measure_states(run)
    yield from measure_link(run, times, samples)
    yield from measure_replication_lag(run, times, messages)
    yield from measure_failover(run, messages)
    yield measure_sampling_gap(run, times, samples)


def measure_faults(
    run: Run, times: RunTimes, samples: Samples, events: ClientEvents, messages: DuckDB
) -> Iterator[MeasuredValue]:
    """Yield each metric of each fault. If a metric could not be measured, its value is null, with the reason."""
    for ineffective in times.ineffective:
        for metric in _list_metrics(run, ineffective.name):
            yield make_measured_value(metric, ineffective.name, None, ineffective.why)
    consumers = [each for times in read_standstills(run).of_consumers.values() for each in times]
    losses = measure_losses(messages, times.effective, list_destroyed(run))
    for fault in times.effective:
        estimates: dict[str, Estimate] = {
            "detect_s": measure_detection(run, samples, fault),
            "reassign_s": measure_reassignment(run, samples, fault, times.grown_us),
            "node_recovery_s": measure_node_recovery(times, fault),
            **measure_interruption(run, times, events, fault),
            **losses[fault.name],
            "rereplicate_s": measure_rereplication(run, samples, fault),
            "backlog_drain_s": measure_backlog_drain(times, samples, fault, consumers),
            "agree_s": measure_agreement(times, samples, fault),
        }
        for metric in _list_metrics(run, fault.name):
            yield MeasuredValue(metric=metric, subject=fault.name, estimate=estimates[metric])


def _list_metrics(run: Run, fault: str) -> Iterator[str]:
    """Yield the metrics of a fault.

    Only a fault that wipes disks has `lost_later_messages`. Only in a run with a hot key, a fault has
    `longest_hot_key_gap_s`.
    """
    applies = {
        "destroying fault": fault in list_destroying_faults(run.scenario),
        "fault with a hot key": run.scenario.workload.hot_key_share is not None,
    }
    return (name for name in FAULT_METRICS if applies.get(METRICS[name].subject, True))


def group_by_fault(measurements: Iterable[Measurement]) -> dict[str, dict[str, float | None]]:
    """Return {fault: {metric: value}} of the metrics in `FAULT_METRICS`."""
    found: dict[str, dict[str, float | None]] = {}
    for row in measurements:
        if row.metric in FAULT_METRICS:
            found.setdefault(row.subject, {})[row.metric] = row.value
    return found
