"""The targets of a fault: the nodes that it may act on, and those that it acts on now."""

from __future__ import annotations

from collections.abc import Sequence

from brokerproof.errors import RunError
from brokerproof.experiment.fault import Targets
from brokerproof.experiment.topology import Topology
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultTargets, read_record, record_keys
from brokerproof.systems.protocols import Observation
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import coordinates, list_nodes_that, serves, stores


def list_possible_targets(targets: Targets, topology: Topology) -> list[str]:
    """Return the names of the nodes that a fault may act on, as far as the topology tells.

    Which of them owns the topic, holds its newest messages or leads the others is known only while the cluster runs.
    """
    system = find_system(topology)
    if targets.asks_who_leads:
        clusters = [targets.cluster] if targets.cluster else topology.clusters
        found = (name for cluster in clusters for name in list_nodes_that(coordinates, topology, cluster))
        return _select(list(dict.fromkeys(found)), targets, topology)
    trait = {None: None, "topic_owner": serves}.get(targets.now, stores)
    names = targets.nodes or [
        name for name, node in topology.nodes.items() if trait is None or trait(system.roles[node.role])
    ]
    return _select(names, targets, topology)[: None if targets.now else targets.count]


def resolve_targets(targets: Targets, topology: Topology, observation: Observation) -> list[str]:
    """Return the names of the nodes that a fault acts on if it is injected now.

    Raises RunError if there is no such node, AdminError if the cluster does not answer.
    """
    if targets.nodes:
        names = list(targets.nodes)
    elif targets.now == "topic_owner":
        owner = observation.find_owner(targets.cluster)
        names = [owner] if owner else []
    elif targets.asks_who_leads:
        coordinators = observation.find_coordinators(targets.cluster)
        names = [coordinators.leader] if targets.now == "coordination_leader" else list(coordinators.followers)
    elif targets.now is not None:
        names = observation.find_holders(targets.cluster)
    else:
        names = list(topology.nodes)
    names = _select(names, targets, topology)[: targets.count]
    if not names:
        raise RunError(f"no node is {targets.model_dump(exclude_defaults=True)} now; the fault has no target")
    return names


def read_doubts_about_targets(run: Run) -> dict[str, str]:
    """Return {fault: sentence} for faults whose targets were known only from an earlier answer.

    If the record of a fault's targets cannot be read, the fault is included with that reason.
    """
    doubts: dict[str, str] = {}
    for name in record_keys(run, FaultTargets):
        try:
            record = read_record(run, FaultTargets, name)
        except RunError as error:
            doubts[name] = f"the record of its targets cannot be read ({error})"
        else:
            if record is not None:
                doubts[name] = f"its targets were known only from {record.age_s:.0f} s before"
    return doubts


def _select(names: Sequence[str], targets: Targets, topology: Topology) -> list[str]:
    return [
        name
        for name in names
        if (targets.region is None or topology.nodes[name].region == targets.region)
        and (targets.role is None or topology.nodes[name].role == targets.role)
        # Coordinating nodes may be in no cluster, because all clusters share them.
        and (targets.cluster is None or targets.asks_who_leads or name in topology.clusters[targets.cluster].nodes)
    ]
