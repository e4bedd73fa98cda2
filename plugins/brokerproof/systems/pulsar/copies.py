"""The bookies that hold the copies of a topic's entries, and the number of ledgers that lack a copy.

An ensemble segment is a range of a ledger's entries that were written to the same bookies.
"""

from __future__ import annotations

from itertools import pairwise

from brokerproof.errors import AdminError
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import SegmentCopies
from brokerproof.systems.pulsar import answers
from brokerproof.systems.pulsar.cluster import PulsarCluster
from brokerproof.systems.pulsar.policies import list_regions_with
from brokerproof.systems.pulsar.roles import Role


def find_holders(cluster: PulsarCluster) -> list[str]:
    """Return the bookies of the newest entries, from the last ensemble segment of the first partition's last ledger."""
    path = cluster.partitions[0][1]
    ledgers = cluster.brokers.get(path + "/internalStats", answers.TOPIC_INTERNALS).ledgers
    if not ledgers:
        raise AdminError(f"the log of {path} has no ledger")
    _, hosts = _list_segments(_get_metadata(cluster, ledgers[-1].ledger_id))[-1]
    return cluster.node_names(hosts)


def find_copies(cluster: PulsarCluster) -> list[SegmentCopies]:
    """Return the bookies of each ensemble segment of the topic's ledgers, from BookKeeper's metadata."""
    writable = set(cluster.list_alive_bookies())
    required = [
        region
        for region in list_regions_with(Role.BOOKIE, cluster.topology.clusters[cluster.name])
        if writable.intersection(cluster.names(Role.BOOKIE, region))
    ]
    found: list[SegmentCopies] = []
    for number, path in cluster.partitions:
        for ledger in cluster.brokers.get(path + "/internalStats", answers.TOPIC_INTERNALS).ledgers:
            metadata = _get_metadata(cluster, ledger.ledger_id)
            for first_entry, hosts in _list_segments(metadata):
                bookies = cluster.node_names(hosts)
                found.append(
                    SegmentCopies(
                        cluster=cluster.name,
                        partition=number,
                        segment=ledger.ledger_id,
                        first_offset=first_entry,
                        state=metadata.state,
                        holders=bookies,
                        in_sync=bookies,
                        regions_required=required,
                    )
                )
    return found


def find_parts(cluster: PulsarCluster, partition: int) -> list[tuple[Position, Position]]:
    """Return the ensemble segments of a partition's ledgers, as (first position, position after the last entry).

    Such a segment is a range of a ledger's entries that were written to the same bookies. Segments without an entry are
    left out. A ledger whose metadata cannot be read is one segment. Raises AdminError if no broker lists the ledgers.
    """
    inside = cluster.brokers.get(dict(cluster.partitions)[partition] + "/internalStats", answers.TOPIC_INTERNALS)
    last, parts = inside.last_confirmed_entry, list[tuple[Position, Position]]()
    for ledger in inside.ledgers:
        # Pulsar gives 0 entries for the open ledger.
        entries = last.entry + 1 if ledger.ledger_id == last.ledger else ledger.entries
        try:
            firsts = [first for first, _ in _list_segments(_get_metadata(cluster, ledger.ledger_id))]
        except AdminError:
            # BookKeeper answers 500 if the metadata is gone. No broker can open the ledger then, so it is one part.
            firsts = [0]
        for first, end in pairwise([*(first for first in firsts if first < entries), entries]):
            parts.append((Position(ledger.ledger_id, first), Position(ledger.ledger_id, end)))
    return parts


def count_under_replicated(cluster: PulsarCluster) -> int:
    """Return the number of under-replicated ledgers in auto-recovery's metadata."""
    listed = cluster.bookies.find(
        "/api/v1/autorecovery/list_under_replicated_ledger",
        answers.UNDER_REPLICATED,
        absent=answers.NO_UNDER_REPLICATED_LEDGERS,
    )
    return 0 if listed is None else len(listed)


def _get_metadata(cluster: PulsarCluster, ledger: int) -> answers.LedgerMetadata:
    found = cluster.bookies.get("/api/v1/ledger/metadata/", answers.LEDGER_METADATA, ledger_id=ledger)
    if ledger not in found:
        raise AdminError(f"the metadata of ledger {ledger} was asked for, and that of {sorted(found)} came")
    return found[ledger]


def _list_segments(metadata: answers.LedgerMetadata) -> list[tuple[int, list[str]]]:
    """Return (first entry, hosts of the bookies) of each ensemble segment, in order."""
    return sorted(metadata.all_ensembles.items())
