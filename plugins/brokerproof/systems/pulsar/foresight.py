"""Predictions about a scenario before its run, from Pulsar's own rules: warnings, and the time of a failover."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from brokerproof.experiment.guarantees import Anomaly, SubscriptionType
from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Client
from brokerproof.systems.protocols import Failover
from brokerproof.systems.pulsar.roles import Role

# {role: settings of the session time-out with the metadata store, in milliseconds}. The first one above 0 counts, as in
# `ServiceConfiguration.getMetadataStoreSessionTimeoutMillis`. In conf/ of Pulsar 4.0 both roles have 30 s.
_SESSION_KEYS = {
    Role.BROKER: ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis"),
    Role.BOOKIE: ("zkTimeout",),
}
_SESSION_S = 30.0
# A client of ZooKeeper pings after a third of its session time-out, so at least this share of it is left at any moment.
_LEAST_SHARE_LEFT = 2 / 3
# The back-off of Pulsar's Python client (`initialBackoffIntervalMs` and `maxBackoffIntervalMs` of its
# ClientConfiguration, `Backoff::next`); a send time-out brings one attempt forward.
_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 0.1, 60.0


def list_warnings(scenario: Scenario) -> list[RunWarning]:
    """Return a warning for each key-shared subscription with several consumers if batches mix keys."""
    workload, client = scenario.workload, scenario.workload.client
    producers = workload.producers * max(1, len(workload.produce_on))
    if not client.batches or client.batch_by_key or workload.keys <= producers:
        return []
    if Anomaly.DELIVERED_OUT_OF_ORDER in scenario.loosen:
        return []
    return [
        RunWarning(
            field=f"workload.subscriptions.{index}.type",
            what=f"a batch mixes keys and goes whole to one of the {subscription.consumers} consumers that share "
            f"`{subscription.name}` by key, so that messages of a key arrive out of order",
            remedy="set workload.client.batch_by_key to true, or workload.client.batching_delay_ms to 0",
        )
        for index, subscription in enumerate(workload.subscriptions)
        if subscription.type is SubscriptionType.KEY_SHARED and subscription.consumers > 1
    ]


def estimate_failover(
    scenario: Scenario, topology: Topology, nodes: Collection[str], *, not_before_s: float
) -> Failover | None:
    """Return how long acks can be missing: until the silent brokers' sessions have ended and clients have tried again.

    Returns None if no broker is silent, because the topic's owner then replaces a silent bookie by itself.
    """
    roles = {topology.nodes[name].role for name in nodes}
    if Role.BROKER not in roles:
        return None
    session_s = _find_session_s(topology, Role.BROKER)
    # The new owner writes to dead bookies until their sessions have ended too.
    bookies_s = _find_session_s(topology, Role.BOOKIE) if Role.BOOKIE in roles else 0.0
    opens_s = max(session_s, not_before_s)
    retry_s = next(at for at in _list_attempts(scenario.workload.client) if at >= opens_s)
    return Failover(
        soonest_s=_LEAST_SHARE_LEFT * session_s,
        latest_s=max(retry_s, bookies_s),
        why=f"a broker's session lasts {session_s:g} s, and clients try again at growing intervals",
    )


def _find_session_s(topology: Topology, role: Role) -> float:
    settings = topology.settings.get(role, {})
    for key in _SESSION_KEYS[role]:
        try:
            session_ms = float(settings.get(key, 0))
        except ValueError:
            # The node itself refuses such a value.
            continue
        if session_ms > 0:
            return session_ms / 1000
    return _SESSION_S


def _list_attempts(client: Client) -> Iterator[float]:
    """Yield the latest times at which a producer tries again, in seconds from the loss of its connection.

    The client shortens each wait by a random part.
    """
    stop_s: float | None = max(_FIRST_BACK_OFF_S, client.send_timeout_s - 0.1)
    at, wait = 0.0, _FIRST_BACK_OFF_S
    while True:
        current = wait
        if stop_s is not None and at + current > stop_s:
            current, stop_s = max(_FIRST_BACK_OFF_S, stop_s - at), None
        at += current
        yield at
        wait = min(2 * wait, _LONGEST_BACK_OFF_S)
