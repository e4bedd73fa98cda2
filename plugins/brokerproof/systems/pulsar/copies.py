"""Where BookKeeper has the copies of a topic's entries, and how many ledgers lack one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokerproof.systems.protocols import SegmentCopies
from brokerproof.systems.pulsar.cluster import PulsarCluster
from brokerproof.systems.pulsar.policies import list_storing_regions
from brokerproof.systems.pulsar.roles import Role


def find_holders(cluster: PulsarCluster) -> list[str]:
    """The last segment's ensemble of the topic's open ledger."""
    ledgers = cluster.brokers.get(cluster.partitions[0][1] + "/internalStats")["ledgers"]
    segments = _ensembles(_ledger_metadata(cluster, int(ledgers[-1]["ledgerId"])))
    return cluster.node_names(segments[-1][1])


def find_copies(cluster: PulsarCluster) -> list[SegmentCopies]:
    """One for each ensemble segment, from BookKeeper's metadata."""
    writable = set(cluster.list_alive_bookies())
    required = [
        region
        for region in list_storing_regions(cluster.topology.clusters[cluster.name])
        if writable.intersection(cluster.names(Role.BOOKIE, region))
    ]
    found: list[SegmentCopies] = []
    for number, path in cluster.partitions:
        for ledger in cluster.brokers.get(path + "/internalStats")["ledgers"]:
            known = _ledger_metadata(cluster, int(ledger["ledgerId"]))
            for first_entry, addresses in _ensembles(known):
                bookies = cluster.node_names(addresses)
                found.append(
                    SegmentCopies(
                        cluster=cluster.name,
                        partition=number,
                        segment=int(ledger["ledgerId"]),
                        first_offset=first_entry,
                        state=str(known.get("state")),
                        holders=bookies,
                        in_sync=bookies,
                        regions_required=required,
                    )
                )
    return found


def count_under_replicated(cluster: PulsarCluster) -> int:
    """Count of the ledgers that auto-recovery's metadata lists."""
    listed = cluster.bookies.find("/api/v1/autorecovery/list_under_replicated_ledger")
    return 0 if listed is None else len(listed)


def _ledger_metadata(cluster: PulsarCluster, ledger: int) -> dict[str, Any]:
    found = cluster.bookies.get("/api/v1/ledger/metadata/", ledger_id=ledger)
    return found[str(ledger)]


def _ensembles(metadata: Mapping[str, Any]) -> list[tuple[int, list[str]]]:
    """(first entry, bookies' addresses) of each segment, in order."""
    segments = metadata.get("allEnsembles") or metadata["ensembles"]
    return sorted((int(first), [_host(bookie) for bookie in bookies]) for first, bookies in segments.items())


def _host(bookie: Any) -> str:
    """The address of `ADDRESS:PORT`, which is an object with an `id` in some versions of the API."""
    return str(bookie["id"] if isinstance(bookie, dict) else bookie).rsplit(":", 1)[0]
