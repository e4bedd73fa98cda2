"""Lists which anomalies are illegal in logs and for subscriptions, and the exceptions, as tables for `findings.sql`."""

from __future__ import annotations

from operator import itemgetter

import pyarrow as pa
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Subscription
from brokerproof.faults.registry import list_destroying_faults
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses
from brokerproof.systems.roles import list_nodes_that, stores

from brokerproof_judging.database import make_small_table
from brokerproof_judging.messages.message_columns import IN_LOG

_SCHEMA = pa.schema([("cluster", pa.string()), ("subscription", pa.string()), ("forbidden", pa.list_(pa.string()))])


def list_forbidden(scenario: Scenario, topology: Topology) -> pa.Table:
    """Return a table with the illegal anomalies (`forbidden`) of each subscription, by `cluster` and `subscription`.

    The row without a cluster is the rule for every log, and for subscriptions that the scenario does not declare.
    """
    rows = [{"cluster": None, "subscription": IN_LOG, "forbidden": _list_forbidden_at(scenario, None)}]
    rows += [
        {"cluster": cluster, "subscription": each.name, "forbidden": _list_forbidden_at(scenario, each)}
        for each in scenario.workload.subscriptions
        for cluster in each.list_clusters(topology)
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def list_destroyed(run: Run) -> list[tuple[str, int, int | None]]:
    """Return (cluster, time of effect, time of healing) for each cluster that the scenario declares as destroyed.

    The times are those of the last fault that destroyed a storing node of the cluster, in µs, with the clocks' error
    added. The time of healing is None if the fault was not healed. A cluster for which no such fault took effect is
    left out, and its anomalies are not excused.
    """
    destroying = list_destroying_faults(run.scenario)
    courses = [course for name, course in read_fault_courses(run).items() if name in destroying]
    error = run.facts.clock_error_us
    found = []
    for name in sorted(run.scenario.destroyed):
        holders = set(list_nodes_that(stores, run.topology, name))
        effects = [
            (course.effective_at + error, course.healed_at)
            for course in courses
            if course.effective_at is not None and holders & set(course.targets)
        ]
        if effects:
            effective_at, healed_at = max(effects, key=itemgetter(0))
            found.append((name, effective_at, None if healed_at is None else healed_at + error))
    return found


def list_loosened(scenario: Scenario) -> pa.Table:
    """Return a table with each anomaly that the scenario loosens (allows), and the messages for which it is allowed.

    A row applies to the messages with the `outcome`, `home` and `subscription` that it names. Null matches any value.
    """
    rows = [(str(anomaly), each.outcome, each.home, each.subscription) for anomaly, each in scenario.loosen.items()]
    return make_small_table("anomaly string, outcome string, home string, subscription string", rows)


def _list_forbidden_at(scenario: Scenario, subscription: Subscription | None) -> list[str]:
    return [str(anomaly) for anomaly in Anomaly if scenario.forbids(anomaly, subscription)]
