"""How far a topic's subscriptions and replicators have come in a Pulsar cluster, and whether they have drained."""

from __future__ import annotations

from brokerproof.errors import AdminError
from brokerproof.run.records import Behind, ReplicationDrain, SubscriptionDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.pulsar.answers import TOPIC_INTERNALS, TOPIC_STATS, SubscriptionStats
from brokerproof.systems.pulsar.cluster import PulsarCluster

# The prefix of a replicator's cursor, before the other cluster's name (`replicatorPrefix` in broker.conf).
_REPLICATOR = "pulsar.repl."


def find_subscription_drains(cluster: PulsarCluster) -> list[SubscriptionDrain]:
    """Return, for each partition and subscription, whether the subscription has drained: its precise backlog is 0.

    If a subscription moves between clusters, only its last cluster gives results. If the cluster does not answer, the
    subscription counts as not drained, and `why` has the reason.
    """
    drains: list[SubscriptionDrain] = []
    subscriptions = [
        one.name for one in cluster.subscriptions if one.list_clusters(cluster.topology)[-1] == cluster.name
    ]
    for number, path in cluster.partitions if subscriptions else []:
        found: dict[str, SubscriptionStats] = {}
        end: Behind | None = None
        try:
            # The end is read before the backlog. Otherwise it could include messages that the backlog does not count.
            ledger, entry = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS).last_confirmed_entry
            end = ledger, entry + 1
            found = cluster.brokers.get(path + "/stats", TOPIC_STATS, getPreciseBacklog="true").subscriptions
            why = "the subscription is not there"
        except AdminError as error:
            why = str(error)
        for name in subscriptions:
            backlog = found[name].msg_backlog if name in found else None
            drains.append(
                SubscriptionDrain(
                    cluster=cluster.name,
                    topic=cluster.topic,
                    partition=number,
                    subscription=name,
                    drained=backlog == 0,
                    backlog=backlog,
                    end=end,
                    why=why if backlog is None else f"precise backlog {backlog}",
                )
            )
    return drains


def find_replication_drains(cluster: PulsarCluster) -> list[ReplicationDrain]:
    """Return, for each other cluster, whether replication to it has drained.

    Replication has drained if in every partition the replicator's cursor is at the last confirmed entry and the backlog
    is 0. A cursor passes an entry once the other cluster has acknowledged it. The backlog alone is not enough: it is an
    estimate (`getNumberOfEntriesInBacklog(false)`), even with `getPreciseBacklog`.
    """
    drains = []
    for other in cluster.others:
        backlog: int | None = None
        ends: dict[int, Behind] = {}
        behind: list[str] = []
        try:
            replicators: list[int] = []
            for number, path in cluster.partitions:
                where = f"partition {number}" if number >= 0 else "the topic"
                inside = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS)
                ends[number] = inside.last_confirmed_entry.ledger, inside.last_confirmed_entry.entry + 1
                cursor = inside.cursors.get(_REPLICATOR + other)
                if cursor is None:
                    behind.append(f"{where} has no replicator")
                elif cursor.mark_delete_position < inside.last_confirmed_entry:
                    at, end = cursor.mark_delete_position, inside.last_confirmed_entry
                    behind.append(f"the replicator of {where} is at {at} of {end}")
                stats = cluster.brokers.get(path + "/stats", TOPIC_STATS).replication.get(other)
                replicators.append(stats.replication_backlog if stats else 0)
            backlog = sum(replicators)
        except AdminError as error:
            behind.append(str(error))
        drains.append(
            ReplicationDrain(
                topic=cluster.topic,
                sender=cluster.name,
                receiver=other,
                drained=not behind and backlog == 0,
                backlog=backlog,
                ends=ends,
                why="; ".join(behind) or f"every replicator at the end of its log, backlog {backlog}",
            )
        )
    return drains


def find_acknowledged(cluster: PulsarCluster, subscription: str) -> dict[int, Position]:
    """Return {partition: position}, read from the subscription's cursor in each partition.

    Every entry before the position is acknowledged. Partitions without the cursor are left out.
    """
    found: dict[int, Position] = {}
    for number, path in cluster.partitions:
        cursor = cluster.brokers.get(path + "/internalStats", TOPIC_INTERNALS).cursors.get(subscription)
        if cursor is not None:
            ledger, entry = cursor.mark_delete_position
            found[number] = Position(ledger, entry + 1)
    return found
