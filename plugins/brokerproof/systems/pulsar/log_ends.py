"""The ends of a topic's logs in a Pulsar cluster, which readers have to reach."""

from __future__ import annotations

from brokerproof.errors import AdminError
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import TopicLog
from brokerproof.systems.pulsar.answers import TOPIC_INTERNALS, EntryPosition
from brokerproof.systems.pulsar.cluster import PulsarCluster

# The search for the last message gives up after this many markers. Pulsar writes one round of markers a second, and
# only while messages are published.
_MOST_MARKERS = 1000


def find_logs(cluster: PulsarCluster) -> list[TopicLog]:
    """Return the log of every partition. A log's end is the position after the last entry that readers get.

    An empty log has no end. If no broker answers as expected, `why` has the reason.
    """
    found: list[TopicLog] = []
    for number, path in cluster.partitions:
        try:
            last = _last_message(cluster, path)
        except AdminError as error:
            found.append(TopicLog(cluster=cluster.name, partition=number, why=str(error)))
        else:
            end = None if last is None else Position(last.ledger, last.entry + 1)
            found.append(TopicLog(cluster=cluster.name, partition=number, end=end))
    return found


def _last_message(cluster: PulsarCluster, path: str) -> EntryPosition | None:
    """Return the position of the last confirmed entry that is not a marker; None if there is no such entry.

    Markers are entries with the state of replicated subscriptions, which readers do not get
    (`AbstractBaseDispatcher.filterEntriesForConsumer`). Raises AdminError.
    """
    inside = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS)
    holds_markers = any(one.replicated for one in cluster.run.scenario.workload.subscriptions)
    entries = {each.ledger_id: each.entries for each in inside.ledgers}
    ledger, entry = inside.last_confirmed_entry
    for _ in range(_MOST_MARKERS):
        while entry < 0:
            earlier = [each for each in entries if each < ledger]
            if not earlier:
                return None
            ledger = max(earlier)
            entry = entries[ledger] - 1
        last = EntryPosition(ledger, entry)
        if not (holds_markers and _is_marker(cluster, path, last)):
            return last
        entry -= 1
    raise AdminError(f"the log of {path} ends with more than {_MOST_MARKERS} markers and no message")


def _is_marker(cluster: PulsarCluster, path: str, position: EntryPosition) -> bool:
    headers = cluster.brokers.get_headers(f"{path}/ledger/{position.ledger}/entry/{position.entry}")
    # A message has no marker's header, so an answer without the entry would look like a message
    # (`PersistentTopicsBase`).
    if headers.get("X-Pulsar-Message-ID") != str(position):
        raise AdminError(f"the broker was asked for entry {position} of {path} and answered with another one")
    return "X-Pulsar-marker-type" in headers
