"""Which anomalies are illegal at which place, and what is legal nevertheless, as the queries on findings read it."""

from __future__ import annotations

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly, SubscriptionType, is_illegal
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.registry import list_destroying_faults
from brokerproof.run.directory import Run
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import FaultState

from brokerproof_judging.database import make_small_table
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


def list_destroyed(run: Run) -> list[tuple[str, int]]:
    """(cluster, µs) of each cluster that the scenario declares as destroyed.

    The time is that at which its last destroying fault took effect. A cluster whose destroying fault took no effect is
    left out, so that nothing is excused there.
    """
    destroying = list_destroying_faults(run.scenario)
    effects: dict[str, int] = {}
    for row in iterate_rows(run, "faults"):
        if row["fault"] in destroying and row["state"] == FaultState.EFFECTIVE:
            for name in run.scenario.destroyed:
                if run.topology.clusters[name].nodes.keys() & set(row["targets"] or ()):
                    effects[name] = max(row["at"], effects.get(name, row["at"]))
    return sorted(effects.items())


def list_loosened(scenario: Scenario) -> pa.Table:
    """(anomaly, outcome, home, subscription): what is legal of which messages. Null stands for any value."""
    rows = [(str(anomaly), each.outcome, each.home, each.subscription) for anomaly, each in scenario.loosen.items()]
    return make_small_table("anomaly string, outcome string, home string, subscription string", rows)


def _list_forbidden_at(scenario: Scenario, subscription: SubscriptionType | None) -> list[str]:
    return [
        str(anomaly)
        for anomaly in Anomaly
        if is_illegal(anomaly, scenario.guarantee, subscription, tightened=scenario.tighten)
    ]
