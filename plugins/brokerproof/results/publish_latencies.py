"""The latency of publishes in each phase, and under each fault that slows the network down."""

from __future__ import annotations

from collections.abc import Iterable

from brokerproof.experiment.scenario import Phase, Scenario
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.measurement import Measurement
from brokerproof.run.outcome import LatenciesByTime

_PUBLISH_METRICS = {"publish_latency_p50_ms": "p50_ms", "publish_latency_p99_ms": "p99_ms"}
_LINK_METRICS = {"link_added_p50_ms": "p50_ms", "link_added_p99_ms": "p99_ms"}


def collect_publish_latencies(scenario: Scenario, measurements: Iterable[Measurement]) -> LatenciesByTime:
    """Return milliseconds by fault or phase, then by cluster (`all` for a single one), then by quantile.

    The faults are those that slow the network down, and the phases are `steady` and `recovery`. Without such a fault,
    the result is empty.
    """
    slowing = [fault.name for fault in scenario.faults if FAULT_KINDS[fault.kind].slows]
    if not slowing:
        return {}
    latencies: LatenciesByTime = {when: {} for when in (Phase.STEADY, *slowing, Phase.RECOVERY)}
    for each in measurements:
        when, _, cluster = each.subject.partition("/")
        if each.metric in _PUBLISH_METRICS and when in latencies:
            latencies[when].setdefault(cluster or "all", {})[_PUBLISH_METRICS[each.metric]] = each.value
    for by_cluster in latencies.values():
        if len(by_cluster) > 1:
            by_cluster.pop("all", None)
    return latencies


def collect_link_latencies(scenario: Scenario, measurements: Iterable[Measurement]) -> LatenciesByTime:
    """Return the milliseconds that emulated links added beyond their delay.

    They are by fault or phase, as in `collect_publish_latencies`, then by way (`REGION>OTHER`), then by quantile.
    """
    times = collect_publish_latencies(scenario, ())
    latencies: LatenciesByTime = {}
    for each in measurements:
        way, _, when = each.subject.partition("/")
        if each.metric in _LINK_METRICS and when in times:
            latencies.setdefault(when, {}).setdefault(way, {})[_LINK_METRICS[each.metric]] = each.value
    return {when: latencies[when] for when in times if when in latencies}
