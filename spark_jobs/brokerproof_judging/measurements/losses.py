"""The losses of the whole run, and of each fault: acked messages that no cluster holds any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from brokerproof.experiment.guarantees import MISSING, Anomaly
from brokerproof.run.counts import Counts
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, Reading, make_measured_value
from brokerproof_judging.measurements.run_times import EffectiveFault


def measure_losses(messages: DataFrame, faults: Sequence[EffectiveFault]) -> dict[str, dict[str, Reading]]:
    """By fault, `rpo_messages` and `rpo_s` of what was sent before its effect, `lost_later_messages` of all else.

    Neither is known while one of the messages is unproven.
    """
    sent = F.unix_micros("sent_at")
    lost = F.array_contains("anomalies", str(Anomaly.LOST))
    # What cannot be read may be there or not.
    unproven = F.arrays_overlap("anomalies", F.lit([str(Anomaly.UNPROVEN), str(Anomaly.UNREADABLE)]))
    columns = []
    for number, fault in enumerate(faults):
        before = sent < fault.span.start_us
        columns += [
            F.struct(
                F.count_if(lost & before).alias("lost"),
                F.count_if(lost & ~before).alias("lost_later"),
                F.min(F.when(lost & before, F.unix_micros("settled_at"))).alias("oldest"),
                F.count_if(unproven & before).alias("unproven"),
                F.count_if(unproven & ~before).alias("unproven_later"),
            ).alias(f"fault{number}")
        ]
    if not columns:
        return {}
    row = find_missing_everywhere(messages).agg(*columns).collect()[0]
    return {fault.name: _read_losses(fault, row[number]) for number, fault in enumerate(faults)}


def _read_losses(fault: EffectiveFault, counts: Row) -> dict[str, Reading]:
    before = later = None
    if counts.unproven:
        before = _describe_unproven(counts.unproven, "before")
    if counts.unproven_later:
        later = _describe_unproven(counts.unproven_later, "after")
    age = 0.0 if counts.oldest is None else (fault.span.start_us - counts.oldest) / 1e6
    return {
        "rpo_messages": before
        or Reading(value=float(counts.lost), evidence="acked, sent before the effect, and held by no cluster"),
        "rpo_s": before or Reading(value=age, evidence="age of the oldest of them" if counts.lost else "none was lost"),
        "lost_later_messages": later
        or Reading(value=float(counts.lost_later), evidence="acked, sent after the effect, and held by no cluster"),
    }


def _describe_unproven(count: int, when: str) -> Reading:
    why = f"{count} acked messages that were sent {when} the effect are missing, and nothing proves why"
    return Reading(value=None, evidence=why)


def measure_missing(run: Run, counts: Counts) -> Iterator[MeasuredValue]:
    """By anomaly, how many messages are missing at a place, if the scenario bounds it; unknown with an unproven one."""
    if not any(key.split("/")[0] == "missing_messages" for key in run.scenario.bounds):
        return
    unproven = counts.count_anomaly(Anomaly.UNPROVEN)
    for anomaly in MISSING:
        value = None if unproven else float(counts.count_anomaly(anomaly))
        evidence = f"{unproven:,} messages are unproven" if unproven else "legal or not"
        yield make_measured_value("missing_messages", str(anomaly), value, evidence)


def find_missing_everywhere(messages: DataFrame) -> DataFrame:
    """Acked messages that no cluster holds, of those with an anomaly in a log: their times and all their `anomalies`.

    A message that its home lost and another cluster still has is not gone.
    """
    wanting = messages.filter("subscription IS NULL AND outcome = 'acked' AND size(anomalies) > 0")
    return (
        # Few messages have an anomaly, so only these are looked for in all logs and grouped.
        messages.filter("subscription IS NULL")
        .join(wanting.select("topic", "producer", "seq").distinct(), ["topic", "producer", "seq"], "left_semi")
        .groupBy("topic", "producer", "seq")
        .agg(
            F.max("copies").alias("copies"),
            F.min("sent_at").alias("sent_at"),
            F.min("settled_at").alias("settled_at"),
            F.array_distinct(F.flatten(F.collect_list("anomalies"))).alias("anomalies"),
        )
        .filter("copies = 0")
    )
