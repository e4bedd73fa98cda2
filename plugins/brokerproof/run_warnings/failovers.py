"""Which faults make nodes silent, and what the system's time-outs make of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from brokerproof.experiment.fault import Fault
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.faults.targets import list_possible_targets
from brokerproof.run_warnings.fault_times import HarmfulFault, list_fault_times
from brokerproof.systems.protocols import Failover
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import list_nodes_that, serves


@dataclass(frozen=True, kw_only=True)
class FailoverOfFault:
    """What a fault does to acks: how soon and how late they come again, from its effect."""

    harm: HarmfulFault
    failover: Failover
    # Clusters that are published to of which no node that serves is left, for as long as the fault lasts.
    without_nodes: tuple[str, ...]
    # How long the fault lasts, math.inf where it is not healed while the load goes on.
    lasts_s: float
    # Whether the owner of every topic that is published to is silent for certain.
    owner_is_silent: bool


def list_failovers(scenario: Scenario, topology: Topology) -> list[FailoverOfFault]:
    """The faults after which somebody has to take over, or may have to."""
    found = []
    for number, harm in enumerate(list_fault_times(scenario)):
        fault, kind = harm.fault, FAULT_KINDS[harm.fault.kind]
        # What the scenario expects of the owner in the steady phase holds until the first fault.
        owners_region = scenario.owner.steady if number == 0 else None
        silent = _list_silent(fault, scenario, topology)
        if _spares_owner(fault, topology, silent, owners_region):
            continue
        failover = _estimate(scenario, topology, silent)
        lasts_s = math.inf if fault.heal_at_s is None else fault.heal_at_s - fault.at_s
        if failover is None or (kind.keeps_sessions and lasts_s < failover.soonest_s):
            continue
        without_nodes = () if fault.targets.now else _list_without_nodes(scenario, topology, silent)
        if without_nodes and math.isfinite(lasts_s):
            failover = _estimate(scenario, topology, silent, not_before_s=lasts_s) or failover
        found.append(
            FailoverOfFault(
                harm=harm,
                failover=failover,
                without_nodes=without_nodes,
                lasts_s=lasts_s,
                owner_is_silent=_is_owner_silent(fault, scenario, topology, silent, owners_region),
            )
        )
    return found


def _list_silent(fault: Fault, scenario: Scenario, topology: Topology) -> set[str]:
    """The nodes of clusters that are published to which may fall silent."""
    possible = list_possible_targets(fault.targets, topology)
    silent = set(FAULT_KINDS[fault.kind].list_silenced(fault, possible, topology))
    homes = scenario.workload.list_homes(topology)
    return {name for home in homes for name in topology.clusters[home].nodes if name in silent}


def _estimate(scenario: Scenario, topology: Topology, silent: set[str], *, not_before_s: float = 0) -> Failover | None:
    system = find_system(topology)
    if not silent:
        return None
    return system.estimate_failover(scenario, topology, sorted(silent), not_before_s=not_before_s)


def _list_without_nodes(scenario: Scenario, topology: Topology, silent: set[str]) -> tuple[str, ...]:
    """A node on standby counts as left where a fault of the scenario starts it."""
    started = {
        name
        for fault in scenario.faults
        if FAULT_KINDS[fault.kind].helps
        for name in list_possible_targets(fault.targets, topology)
    }
    homes = scenario.workload.list_homes(topology)
    return tuple(home for home in homes if not _list_serving(topology, home, started) - (silent - started))


def _list_serving(topology: Topology, cluster: str, started: set[str]) -> set[str]:
    names = list_nodes_that(serves, topology, cluster)
    return {name for name in names if not topology.nodes[name].standby or name in started}


def _spares_owner(fault: Fault, topology: Topology, silent: set[str], owners_region: str | None) -> bool:
    """Whether all who fall silent only serve, elsewhere than where the topic's owner is."""
    if fault.targets.now is not None or owners_region is None:
        return False
    roles = find_system(topology).roles
    nodes = [topology.nodes[name] for name in silent]
    return all(node.region != owners_region and not roles[node.role].stores for node in nodes)


def _is_owner_silent(
    fault: Fault, scenario: Scenario, topology: Topology, silent: set[str], owners_region: str | None
) -> bool:
    homes = scenario.workload.list_homes(topology)
    if len(homes) > 1:
        # Acks of the other clusters go on.
        return False
    if fault.targets.now is not None:
        return fault.targets.now == "topic_owner"
    serving = _list_serving(topology, homes[0], set())
    if owners_region is not None:
        serving = {name for name in serving if topology.nodes[name].region == owners_region}
    return bool(serving) and serving <= silent
