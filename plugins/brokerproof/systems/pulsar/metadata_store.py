"""Paths in a cluster's metadata store, and the entry that Brokerproof writes there before the bookies start."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError

from brokerproof.errors import NodeError
from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.roles import Role

# The folders in which nodes register themselves, by `ADDRESS:PORT`, until their sessions end
# (`LOADBALANCE_BROKERS_ROOT` of Pulsar, `AVAILABLE_NODE` of BookKeeper).
BROKERS = "/loadbalance/brokers"
BOOKIES = "/ledgers/available"
UNDER_REPLICATION = "/ledgers/underreplication/LAYOUT"
# The text that a bookie writes: `LedgerRereplicationLayoutFormat` in protobuf's text format.
_LAYOUT = b'type: "BASIC"\nversion: 1\n'
_TIMEOUT_S = 20.0


def nodes(topology: Topology, cluster: str) -> list[str]:
    """Return the nodes of a cluster's metadata store: the shared one, or its own."""
    return list(topology.shared_metadata) or topology.clusters[cluster].names(role=Role.METADATA)


def chroot(topology: Topology, cluster: str) -> str:
    """Return the prefix of a cluster's paths, `/CLUSTER`. Empty unless the clusters share a metadata store."""
    return f"/{cluster}" if topology.shared_metadata else ""


def lay_out(url: str) -> None:
    """Write the entry that describes BookKeeper's list of under-replicated ledgers, unless it exists.

    If the entry is missing, each bookie writes it at its start. If several bookies do so at the same time, all but the
    first exit: https://github.com/apache/pulsar/pull/26248, repaired in Pulsar 4.2 and in later releases of 4.0.

    `url` is `HOST:PORT,…` of the metadata store, with the cluster's chroot if it has one. Raises NodeError if the store
    does not answer or refuses.
    """
    client = KazooClient(hosts=url, timeout=_TIMEOUT_S)
    try:
        client.start(timeout=_TIMEOUT_S)
        client.create(UNDER_REPLICATION, _LAYOUT, makepath=True)
    except NodeExistsError:
        pass
    except (KazooException, KazooTimeoutError) as error:
        raise NodeError(f"the metadata store {url} did not take {UNDER_REPLICATION}: {error!r}") from None
    finally:
        client.stop()
        client.close()
