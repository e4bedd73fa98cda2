"""Finds consumers that received in turns although only one of them may receive: of a partition, or of a key.

A turn lasts from the first to the last delivery of a partition or key to one incarnation of a consumer. A message that
another consumer received within the turn is an anomaly. It has three innocent reasons: a client gives its application
messages that its server sent to it earlier, a consumer takes over from another one, and the topic gets another owner.

So the anomaly is illegal only within a period in which samples prove the same consumers and the same owner
(`membership.py`). The message, and those at both ends of the turn, must be due and received in the period. The owner
has then sent all of them to the consumers of this period. All other anomalies of this kind are legal, and are counted.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly, SubscriptionType
from brokerproof.run.directory import Run

from brokerproof_judging.database import define_values, make_small_table, register_tables, select_rows
from brokerproof_judging.membership import list_periods
from brokerproof_judging.messages.message_columns import read_query
from brokerproof_judging.run_database import open_run_database

# The times are microseconds since the epoch. Only turns of keys have a key. A turn within a period has the period's
# first and last time in `since` and `until`.
TURNS = pa.schema(
    [
        *[(name, pa.string()) for name in ("anomaly", "cluster", "topic", "subscription")],
        ("partition", pa.int32()),
        ("key", pa.string()),
        ("consumer", pa.string()),
        ("incarnation", pa.int32()),
        *[(name, pa.int64()) for name in ("since", "until", "first_at", "last_at")],
    ]
)
_PLACE = ("cluster", "topic", "subscription", "partition")


def find_turns(run: Run, anomalies: Collection[Anomaly]) -> pa.Table:
    """Return the turns of a run that overlap other turns, and the turns within each period, with the columns `TURNS`.

    `anomalies` are those that the run can show. In most runs no turns overlap. Then only `deliveries` is read.
    """
    subscriptions = [
        (str(anomaly), cluster, each.name, each.type is SubscriptionType.KEY_SHARED)
        for anomaly in anomalies
        for each in run.scenario.workload.subscriptions
        if anomaly.facts.only_at is not None and each.type in anomaly.facts.only_at
        for cluster in each.list_clusters(run.topology)
    ]
    if not subscriptions:
        return TURNS.empty_table()
    with open_run_database(run, ("deliveries", "publishes")) as connection:
        define_values(connection, {"clock_error_us": run.facts.clock_error_us})
        columns = "anomaly string, cluster string, subscription string, by_key bool"
        register_tables(connection, {"subscriptions": make_small_table(columns, subscriptions)})
        connection.execute(read_query("overlapping_turns"))
        places = select_rows(connection, f"SELECT DISTINCT {', '.join(_PLACE)} FROM overlapping_turns")
        if not places:
            return TURNS.empty_table()
        periods = list_periods(run, [tuple(place[name] for name in _PLACE) for place in places])
        columns = "cluster string, topic string, subscription string, partition int32, since int64, until int64"
        table = make_small_table(columns, [(*place, since, until) for place, since, until in periods])
        register_tables(connection, {"periods": table})
        return connection.execute(read_query("turns")).to_arrow_table().select(TURNS.names).cast(TURNS)
