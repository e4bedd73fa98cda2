"""Warnings about a region that the topic's owner must be in, but that has no node which could own the topic."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import list_nodes_that, list_roles_that, serves

_PHASES = ("steady", "recovery")


def list_owner_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield at most one warning for each phase. The topic has an owner in every cluster that its messages reach."""
    roles = " or ".join(list_roles_that(find_system(topology), serves))
    for phase in _PHASES:
        region = getattr(scenario.owner, phase)
        elsewhere = [
            cluster
            for cluster in list_clusters_reached(topology, scenario.workload)
            if region not in {topology.nodes[name].region for name in list_nodes_that(serves, topology, cluster)}
        ]
        if region is not None and elsewhere:
            yield RunWarning(
                field=f"owner.{phase}",
                what=f"no {roles} of `{elsewhere[0]}` is in {region}, so that no run meets it",
                remedy="leave it out, or name a region in which every cluster of the topic has one",
            )
