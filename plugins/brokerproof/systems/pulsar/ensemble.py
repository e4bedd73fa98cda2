"""A metadata store of several nodes, which elect the one that leads: ZooKeeper calls it an ensemble."""

from __future__ import annotations

from collections.abc import Mapping

from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.roles import Role

# The nodes of an ensemble elect their leader at the one port, always, and follow it at the other, where only the leader
# listens.
ELECTION_PORT, PEER_PORT = 3888, 2888
# A follower may come before its leader listens. Refused, it tries again after 100 ms, five times in all
# (`Learner.connectToLeader`); once it is connected, a reset sends it into another election, and the leader waits for it
# in vain until `initLimit` ticks are over. Seen across a link, which lets in what its target then refuses: an election
# took 20 s instead of 0.2.
REDIAL_S = 0.5


def list_stores(topology: Topology) -> dict[str, list[str]]:
    """The nodes of every metadata store, by the field of the topology's file that has them."""
    if topology.shared_metadata:
        return {"shared_metadata": list(topology.shared_metadata)}
    return {f"clusters.{name}.nodes": cluster.names(role=Role.METADATA) for name, cluster in topology.clusters.items()}


def list_members(topology: Topology, node: str) -> list[str]:
    """The nodes of the ensemble that a node belongs to, itself included; none where it is a metadata store alone."""
    return next((names for names in list_stores(topology).values() if node in names and len(names) > 1), [])


def number(members: list[str], node: str) -> int:
    """A member's number, which ZooKeeper calls `myid`: its place in the topology's file."""
    return members.index(node) + 1


def make_settings(members: list[str], hosts: Mapping[str, str]) -> dict[str, str]:
    """What a member's configuration says of the ensemble. `hosts` are the names or addresses that the members know.

    A member tells others the host that stands here for itself, and they connect to it. Across links it has to be a
    name, which each of them finds at an address of its own (`QuorumCnxManager.InitialMessage`).
    """
    return {
        "standaloneEnabled": "false",
        # Each member listens on its own address only.
        "quorumListenOnAllIPs": "false",
        **{f"server.{number(members, name)}": f"{hosts[name]}:{PEER_PORT}:{ELECTION_PORT}" for name in members},
    }
