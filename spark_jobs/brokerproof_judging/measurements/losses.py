"""The losses of the whole run, and of each fault: acked messages that no cluster holds any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from brokerproof.experiment.guarantees import MISSING, Anomaly
from brokerproof.run.counts import Counts
from brokerproof.run.directory import Run
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import MeasuredValue, Reading
from brokerproof_judging.measurements.run_times import EffectiveFault


def measure_losses(
    messages: DataFrame, faults: Sequence[EffectiveFault], destroyed: Iterable[tuple[str, int]] = ()
) -> dict[str, dict[str, Reading]]:
    """By fault, `rpo_messages` and `rpo_s` of what was sent before its effect, `lost_later_messages` of all else.

    `destroyed` has the clusters that the scenario declares as destroyed, with the time of the effect in µs. A message
    that was sent to one of them before is no later loss of an earlier fault. If messages are unproven, a number is at
    least that of those that are proven.
    """
    sent = F.unix_micros("sent_at")
    excused = F.lit(False)
    for cluster, effective_us in destroyed:
        excused = excused | ((F.col("home") == cluster) & (sent < effective_us))
    lost = F.array_contains("anomalies", str(Anomaly.LOST))
    # What cannot be read may be there or not.
    unproven = F.arrays_overlap("anomalies", F.lit([str(Anomaly.UNPROVEN), str(Anomaly.UNREADABLE)]))
    columns = []
    for number, fault in enumerate(faults):
        before = sent < fault.span.start_us
        columns += [
            F.struct(
                F.count_if(lost & before).alias("lost"),
                F.count_if(lost & ~before & ~excused).alias("lost_later"),
                F.min(F.when(lost & before, F.unix_micros("settled_at"))).alias("oldest"),
                F.count_if(unproven & before).alias("unproven"),
                F.count_if(unproven & ~before & ~excused).alias("unproven_later"),
            ).alias(f"fault{number}")
        ]
    if not columns:
        return {}
    row = find_missing_everywhere(messages).agg(*columns).collect()[0]
    return {fault.name: _read_losses(fault, row[number]) for number, fault in enumerate(faults)}


def _read_losses(fault: EffectiveFault, counts: Row) -> dict[str, Reading]:
    # A message that was sent before the effect may have been acked after it.
    age = 0.0 if counts.oldest is None else max(0.0, (fault.span.start_us - counts.oldest) / 1e6)
    oldest = "age of the oldest of them" if counts.lost else "none was lost"
    before, later = (f"acked, sent {when} the effect, and held by no cluster" for when in ("before", "after"))
    return {
        "rpo_messages": _read_proven(counts.lost, before, counts.unproven, "before"),
        "rpo_s": _read_proven(age, oldest, counts.unproven, "before"),
        "lost_later_messages": _read_proven(counts.lost_later, later, counts.unproven_later, "after"),
    }


def _read_proven(value: float, evidence: str, unproven: int, when: str) -> Reading:
    """A value of what is proven, which is at least that much if messages are unproven."""
    if unproven:
        evidence += f"; {unproven} acked messages that were sent {when} the effect are missing, and nothing proves why"
    return Reading(value=float(value), evidence=evidence, at_least=bool(unproven))


def measure_missing(run: Run, counts: Counts) -> Iterator[MeasuredValue]:
    """By anomaly, the places at which a message is missing, if the scenario bounds them.

    If some messages are unproven, the number is "at least".
    """
    if not any(key.split("/")[0] == "missing_messages" for key in run.scenario.bounds):
        return
    unproven = counts.count_anomaly(Anomaly.UNPROVEN)
    for anomaly in MISSING:
        evidence = "counted whether legal or illegal" + (f"; {unproven:,} messages are unproven" if unproven else "")
        reading = Reading(value=float(counts.count_anomaly(anomaly)), evidence=evidence, at_least=bool(unproven))
        yield MeasuredValue(metric="missing_messages", subject=str(anomaly), reading=reading)


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
            F.min("home").alias("home"),
            F.min("sent_at").alias("sent_at"),
            F.min("settled_at").alias("settled_at"),
            F.array_distinct(F.flatten(F.collect_list("anomalies"))).alias("anomalies"),
        )
        .filter("copies = 0")
    )
