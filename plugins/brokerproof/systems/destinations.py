"""The clusters that the messages of a workload have to reach: those published to, and those replicated to."""

from __future__ import annotations

from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload
from brokerproof.run.records import ReplicationDrain
from brokerproof.systems.abilities import ObservesReplication, ReplicatesClusters, require
from brokerproof.systems.protocols import Observation, System
from brokerproof.systems.registry import find_system


def list_reached(system: System, topology: Topology, home: str, topic: str) -> list[str]:
    """Return the clusters whose logs must hold the messages published to a topic in `home`, `home` first."""
    return system.list_reached(topology, home, topic) if isinstance(system, ReplicatesClusters) else [home]


def list_clusters_reached(topology: Topology, workload: Workload) -> list[str]:
    """Return the clusters whose logs must hold messages of the workload."""
    system = find_system(topology)
    topic = system.topic(workload)
    homes = workload.list_homes(topology)
    return list(dict.fromkeys(name for home in homes for name in list_reached(system, topology, home, topic)))


def list_replication_ways(topology: Topology, workload: Workload) -> list[tuple[str, str]]:
    """Return (home, other) for each cluster that is published to and each other one that must get its messages."""
    system = find_system(topology)
    topic = system.topic(workload)
    return [
        (home, other)
        for home in workload.list_homes(topology)
        for other in list_reached(system, topology, home, topic)
        if other != home
    ]


def find_replication_drains(topology: Topology, observation: Observation) -> list[ReplicationDrain]:
    """Return whether replication has drained, for each (sender, receiver). Empty if the system replicates nothing.

    Raises RunError if the system replicates but cannot be asked for it, because an empty list would prove a drain.
    """
    if not isinstance(find_system(topology), ReplicatesClusters):
        return []
    return require(observation, ObservesReplication).find_replication_drains()
