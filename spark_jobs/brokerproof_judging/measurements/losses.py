"""Counts missing, missed and repeated messages and outputs, and the messages that each fault lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from brokerproof.experiment.guarantees import MISSING, Anomaly
from brokerproof.experiment.scenario import Phase
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Counts

from brokerproof_judging.database import DuckDB, make_small_table, register_tables, select_rows
from brokerproof_judging.evidence import NO_RECORD, Evidence
from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.run_database import read_script


def measure_losses(
    connection: DuckDB, faults: Sequence[EffectiveFault], destroyed: Sequence[tuple[str, int, int | None]] = ()
) -> dict[str, dict[str, Estimate]]:
    """Return {fault: {metric: estimate}} for `rpo_messages`, `rpo_s` and `lost_later_messages`.

    `connection` is a database with the table `messages`. The first two metrics are the number and the age of lost
    messages sent before the fault's effect, the third counts later ones. A message without a time of sending counts as
    sent before. `destroyed` has (cluster, time of effect in µs, time of healing) for each cluster that the scenario
    declares as destroyed. A message sent to such a cluster before its destruction does not count in
    `lost_later_messages`. If further messages are unproven, a value is "at least".
    """
    effects = [(number, fault.span.start_us) for number, fault in enumerate(faults)]
    tables = {
        "effects": make_small_table("fault int64, effect int64", effects),
        "destroyed": make_small_table("cluster string, effect int64, healed int64", destroyed),
    }
    register_tables(connection, tables)
    rows = {row["fault"]: row for row in select_rows(connection, read_script("measurements", "losses"))}
    return {fault.name: _read_losses(fault, rows[number]) for number, fault in enumerate(faults)}


def _read_losses(fault: EffectiveFault, counts: Mapping[str, Any]) -> dict[str, Estimate]:
    # A message that was sent before the effect may have been acked after it.
    age = 0.0 if counts["oldest"] is None else max(0.0, (fault.span.start_us - counts["oldest"]) / 1e6)
    oldest = "age of the oldest of them that was acked" if counts["lost"] else "none was lost"
    before, later = (f"acked or seen, sent {when} the effect, and held by no cluster" for when in ("before", "after"))
    return {
        "rpo_messages": _read_proven(counts["lost"], before, counts["unproven"], "before"),
        "rpo_s": _read_proven(age, oldest, counts["unproven"], "before"),
        "lost_later_messages": _read_proven(counts["lost_later"], later, counts["unproven_later"], "after"),
    }


def _read_proven(value: float, evidence: str, unproven: int, when: str) -> Estimate:
    """Return `value`, made from proven losses, as an estimate. It is "at least" if there are unproven messages.

    `unproven` is the number of messages that are missing, but not proven to be lost.
    """
    if unproven:
        evidence += f"; {unproven} messages that were sent {when} the effect are missing, and nothing proves why"
    return Estimate(value=float(value), evidence=evidence, at_least=bool(unproven))


# {metric: the anomalies that it counts}.
_COUNTED = {"missing_messages": MISSING, "repeated_messages": (Anomaly.STORED_TWICE,)}


def measure_counted(run: Run, counts: Counts) -> Iterator[MeasuredValue]:
    """Yield `missing_messages` and `repeated_messages`, a value for each anomaly that the metric counts.

    Yields only metrics that the scenario bounds. A message counts once for each log and subscription at which the
    anomaly was found. If a message is unproven, each number is "at least".
    """
    unproven = counts.count_anomaly(Anomaly.UNPROVEN)
    evidence = "counted whether legal or illegal" + (f"; {unproven:,} messages are unproven" if unproven else "")
    bounded = {key.split("/")[0] for key in run.scenario.bounds}
    for metric, anomalies in _COUNTED.items():
        for anomaly in anomalies if metric in bounded else ():
            estimate = Estimate(value=float(counts.count_anomaly(anomaly)), evidence=evidence, at_least=bool(unproven))
            yield MeasuredValue(metric=metric, subject=str(anomaly), estimate=estimate)


def measure_missed(run: Run, times: RunTimes, connection: DuckDB) -> Iterator[MeasuredValue]:
    """Yield `missed_messages` of each subscription of a topic that stores no messages.

    Messages that were sent before the steady phase do not count, because a consumer may have subscribed after them.
    `connection` is a database with the table `messages`. The value is null if there were no phases, or if nothing
    proves that the subscription's consumers took all that came to them.
    """
    if run.scenario.workload.is_stored or not times.phases:
        return
    drains = Evidence.from_run(run).drains
    beginning = [(times.phases[Phase.STEADY].start_us,)]
    register_tables(connection, {"beginning": make_small_table("begins_at int64", beginning)})
    counts = {row["subscription"]: row for row in select_rows(connection, read_script("measurements", "missed"))}
    for name in dict.fromkeys(each.name for each in run.scenario.workload.subscriptions):
        proofs = [proof for (*_, subscription), proof in drains.items() if subscription == name] or (NO_RECORD,)
        doubts = [proof.why for proof in proofs if not proof.given]
        row = counts.get(name, {"acked": 0, "missed": 0})
        value = None if doubts else float(row["missed"])
        yield make_measured_value("missed_messages", name, value, "; ".join(doubts) or f"of {row['acked']:,} acked")


def measure_outputs(run: Run, connection: DuckDB) -> Iterator[MeasuredValue]:
    """Yield `missing_outputs` and `repeated_outputs` of each subscription whose consumers write outputs.

    A message counts whether its anomaly is legal or not. `connection` is a database with the table `messages`. If it is
    unproven whether a message lacks its output, the first number is "at least".
    """
    writing = [
        (each.name, each.find_home(run.topology))
        for each in run.scenario.workload.subscriptions
        if each.outputs_guarantee is not None
    ]
    for name in dict.fromkeys(name for name, _ in writing):
        places = [place for place in writing if place[0] == name]
        register_tables(connection, {"writing": make_small_table("subscription string, cluster string", places)})
        (row,) = select_rows(connection, read_script("measurements", "outputs"))
        evidence = f"of {row['delivered']:,} messages that were delivered, counted whether legal or illegal"
        if unproven := row["unproven"]:
            evidence += f"; {unproven:,} are unproven"
        missing = Estimate(value=float(row["missing"]), evidence=evidence, at_least=bool(unproven))
        yield MeasuredValue(metric="missing_outputs", subject=name, estimate=missing)
        yield make_measured_value("repeated_outputs", name, float(row["repeated"]), evidence)
