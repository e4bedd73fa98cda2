"""What placement and recovery are measured in: one table of metrics, with the suite and the unit of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Suite


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One kind of measurement; `subject` says what there is one of per run.

    `needs` is what a messaging system must be able to do: without it the metric is not applicable.
    """

    suite: Suite
    unit: str
    subject: str
    meaning: str
    needs: Ability | None = None


def _placement(unit: str, subject: str, meaning: str, *, needs: Ability | None = None) -> Metric:
    return Metric(suite=Suite.PLACEMENT, unit=unit, subject=subject, meaning=meaning, needs=needs)


def _recovery(unit: str, subject: str, meaning: str, *, needs: Ability | None = None) -> Metric:
    return Metric(suite=Suite.RECOVERY, unit=unit, subject=subject, meaning=meaning, needs=needs)


METRICS: Mapping[str, Metric] = {
    "ledgers_not_spanning": _placement(
        "ledgers",
        "moment",
        "segments of a log without a copy in a region that had a node which could take one",
        needs=Ability.COPIES,
    ),
    "under_replicated_ledgers": _placement(
        "ledgers", "end of run", "under-replicated segments of logs at the last sample", needs=Ability.UNDER_REPLICATION
    ),
    "local_read_share": _placement(
        "share",
        "moment",
        "part of the bytes read from disks that came from nodes in the region of the topic's owner",
        needs=Ability.READ_COUNTERS,
    ),
    "owner_in_region": _placement(
        "share", "region", "part of the samples in a phase in which the topic's owner was in the region expected"
    ),
    "detect_s": _recovery("s", "fault", "from the effect until the cluster no longer listed the failed nodes"),
    "reassign_s": _recovery("s", "fault", "from the effect until another broker owned the topic"),
    "first_ack_s": _recovery("s", "fault", "from the effect to the first ack of a message sent after it"),
    "rto_s": _recovery("s", "fault", "from the effect until acks held the target rate again"),
    "longest_ack_gap_s": _recovery("s", "fault", "longest time without any ack from the effect on"),
    "longest_delivery_gap_s": _recovery("s", "fault", "longest time without any delivery from the effect on"),
    "rpo_messages": _recovery("messages", "fault", "messages acked before the effect that no cluster holds any more"),
    "rpo_s": _recovery("s", "fault", "age, at the effect, of the oldest message that `rpo_messages` counts"),
    "lost_later_messages": _recovery(
        "messages", "fault", "messages acked after the effect that no cluster holds any more"
    ),
    "rereplicate_s": _recovery(
        "s", "fault", "from the effect until no segment was under-replicated any more", needs=Ability.UNDER_REPLICATION
    ),
    "backlog_drain_s": _recovery("s", "fault", "from the effect until the subscriptions' backlog was drained"),
    "agree_s": _recovery(
        "s",
        "fault",
        "from the failed nodes' return until no cluster was further behind another than before the effect",
        needs=Ability.REPLICATION,
    ),
    "publish_latency_p50_ms": _recovery("ms", "phase or fault that slows", "median of the time from schedule to ack"),
    "publish_latency_p99_ms": _recovery(
        "ms", "phase or fault that slows", "99th percentile of the time from schedule to ack"
    ),
    "publish_latency_max_ms": _recovery("ms", "phase or fault that slows", "longest time from schedule to ack"),
    "link_added_p50_ms": _recovery(
        "ms", "way and phase or fault that slows", "median of what the emulated link added beyond its delay"
    ),
    "link_added_p99_ms": _recovery(
        "ms", "way and phase or fault that slows", "99th percentile of what the emulated link added beyond its delay"
    ),
    "replication_lag_p50_ms": _recovery(
        "ms", "way and phase", "median of the time from ack to delivery elsewhere", needs=Ability.REPLICATION
    ),
    "replication_lag_p99_ms": _recovery(
        "ms", "way and phase", "99th percentile of the time from ack to there", needs=Ability.REPLICATION
    ),
    "replication_lag_max_ms": _recovery(
        "ms", "way and phase", "longest time from ack to delivery elsewhere", needs=Ability.REPLICATION
    ),
    "repeated_by_move": _recovery(
        "messages",
        "subscription",
        "messages that a subscription got both before and after it moved to another cluster",
        needs=Ability.MOVING_SUBSCRIPTIONS,
    ),
    "missed_by_move": _recovery(
        "messages",
        "subscription",
        "acked messages that a subscription which moved got neither before nor after it",
        needs=Ability.MOVING_SUBSCRIPTIONS,
    ),
    "rate_held": _recovery("share", "phase", "acked messages of the phase's schedule, as a share of the schedule"),
    "sampling_gap_s": _recovery("s", "run", "longest time between two samples: the platform's own sampling error"),
}
