"""A metadata store of several nodes, which elect a leader. ZooKeeper calls it an ensemble."""

from __future__ import annotations

from collections.abc import Mapping

from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.roles import Role

# Every node listens at the election port. Only the leader listens at the peer port, to which its followers connect.
ELECTION_PORT, PEER_PORT = 3888, 2888
# Seconds during which a link retries to connect to a leader that does not listen yet. Without a link, the follower is
# refused and tries again, five times in all, 100 ms apart (`Learner.connectToLeader`). A link accepts the follower
# before the leader refuses. If the follower is then reset, it starts another election, while the leader waits
# `initLimit` ticks for it. Measured: an election of 20 s instead of 0.2 s.
REDIAL_S = 0.5


def list_stores(topology: Topology) -> dict[str, list[str]]:
    """Return the nodes of every metadata store, by the field of the topology's file that holds them."""
    if topology.shared_metadata:
        return {"shared_metadata": list(topology.shared_metadata)}
    return {f"clusters.{name}.nodes": cluster.names(role=Role.METADATA) for name, cluster in topology.clusters.items()}


def list_members(topology: Topology, node: str) -> list[str]:
    """Return all nodes of a node's ensemble. Empty if the node is the only one of its metadata store."""
    return next((names for names in list_stores(topology).values() if node in names and len(names) > 1), [])


def number(members: list[str], node: str) -> int:
    """Return a member's number, from 1 in the order of the topology's file. ZooKeeper calls it `myid`."""
    return members.index(node) + 1


def make_settings(members: list[str], hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the ensemble's settings in a member's configuration. `hosts` is {node: name or address} for all members.

    A member sends its own entry to the others, and they connect to it (`QuorumCnxManager.InitialMessage`). So across
    links the entry has to be a name, which each member resolves to another address.
    """
    return {
        "standaloneEnabled": "false",
        # Each member listens on its own address only.
        "quorumListenOnAllIPs": "false",
        **{f"server.{number(members, name)}": f"{hosts[name]}:{PEER_PORT}:{ELECTION_PORT}" for name in members},
    }
