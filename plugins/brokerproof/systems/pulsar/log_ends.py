"""Where the logs of a topic end in a Pulsar cluster, for readers that have to reach it."""

from __future__ import annotations

from brokerproof.errors import AdminError
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import TopicLog
from brokerproof.systems.pulsar.cluster import PulsarCluster

# Pulsar writes one round of them a second, and none while nothing is published.
_MOST_MARKERS = 1000


def find_logs(cluster: PulsarCluster) -> list[TopicLog]:
    """The partitions with the position behind the last confirmed entry that readers get."""
    found: list[TopicLog] = []
    for number, path in cluster.partitions:
        try:
            last = _last_message(cluster, path)
        except AdminError as error:
            found.append(TopicLog(cluster=cluster.name, partition=number, why=str(error)))
        else:
            end = None if last is None else Position(last[0], last[1] + 1)
            found.append(TopicLog(cluster=cluster.name, partition=number, end=end))
    return found


def _last_message(cluster: PulsarCluster, path: str) -> tuple[int, int] | None:
    """(ledger, entry) of the last confirmed entry that is no marker.

    The state of replicated subscriptions is kept in the topic's log, as entries that no reader gets
    (`AbstractBaseDispatcher.filterEntriesForConsumer`).
    """
    inside = cluster.brokers.get(path + "/internalStats")
    ledger, entry = parse_position(inside["lastConfirmedEntry"])
    if not any(one.replicated for one in cluster.run.scenario.workload.subscriptions):
        return None if entry < 0 else (ledger, entry)
    entries = {int(each["ledgerId"]): int(each["entries"]) for each in inside["ledgers"]}
    for _ in range(_MOST_MARKERS):
        while entry < 0:
            earlier = [each for each in entries if each < ledger]
            if not earlier:
                return None
            ledger = max(earlier)
            entry = entries[ledger] - 1
        if cluster.brokers.header(f"{path}/ledger/{ledger}/entry/{entry}", "X-Pulsar-marker-type") is None:
            return ledger, entry
        entry -= 1
    raise AdminError(f"the log of {path} ends with more than {_MOST_MARKERS} markers and no message")


def parse_position(text: str) -> tuple[int, int]:
    """(ledger, entry) of `LEDGER:ENTRY`."""
    ledger, entry = text.split(":")
    return int(ledger), int(entry)
