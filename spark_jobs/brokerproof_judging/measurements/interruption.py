"""How long clients were interrupted by a fault: the first ack, the rate that is held again, the longest gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from brokerproof.experiment.metrics import HELD_SECONDS, HELD_SHARE
from brokerproof.run.directory import Run
from brokerproof.run.tables import AttemptOutcome
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import Reading
from brokerproof_judging.measurements.publishing import compute_target_rate
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.measurements.throughput import Throughput, count_throughput


@dataclass(frozen=True, kw_only=True)
class ClientEvents:
    """How acks and deliveries came after each fault that took effect, by the fault's name."""

    acks: Mapping[str, Throughput] = field(default_factory=dict)
    deliveries: Mapping[str, Throughput] = field(default_factory=dict)
    # When the first message sent after the effect was acked, None where none was.
    first_acks_us: Mapping[str, int | None] = field(default_factory=dict)


def count_client_events(
    spark: SparkSession, times: RunTimes, publishes: DataFrame, deliveries: DataFrame
) -> ClientEvents:
    """From the tables `publishes` and `deliveries`."""
    if not times.effective:
        return ClientEvents()
    acked = publishes.filter(F.col("outcome") == AttemptOutcome.ACKED)
    settled, received = F.unix_micros("settled_at").alias("at"), F.unix_micros("received_at").alias("at")
    return ClientEvents(
        acks=count_throughput(spark, acked.select(settled), times.effective),
        deliveries=count_throughput(spark, deliveries.select(received), times.effective),
        first_acks_us=_find_first_acks(acked, times.effective),
    )


def _find_first_acks(acked: DataFrame, faults: Sequence[EffectiveFault]) -> dict[str, int | None]:
    sent, settled = F.unix_micros("sent_at"), F.unix_micros("settled_at")
    columns = [
        F.min(F.when(sent >= fault.span.start_us, settled)).alias(f"first{number}")
        for number, fault in enumerate(faults)
    ]
    row = acked.agg(*columns).collect()[0]
    return {fault.name: row[number] for number, fault in enumerate(faults)}


def measure_interruption(run: Run, times: RunTimes, events: ClientEvents, fault: EffectiveFault) -> dict[str, Reading]:
    """`first_ack_s`, `rto_s` and the longest gaps of a fault.

    `rto_s`: cut the time from the effect into whole seconds; it is the start of the first of five in a row in each of
    which at least 90 % of the target rate was acked. It is looked for until the next fault takes effect or the load
    ends. The target rate is the workload's, times the clusters that produce.
    """
    acks, deliveries = events.acks[fault.name], events.deliveries[fault.name]
    consumed = bool(run.scenario.workload.subscriptions)
    return {
        "first_ack_s": _read_first_ack(times, events, fault),
        "rto_s": _read_rto(acks, compute_target_rate(run), fault.cut_off_by),
        "longest_ack_gap_s": _read_longest_gap(acks, "ack"),
        "longest_delivery_gap_s": _read_longest_gap(deliveries, "delivery")
        if consumed
        else Reading(value=None, evidence="nobody consumed"),
    }


def _read_first_ack(times: RunTimes, events: ClientEvents, fault: EffectiveFault) -> Reading:
    at = events.first_acks_us[fault.name]
    if at is not None:
        return Reading(value=fault.seconds_until(at), evidence="first ack of a message sent after the effect")
    load_end = times.phases["recovery"].end_us
    why = "no message sent after the effect was acked"
    return Reading(value=fault.seconds_until(load_end), evidence=why, at_least=True)


def _read_rto(acks: Throughput, rate_per_s: float, cut_off_by: str | None) -> Reading:
    second = acks.find_second_held(rate_per_s)
    held = f"{HELD_SHARE:.0%} of {rate_per_s:g} messages/s for {HELD_SECONDS} s"
    if second is not None:
        return Reading(value=float(second), evidence=f"acks held {held} from then on")
    until = f"{cut_off_by} took effect" if cut_off_by else "the load ended"
    why = f"acks did not hold {held} in the {acks.span.seconds:g} s until {until}"
    shortest = max(0.0, acks.span.seconds - HELD_SECONDS)
    return Reading(value=shortest, evidence=why, at_least=True, cut_off_by=cut_off_by)


def _read_longest_gap(events: Throughput, event: str) -> Reading:
    gap, cut_off = events.find_longest_gap()
    # A gap that the span cuts off is a lower bound, which is enough for a maximum. The rest belongs to the next fault.
    why = f"no {event} until the next fault or the end" if cut_off else f"between two, or up to the first {event}"
    return Reading(value=gap, evidence=why)
