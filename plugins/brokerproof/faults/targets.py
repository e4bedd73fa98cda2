"""Which nodes a fault is done to."""

from __future__ import annotations

from brokerproof.errors import RunError
from brokerproof.experiment.fault import Targets
from brokerproof.experiment.topology import Topology
from brokerproof.systems.protocols import Observation


def resolve_targets(targets: Targets, topology: Topology, observation: Observation) -> list[str]:
    """The names of the nodes that a fault is done to, now. Raises RunError where there is none."""
    if targets.nodes:
        names = list(targets.nodes)
    elif targets.now == "topic_owner":
        owner = observation.find_owner(targets.cluster)
        names = [owner] if owner else []
    elif targets.now is not None:
        names = observation.find_holders(targets.cluster)
    else:
        names = list(topology.nodes)
    names = [
        name
        for name in names
        if (targets.region is None or topology.nodes[name].region == targets.region)
        and (targets.role is None or topology.nodes[name].role == targets.role)
        and (targets.cluster is None or name in topology.clusters[targets.cluster].nodes)
    ][: targets.count]
    if not names:
        raise RunError(f"no node is {targets.model_dump(exclude_defaults=True)} now; the fault has no target")
    return names
