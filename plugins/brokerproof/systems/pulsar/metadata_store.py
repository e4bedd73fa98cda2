"""Where things are in a cluster's metadata store, and what Brokerproof writes there before the bookies start."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError

from brokerproof.errors import NodeError
from brokerproof.experiment.topology import Topology
from brokerproof.systems.pulsar.roles import Role

# Where nodes register themselves, by `ADDRESS:PORT`, for as long as their sessions last (`LOADBALANCE_BROKERS_ROOT` of
# Pulsar, `AVAILABLE_NODE` of BookKeeper).
BROKERS = "/loadbalance/brokers"
BOOKIES = "/ledgers/available"
UNDER_REPLICATION = "/ledgers/underreplication/LAYOUT"
# The text that a bookie writes: `LedgerRereplicationLayoutFormat` in protobuf's text format.
_LAYOUT = b'type: "BASIC"\nversion: 1\n'
_TIMEOUT_S = 20.0


def nodes(topology: Topology, cluster: str) -> list[str]:
    """The nodes of a cluster's metadata store: the shared one, or its own."""
    return list(topology.shared_metadata) or topology.clusters[cluster].names(role=Role.METADATA)


def chroot(topology: Topology, cluster: str) -> str:
    """The prefix of a cluster's paths: empty, unless the cluster shares the store with others."""
    return f"/{cluster}" if topology.shared_metadata else ""


def lay_out(url: str) -> None:
    """Write where BookKeeper keeps its list of under-replicated ledgers.

    Every bookie writes this entry where it is missing. Of bookies that start at the same time, only the first one
    survives that: https://github.com/apache/pulsar/pull/26248, repaired in Pulsar 4.2 and in later releases of 4.0.

    `url` is `HOST:PORT,…` of the metadata store, with the cluster's chroot if it has one. Raises NodeError where the
    store does not answer or refuses.
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
