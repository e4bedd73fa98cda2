"""Counts the run's missing messages, and each fault's losses: messages that must exist but that no cluster holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from brokerproof.experiment.guarantees import MISSING, Anomaly
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue
from brokerproof_judging.measurements.run_times import EffectiveFault


def measure_losses(
    messages: DataFrame, faults: Sequence[EffectiveFault], destroyed: Iterable[tuple[str, int, int | None]] = ()
) -> dict[str, dict[str, Estimate]]:
    """Return {fault: {metric: estimate}} for `rpo_messages`, `rpo_s` and `lost_later_messages`.

    The first two are the number and the age of lost messages sent before the fault's effect, the third counts later
    ones. A message without a time of sending counts as sent before. `destroyed` has (cluster, time of effect in µs,
    time of healing) for each cluster that the scenario declares as destroyed. A message sent to such a cluster before
    its destruction does not count in `lost_later_messages`. If further messages are unproven, a value is "at least".
    """
    sent = F.coalesce(F.unix_micros("sent_at"), F.lit(0))
    excused = F.lit(False)
    for cluster, effective_us, _ in destroyed:
        excused = excused | ((F.col("home") == cluster) & (sent < effective_us))
    lost = F.array_contains("anomalies", str(Anomaly.LOST))
    # An unreadable message may or may not exist.
    unproven = F.arrays_overlap("anomalies", F.lit([str(Anomaly.UNPROVEN), str(Anomaly.UNREADABLE)]))
    columns = []
    for number, fault in enumerate(faults):
        before = sent < fault.span.start_us
        columns += [
            F.struct(
                F.count_if(lost & before).alias("lost"),
                F.count_if(lost & ~before & ~excused).alias("lost_later"),
                F.min(F.when(lost & before, F.unix_micros("acked_at"))).alias("oldest"),
                F.count_if(unproven & before).alias("unproven"),
                F.count_if(unproven & ~before & ~excused).alias("unproven_later"),
            ).alias(f"fault{number}")
        ]
    if not columns:
        return {}
    row = find_missing_everywhere(messages).agg(*columns).collect()[0]
    return {fault.name: _read_losses(fault, row[number]) for number, fault in enumerate(faults)}


def _read_losses(fault: EffectiveFault, counts: Row) -> dict[str, Estimate]:
    # A message that was sent before the effect may have been acked after it.
    age = 0.0 if counts.oldest is None else max(0.0, (fault.span.start_us - counts.oldest) / 1e6)
    oldest = "age of the oldest of them that was acked" if counts.lost else "none was lost"
    before, later = (f"acked or seen, sent {when} the effect, and held by no cluster" for when in ("before", "after"))
    return {
        "rpo_messages": _read_proven(counts.lost, before, counts.unproven, "before"),
        "rpo_s": _read_proven(age, oldest, counts.unproven, "before"),
        "lost_later_messages": _read_proven(counts.lost_later, later, counts.unproven_later, "after"),
    }


def _read_proven(value: float, evidence: str, unproven: int, when: str) -> Estimate:
    """Return `value`, made from proven losses, as an estimate. It is "at least" if there are unproven messages.

    `unproven` is the number of messages that are missing, but not proven to be lost.
    """
    if unproven:
        evidence += f"; {unproven} messages that were sent {when} the effect are missing, and nothing proves why"
    return Estimate(value=float(value), evidence=evidence, at_least=bool(unproven))


def measure_missing(run: Run, counts: Counts) -> Iterator[MeasuredValue]:
    """Yield `missing_messages`, the number of missing messages, for each anomaly that a missing message can have.

    Yields nothing unless the scenario bounds this metric. A message counts once for each log and subscription in which
    it is missing. If a message is unproven, each number is "at least".
    """
    if not any(key.split("/")[0] == "missing_messages" for key in run.scenario.bounds):
        return
    unproven = counts.count_anomaly(Anomaly.UNPROVEN)
    for anomaly in MISSING:
        evidence = "counted whether legal or illegal" + (f"; {unproven:,} messages are unproven" if unproven else "")
        estimate = Estimate(value=float(counts.count_anomaly(anomaly)), evidence=evidence, at_least=bool(unproven))
        yield MeasuredValue(metric="missing_messages", subject=str(anomaly), estimate=estimate)


def find_missing_everywhere(messages: DataFrame) -> DataFrame:
    """Return a row for each message that no cluster holds and that has an anomaly in a log.

    `anomalies` has the anomalies in all logs. `acked_at` is null for a message that was seen and never acked.
    """
    wanting = messages.filter("subscription IS NULL AND size(anomalies) > 0")
    return (
        # Few messages have an anomaly, so only their rows are grouped.
        messages.filter("subscription IS NULL")
        .join(wanting.select("topic", "producer", "seq").distinct(), ["topic", "producer", "seq"], "left_semi")
        .groupBy("topic", "producer", "seq")
        .agg(
            F.max("copies").alias("copies"),
            F.min("home").alias("home"),
            F.min("sent_at").alias("sent_at"),
            F.min(F.when(F.col("outcome") == "acked", F.col("settled_at"))).alias("acked_at"),
            F.array_distinct(F.flatten(F.collect_list("anomalies"))).alias("anomalies"),
        )
        .filter("copies = 0")
    )
