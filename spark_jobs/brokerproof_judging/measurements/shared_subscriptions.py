"""Measures how consumers of a subscription shared its messages: redeliveries, overtaking and the busiest consumer.

All values come from the table `deliveries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from brokerproof.experiment.guarantees import SubscriptionType
from brokerproof.experiment.scenario import Phase
from brokerproof.faults.registry import list_harmful_faults
from brokerproof.run.directory import Run

from brokerproof_judging.database import define_values, make_small_table, register_tables, select_rows
from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import NEVER_STEADY, RunTimes
from brokerproof_judging.run_database import open_run_database, read_script

_NOTHING = "the subscription got no message"


def measure_sharing(run: Run, times: RunTimes) -> Iterator[MeasuredValue]:
    """Yield the measurements of how each subscription's messages were shared and overtook each other.

    Of a subscription whose consumers share its messages, these are `redelivered_messages`, and
    `largest_consumer_share` in each phase and in the span of each fault. Of one that keeps order, these are
    `overtaken_messages` and `longest_overtaking_s`, if consumers share by key or the scenario bounds one of them. A
    message counts once for each cluster in which it was delivered.
    """
    bounded = {key.partition("/")[0] for key in run.scenario.bounds} & {"overtaken_messages", "longest_overtaking_s"}
    measured = [each for each in run.scenario.workload.subscriptions if bounded or each.type.shares_messages]
    if not measured:
        return
    places = [
        (cluster, each.name, each.type is not SubscriptionType.SHARED)
        for each in measured
        for cluster in each.list_clusters(run.topology)
    ]
    sharing = {each.name for each in measured if each.type.shares_messages}
    spans = {**times.phases, **{fault.name: fault.client_span for fault in times.effective}}
    tables = {
        "measured": make_small_table("cluster string, subscription string, keeps_order bool", places),
        "spans": make_small_table(
            "name string, start int64, until int64",
            [(name, span.start_us, span.end_us) for name, span in spans.items()],
        ),
    }
    with open_run_database(run, ("deliveries",)) as connection:
        define_values(connection, {"clock_error_us": run.facts.clock_error_us})
        register_tables(connection, tables)
        connection.execute(read_script("measurements", "shared_subscriptions"))
        redelivered, overtaken = (
            {row["subscription"]: row for row in select_rows(connection, f"FROM {view}")}
            for view in ("redelivered", "overtaken")
        )
        shares = {(row["subscription"], row["time"]): row for row in select_rows(connection, "FROM consumer_shares")}
    reasons = {each.name: each.why for each in times.ineffective}
    for name in dict.fromkeys(each.name for each in measured):
        if any(keeps_order for _, other, keeps_order in places if other == name):
            yield from _read_overtaken(name, overtaken.get(name))
        if name not in sharing:
            continue
        yield _read_redelivered(name, redelivered.get(name))
        for time in (*Phase, *list_harmful_faults(run.scenario)):
            why = reasons.get(time, "no message was delivered in this time") if times.phases else NEVER_STEADY
            yield _read_share(f"{name}/{time}", shares.get((name, time)), why)


def _read_redelivered(name: str, row: Mapping[str, Any] | None) -> MeasuredValue:
    if row is None:
        return make_measured_value("redelivered_messages", name, 0.0, _NOTHING)
    evidence = (
        f"of {row['messages']:,} messages; {row['came_again']:,} came again from one position, and the system had "
        f"delivered {row['counted']:,} before"
    )
    return make_measured_value("redelivered_messages", name, float(row["redelivered"]), evidence)


def _read_overtaken(name: str, row: Mapping[str, Any] | None) -> Iterator[MeasuredValue]:
    count, longest, evidence = 0.0, 0.0, _NOTHING
    if row is not None:
        count, longest, evidence = float(row["overtaken"]), row["longest"] / 1e6, f"of {row['messages']:,} messages"
    yield make_measured_value("overtaken_messages", name, count, evidence)
    yield make_measured_value("longest_overtaking_s", name, longest, evidence)


def _read_share(subject: str, row: Mapping[str, Any] | None, why: str) -> MeasuredValue:
    if row is None:
        return make_measured_value("largest_consumer_share", subject, None, why)
    busiest = row["busiest"]
    evidence = (
        f"{busiest['consumer']} received {busiest['deliveries']:,} of {row['deliveries']:,} deliveries to "
        f"{row['consumers']} consumers"
    )
    return make_measured_value("largest_consumer_share", subject, busiest["deliveries"] / row["deliveries"], evidence)
