"""Which anomalies are illegal at which place, as a table that the queries on findings read."""

from __future__ import annotations

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly, SubscriptionType, is_illegal
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology

from brokerproof_judging.messages.message_columns import IN_LOG

_SCHEMA = pa.schema([("cluster", pa.string()), ("subscription", pa.string()), ("forbidden", pa.list_(pa.string()))])


def list_forbidden(scenario: Scenario, topology: Topology) -> pa.Table:
    """(cluster, subscription, forbidden anomalies) of every subscription.

    The row without a cluster holds for every other place: logs, and subscriptions that the scenario does not know.
    """
    rows = [{"cluster": None, "subscription": IN_LOG, "forbidden": _list_forbidden_at(scenario, None)}]
    rows += [
        {"cluster": cluster, "subscription": each.name, "forbidden": _list_forbidden_at(scenario, each.type)}
        for each in scenario.workload.subscriptions
        for cluster in each.list_clusters(topology)
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _list_forbidden_at(scenario: Scenario, subscription: SubscriptionType | None) -> list[str]:
    return [
        str(anomaly)
        for anomaly in Anomaly
        if is_illegal(anomaly, scenario.guarantee, subscription, tightened=scenario.tighten, loosened=scenario.loosen)
    ]
