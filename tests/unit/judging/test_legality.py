"""Which anomalies are illegal where, as Spark applies the table in guarantees.py."""

from __future__ import annotations

import pytest
from brokerproof.guarantees import Anomaly, Guarantee, SubscriptionType, is_illegal
from brokerproof_judging.anomalies import illegal
from brokerproof_judging.messages import IN_LOG
from pyspark.sql import functions as F

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
def test_it_is_what_the_guarantee_says_of_every_place(spark, guarantee):
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
    rows = [(*place, str(anomaly)) for place in PLACES for anomaly in Anomaly]
    frame = spark.createDataFrame(rows, "cluster string, subscription string, anomaly string")

    found = frame.withColumn("illegal", illegal(history.scenario, history.topology, F.col("anomaly"))).collect()

    assert {(row.cluster, row.subscription, row.anomaly): row.illegal for row in found} == {
        (*place, str(anomaly)): is_illegal(anomaly, guarantee, type_, tightened=tightened, loosened=loosened)
        for place, type_ in PLACES.items()
        for anomaly in Anomaly
    }
