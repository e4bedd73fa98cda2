"""Which anomalies are illegal where, as judging applies the table in guarantees.py."""

from __future__ import annotations

import pytest
from brokerproof.experiment.guarantees import Anomaly, Guarantee, SubscriptionType, is_illegal
from brokerproof_judging import partitioned_sql
from brokerproof_judging.messages.anomalies import forbidden
from brokerproof_judging.messages.message_columns import IN_LOG
from brokerproof_judging.messages.result_tables import FORBIDDEN, LEGALITY

from ..history import History

PLACES = {
    ("main", IN_LOG): None,
    ("main", "audit"): SubscriptionType.FAILOVER,
    ("main", "pool"): SubscriptionType.SHARED,
    ("other", "audit"): SubscriptionType.SHARED,
    # Not in the scenario: judged as strictly as the log.
    ("other", "curious"): None,
}


def forbidden_at(connection, history, places, destroyed=()):
    """What is illegal at each (cluster, subscription) of `places`, given with the home of what was published."""
    partitioned_sql.give(
        connection,
        {
            "places": partitioned_sql.table("cluster string, subscription string, home string", places),
            "forbidden": forbidden(history.scenario, history.topology),
            "destroyed": partitioned_sql.table("name string", [(name,) for name in destroyed]),
        },
    )
    rows = partitioned_sql.rows(connection, f"SELECT f.*, {FORBIDDEN} AS forbidden FROM places f {LEGALITY}")
    return {(row["cluster"], row["subscription"]): set(row["forbidden"]) for row in rows}


@pytest.mark.parametrize("guarantee", Guarantee)
def test_it_is_what_the_guarantee_says_of_every_place(guarantee):
    tightened, loosened = [Anomaly.DELIVERED_TWICE], [Anomaly.PHANTOM]
    history = History(
        clusters=("main", "other"),
        guarantee=guarantee,
        tighten=tightened,
        loosen=loosened,
        subscriptions=[
            {"name": "audit"},
            {"name": "pool", "type": "shared"},
            {"name": "audit", "type": "shared", "cluster": "other"},
        ],
    )
    with partitioned_sql.database() as connection:
        found = forbidden_at(connection, history, [(*place, place[0]) for place in PLACES])

    assert found == {
        place: {
            anomaly
            for anomaly in Anomaly
            if is_illegal(anomaly, guarantee, type_, tightened=tightened, loosened=loosened)
        }
        for place, type_ in PLACES.items()
    }


def test_what_a_destroyed_cluster_lost_or_had_not_sent_on_is_legal():
    history = History(clusters=("main", "other"))
    missing = {Anomaly.LOST, Anomaly.NOT_REPLICATED}
    with partitioned_sql.database() as connection:
        everywhere = forbidden_at(connection, history, [("main", IN_LOG, "main"), ("other", IN_LOG, "other")])
        with_main_gone = forbidden_at(
            connection,
            history,
            [("main", IN_LOG, "main"), ("other", IN_LOG, "other"), ("main", "audit", "main")],
            destroyed=["main"],
        )

    assert all(missing <= forbidden for forbidden in everywhere.values())
    assert missing.isdisjoint(with_main_gone["main", IN_LOG])
    assert missing <= with_main_gone["other", IN_LOG]
    assert missing <= with_main_gone["main", "audit"]
