"""The nodes, paths and settings of a cluster's metadata store, which is ZooKeeper.

If a metadata store has several nodes, these are its ensemble and elect a leader.
"""

from __future__ import annotations

from collections.abc import Mapping

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from brokerproof.errors import NodeError
from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.roles import Role

# The folders in which nodes register themselves, by `ADDRESS:PORT`, until their sessions end
# (`LOADBALANCE_BROKERS_ROOT` of Pulsar, `AVAILABLE_NODE` of BookKeeper).
BROKERS = "/loadbalance/brokers"
BOOKIES = "/ledgers/available"
# The format of BookKeeper's list of under-replicated ledgers, and the text that a bookie writes there:
# `LedgerRereplicationLayoutFormat` in protobuf's text format.
UNDER_REPLICATION = "/ledgers/underreplication/LAYOUT"
LAYOUT = b'type: "BASIC"\nversion: 1\n'
# The racks of bookies and brokers, in JSON (`BookieRackAffinityMapping.BOOKIE_INFO_ROOT_PATH` of Pulsar).
RACKS = "/bookies"
_TIMEOUT_S = 20.0

# Every node listens at the election port. Only the leader listens at the peer port, to which its followers connect.
ELECTION_PORT, PEER_PORT = 3888, 2888
# Seconds during which a link retries to connect to a leader that does not listen yet. Without a link, the follower is
# refused and tries again, five times in all, 100 ms apart (`Learner.connectToLeader`). A link accepts the follower
# before the leader refuses. If the follower is then reset, it starts another election, while the leader waits
# `initLimit` ticks for it. Measured: an election of 20 s instead of 0.2 s.
REDIAL_S = 0.5


def nodes(topology: Topology, cluster: str) -> list[str]:
    """Return the nodes of the metadata store that a cluster uses: the one that all clusters share, or its own."""
    return list(topology.shared_metadata) or topology.clusters[cluster].names(role=Role.METADATA)


def chroot(topology: Topology, cluster: str) -> str:
    """Return the prefix of a cluster's paths, `/CLUSTER`. Empty unless the clusters share a metadata store."""
    return f"/{cluster}" if topology.shared_metadata else ""


def write(url: str, entries: Mapping[str, bytes]) -> None:
    """Write `entries`, {path: value}, and replace what is there.

    `url` is `HOST:PORT,…` of the metadata store, with the cluster's chroot if it has one. Raises NodeError if the store
    does not answer or refuses.
    """
    client = KazooClient(hosts=url, timeout=_TIMEOUT_S)
    try:
        client.start(timeout=_TIMEOUT_S)
        for path, value in entries.items():
            client.ensure_path(path)
            client.set(path, value)
    except (KazooException, KazooTimeoutError) as error:
        raise NodeError(f"the metadata store {url} did not take {', '.join(entries)}: {error!r}") from None
    finally:
        client.stop()
        client.close()


def list_stores(topology: Topology) -> dict[str, list[str]]:
    """Return the nodes of every metadata store, by the field of the topology's file in which they stand."""
    if topology.shared_metadata:
        return {"shared_metadata": list(topology.shared_metadata)}
    return {f"clusters.{name}.nodes": cluster.names(role=Role.METADATA) for name, cluster in topology.clusters.items()}


def list_members(topology: Topology, node: str) -> list[str]:
    """Return all nodes of a node's ensemble. Empty if the node is the only one of its metadata store."""
    return next((names for names in list_stores(topology).values() if node in names and len(names) > 1), [])


def number_member(members: list[str], node: str) -> int:
    """Return a member's number, from 1 in the order of the topology's file. ZooKeeper calls it `myid`."""
    return members.index(node) + 1


def make_settings(members: list[str], hosts: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that name all `members` of an ensemble to one member. `hosts` is {member: name or address}.

    A member sends its own host to the other members, which then connect to it (`QuorumCnxManager.InitialMessage`).
    Across emulated links, this host must be a name, because each member reaches it at a different address.
    """
    return {
        "standaloneEnabled": "false",
        # Each member listens on its own address only.
        "quorumListenOnAllIPs": "false",
        **{f"server.{number_member(members, name)}": f"{hosts[name]}:{PEER_PORT}:{ELECTION_PORT}" for name in members},
    }
