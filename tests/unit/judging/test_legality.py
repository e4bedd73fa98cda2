"""Which anomalies are illegal where, as judging applies the table in guarantees.py."""

from __future__ import annotations

import pytest
from brokerproof.guarantees import Anomaly, Guarantee, SubscriptionType, is_illegal
from brokerproof_judging import parts
from brokerproof_judging.anomalies import forbidden
from brokerproof_judging.identity import IN_LOG
from brokerproof_judging.results import FORBIDDEN, LEGALITY

from .history import History

PLACES = {
    ("main", IN_LOG): None,
    ("main", "audit"): SubscriptionType.FAILOVER,
    ("main", "pool"): SubscriptionType.SHARED,
    ("other", "audit"): SubscriptionType.SHARED,
    # Not in the scenario: judged as strictly as the log.
    ("other", "curious"): None,
}


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
    with parts.database() as connection:
        places = parts.table("cluster string, subscription string", list(PLACES))
        parts.give(connection, {"places": places, "forbidden": forbidden(history.scenario, history.topology)})

        found = parts.rows(connection, f"SELECT f.*, {FORBIDDEN} AS forbidden FROM places f {LEGALITY}")

    assert {(row["cluster"], row["subscription"]): set(row["forbidden"]) for row in found} == {
        place: {
            anomaly
            for anomaly in Anomaly
            if is_illegal(anomaly, guarantee, type_, tightened=tightened, loosened=loosened)
        }
        for place, type_ in PLACES.items()
    }
