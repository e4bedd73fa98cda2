"""Where a workload's messages go: clusters, by publishing or by replication, and the partitions of the topic."""

from __future__ import annotations

from brokerproof.experiment.fault import GROW
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Workload
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultEffective, ReplicationDrain, read_record
from brokerproof.systems.abilities import ObservesReplication, ReplicatesClusters, require
from brokerproof.systems.protocols import Observation, System
from brokerproof.systems.registry import find_system


def list_reached(system: System, topology: Topology, home: str, topic: str) -> list[str]:
    """Return the clusters that must store every message published to `topic` in cluster `home`; `home` is first."""
    return system.list_reached(topology, home, topic) if isinstance(system, ReplicatesClusters) else [home]


def list_clusters_reached(topology: Topology, workload: Workload) -> list[str]:
    """Return the clusters whose logs must hold messages of the workload."""
    system = find_system(topology)
    topic = system.topic(workload)
    homes = workload.list_homes(topology)
    return list(dict.fromkeys(name for home in homes for name in list_reached(system, topology, home, topic)))


def list_present_partitions(run: Run) -> list[int]:
    """Return the numbers of the partitions that the topic has now. Those that a fault adds exist from its effect on."""
    workload, faults = run.scenario.workload, run.scenario.faults
    if workload.grows_to is None:
        return workload.list_partitions()
    has_grown = any(fault.kind == GROW and read_record(run, FaultEffective, fault.name) for fault in faults)
    return workload.list_partitions() if has_grown else workload.list_first_partitions()


def list_replication_ways(topology: Topology, workload: Workload) -> list[tuple[str, str]]:
    """Return (home, other) for each direction of replication.

    `home` is a cluster that is published to, `other` a cluster that must get the messages by replication.
    """
    system = find_system(topology)
    topic = system.topic(workload)
    return [
        (home, other)
        for home in workload.list_homes(topology)
        for other in list_reached(system, topology, home, topic)
        if other != home
    ]


def find_replication_drains(topology: Topology, observation: Observation) -> list[ReplicationDrain]:
    """Return, for each (sender, receiver), whether no message is left to send. Empty if the system cannot replicate.

    Raises RunError if the system cannot observe its replication, because an empty list would count as drained.
    """
    if not isinstance(find_system(topology), ReplicatesClusters):
        return []
    return require(observation, ObservesReplication).find_replication_drains()
