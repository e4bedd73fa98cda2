"""What Pulsar's own rules make of a scenario, as far as it can be told before a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from brokerproof.experiment.guarantees import Anomaly, SubscriptionType
from brokerproof.experiment.run_warning import RunWarning
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import Client
from brokerproof.systems.protocols import Failover
from brokerproof.systems.pulsar.roles import Role

# The keys that set a session with the metadata store, in milliseconds. The first one above 0 wins, as in
# `ServiceConfiguration.getMetadataStoreSessionTimeoutMillis`; conf/ of Pulsar 4.0 has 30 s for both roles.
_SESSION_KEYS = {
    Role.BROKER: ("zooKeeperSessionTimeoutMillis", "metadataStoreSessionTimeoutMillis"),
    Role.BOOKIE: ("zkTimeout",),
}
_SESSION_S = 30.0
# A client of ZooKeeper pings after a third of its session, so that so much of it is left at any moment.
_LEAST_SHARE_LEFT = 2 / 3
# The back-off of Pulsar's Python client (`initialBackoffIntervalMs` and `maxBackoffIntervalMs` of its
# ClientConfiguration, `Backoff::next`); a send time-out brings one attempt forward.
_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 0.1, 60.0


def list_warnings(scenario: Scenario) -> list[RunWarning]:
    """Batches that mix keys, where consumers share a subscription by key."""
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
    """The sessions of the silent nodes have to end, then the clients' back-off.

    Without a silent broker nothing of it is waited for: the topic's owner finds another bookie by itself.
    """
    roles = {topology.nodes[name].role for name in nodes}
    if Role.BROKER not in roles:
        return None
    session_s = _find_session_s(topology, Role.BROKER)
    # The new owner writes to dead bookies until their sessions end too.
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
            # The node itself will refuse it.
            continue
        if session_ms > 0:
            return session_ms / 1000
    return _SESSION_S


def _list_attempts(client: Client) -> Iterator[float]:
    """The seconds after which a producer that lost its connection tries again, at the latest; chance shortens them."""
    stop_s: float | None = max(_FIRST_BACK_OFF_S, client.send_timeout_s - 0.1)
    at, wait = 0.0, _FIRST_BACK_OFF_S
    while True:
        current = wait
        if stop_s is not None and at + current > stop_s:
            current, stop_s = max(_FIRST_BACK_OFF_S, stop_s - at), None
        at += current
        yield at
        wait = min(2 * wait, _LONGEST_BACK_OFF_S)
