"""What Brokerproof itself writes into a cluster's metadata store, before the cluster's bookies start."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError

from brokerproof.errors import NodeError

UNDER_REPLICATION = "/ledgers/underreplication/LAYOUT"
# As a bookie writes it: `LedgerRereplicationLayoutFormat` in protobuf's text format.
_LAYOUT = b'type: "BASIC"\nversion: 1\n'
_TIMEOUT_S = 20.0


def lay_out(url: str) -> None:
    """Write where BookKeeper keeps its list of under-replicated ledgers.

    Every bookie writes it where it is missing, and of bookies that start at the same time all but the first die of
    it: https://github.com/apache/pulsar/pull/26248, put right from Pulsar 4.2 and in later releases of 4.0.

    Parameters
    ----------
    url
        `HOST:PORT,…` of the metadata store, with the cluster's chroot if it has one.

    Raises
    ------
    NodeError
        The store does not answer, or refuses.
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
