"""The faults that make nodes silent, and how long acks stay away until the system's time-outs have ended."""

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
    """A fault and its failover: how soon and how late acks come again after its effect."""

    harm: HarmfulFault
    failover: Failover
    # The clusters that are published to and have no serving node left while the fault lasts.
    without_nodes: tuple[str, ...]
    # Seconds from the injection to the healing, math.inf if the fault has no `heal_at_s`.
    lasts_s: float
    # Whether the owner of the topic is certain to be silent in every cluster that is published to.
    owner_is_silent: bool


def list_failovers(scenario: Scenario, topology: Topology) -> list[FailoverOfFault]:
    """Return the faults after which another node has to take over, or may have to."""
    found = []
    for number, harm in enumerate(list_fault_times(scenario)):
        fault, kind = harm.fault, FAULT_KINDS[harm.fault.kind]
        # The owner is in the region that the scenario expects in the steady phase only until the first fault.
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
    """Return the nodes that may fall silent in the clusters that are published to."""
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
    """Return the clusters that are published to and have no serving node left.

    A node that a helping fault starts counts as left.
    """
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
    """Whether every silent node is in another region than the topic's owner and stores no copies."""
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
        # The other clusters still send acks.
        return False
    if fault.targets.now is not None:
        return fault.targets.now == "topic_owner"
    serving = _list_serving(topology, homes[0], set())
    if owners_region is not None:
        serving = {name for name in serving if topology.nodes[name].region == owners_region}
    return bool(serving) and serving <= silent
