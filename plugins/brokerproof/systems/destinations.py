"""The clusters that the messages of a workload have to reach: those published to, and those replicated to."""

from __future__ import annotations

from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload
from brokerproof.systems.registry import find_system


def list_clusters_reached(topology: Topology, workload: Workload) -> list[str]:
    """Return the clusters whose logs must hold messages of the workload."""
    system = find_system(topology)
    topic = system.topic(workload)
    homes = workload.list_homes(topology)
    return list(dict.fromkeys(name for home in homes for name in system.list_reached(topology, home, topic)))


def list_replication_ways(topology: Topology, workload: Workload) -> list[tuple[str, str]]:
    """Return (home, other) for each cluster that is published to and each other one that must get its messages."""
    system = find_system(topology)
    topic = system.topic(workload)
    return [
        (home, other)
        for home in workload.list_homes(topology)
        for other in system.list_reached(topology, home, topic)
        if other != home
    ]
