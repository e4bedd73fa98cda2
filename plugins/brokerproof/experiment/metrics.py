"""The metrics of placement and recovery, which are measured when a run is judged.

Suites, the scenarios' bounds, the comparison of runs and the docs take the facts about each metric from `METRICS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.guarantees import Suite

# By unit, the smallest change that counts when runs are compared. After runs with equal values, mere noise would
# otherwise mark a run as worse.
MINIMUM_CHANGE: Mapping[str, float] = {
    "s": 1.0,
    "ms": 5.0,
    "messages": 1.0,
    "segments": 1.0,
    "share": 0.05,
    "changes": 1.0,
    "keys": 1.0,
    "times": 1.0,
}

# A rate is held if at least this share of the steady phase's schedule was acked.
HELD_SHARE = 0.9


class Worse(StrEnum):
    """Whether a higher or a lower value of a metric is worse."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """All facts about one metric, except how it is measured."""

    suite: Suite = Suite.RECOVERY
    # One of `MINIMUM_CHANGE`.
    unit: str
    # What each value is about: `fault` for one value per fault, `run` for one value per run, …
    subject: str = "fault"
    meaning: str
    # A sentence that is true of a run within its bounds. It is the description of the suite's expectation.
    demand: str
    worse: Worse = Worse.HIGHER
    # Whether a change of it can mark a run as worse than earlier runs.
    compared: bool = True
    # The bounds that are in force if the scenario sets none.
    minimum: float | None = None
    maximum: float | None = None
    # Whether it has to be measured even if it has no bound.
    required: bool = False
    # The metric is not applicable to a messaging system without this ability.
    needs: Ability | None = None
    # Whether it is a time after a fault that can be measured only while the load lasts.
    ends_with_load: bool = False
    # Whether a bound's minimum states what the run has to show. With a lower value the run showed too little, so the
    # bound is undecided and not broken.
    minimum_is_to_show: bool = False
    # Whether every value is above 0: it is a time between two events, and the second is always later.
    above_zero: bool = False

    @property
    def is_per_fault(self) -> bool:
        """Whether the metric has one value for each fault, or for each of some faults."""
        return self.subject in ("fault", "destroying fault", "fault with a hot key")


METRICS: Mapping[str, Metric] = {
    "segments_not_spanning": Metric(
        suite=Suite.PLACEMENT,
        unit="segments",
        subject="moment",
        meaning=(
            "segments of a log without a copy in a region that had a node which could take one; "
            "at `end`, as asked for after the last fault was undone"
        ),
        demand="Every segment of a log spans the regions that it must, at every moment at which it was looked at.",
        maximum=0,
        required=True,
        needs=Ability.COPIES,
    ),
    "under_replicated_segments": Metric(
        suite=Suite.PLACEMENT,
        unit="segments",
        subject="end of run",
        meaning="under-replicated segments of logs at the last sample, if it is after the last fault was undone",
        demand="No segment of a log is under-replicated at the end of the run.",
        maximum=0,
        required=True,
        needs=Ability.UNDER_REPLICATION,
    ),
    "local_read_share": Metric(
        suite=Suite.PLACEMENT,
        unit="share",
        subject="moment",
        meaning="part of the bytes read from disks that came from nodes in the region of the topic's owner",
        demand="Reads come from the local region as far as the scenario demands.",
        worse=Worse.LOWER,
        needs=Ability.READ_COUNTERS,
    ),
    "owner_in_region": Metric(
        suite=Suite.PLACEMENT,
        unit="share",
        subject="region",
        meaning=(
            "part of the samples that name a partition's owner in which it was in the region expected, in the last "
            "third of a phase and after the last fault that took effect or was undone in it"
        ),
        demand="The topic's owner is in the region that the scenario expects.",
        worse=Worse.LOWER,
    ),
    # How load is spread is a choice of the messaging system, so runs are not compared by the next three.
    "written_share": Metric(
        suite=Suite.PLACEMENT,
        unit="share",
        subject="storing node and phase or fault",
        meaning=(
            "part of the bytes that the storing nodes of a cluster wrote which this node wrote, in a phase, or from a "
            "fault's effect to the next fault's injection or the load's end; measured if a scenario bounds it"
        ),
        demand="Each storing node writes the part of all bytes that the scenario demands.",
        worse=Worse.LOWER,
        compared=False,
        needs=Ability.READ_COUNTERS,
    ),
    "owned_share": Metric(
        suite=Suite.PLACEMENT,
        unit="share",
        subject="serving node and phase or fault",
        meaning=(
            "part of the samples that name a partition's owner which name this node, in a phase, or from a fault's "
            "effect to the next fault's injection or the load's end; measured if a scenario bounds it"
        ),
        demand="Each serving node owns the part of the topic that the scenario demands.",
        worse=Worse.LOWER,
        compared=False,
    ),
    "owner_changes": Metric(
        suite=Suite.PLACEMENT,
        unit="changes",
        subject="phase or fault",
        meaning=(
            "how often two successive samples of a partition name different owners, in a phase, or from a fault's "
            "effect to the next fault's injection or the load's end; measured if a scenario bounds it. With a minimum, "
            "a run that shows fewer is undecided"
        ),
        demand="Owners of the topic change as often as the scenario demands.",
        compared=False,
        minimum_is_to_show=True,
    ),
    "detect_s": Metric(
        unit="s",
        meaning="from the effect until the cluster no longer listed the failed nodes",
        demand="Failed nodes are detected in the time that the scenario allows.",
        above_zero=True,
    ),
    "reassign_s": Metric(
        unit="s",
        meaning="from the effect until other nodes owned every partition of the topic that the failed nodes had",
        demand="Another node owns the topic in the time that the scenario allows.",
        above_zero=True,
    ),
    "node_recovery_s": Metric(
        unit="s",
        meaning="from the beginning of the healing until all targets of the fault passed their health checks; a client "
        "is healthy when it is connected",
        demand="Healed targets are healthy again in the time that the scenario allows.",
        above_zero=True,
    ),
    "first_ack_s": Metric(
        unit="s",
        meaning=(
            "from the injection until each producer had, in each partition, "
            "an ack of a message that it sent after the effect; a producer that could send none waits for it, too"
        ),
        demand="Acks come back in the time that the scenario allows.",
        ends_with_load=True,
        above_zero=True,
    ),
    "rto_s": Metric(
        unit="s",
        meaning="from the injection to the end of the last interruption that touches the fault's span, 0 without one",
        demand="Every interruption of clients ends after a fault in the time that the scenario allows (RTO).",
        required=True,
        ends_with_load=True,
    ),
    "unavailable_s": Metric(
        unit="s",
        meaning="time in which some producer was interrupted in some partition, in interruptions that touch the span",
        demand="Clients are interrupted by a fault for no longer than the scenario allows.",
    ),
    "longest_ack_gap_s": Metric(
        unit="s",
        meaning="longest time without an ack of a producer in a partition that touches the fault's span",
        demand="The longest time without an ack is as short as the scenario demands.",
        ends_with_load=True,
        above_zero=True,
    ),
    "longest_delivery_gap_s": Metric(
        unit="s",
        meaning=(
            "longest time without a new delivery to a subscription from a partition that touches the fault's span; "
            "a repeated delivery does not end it"
        ),
        demand="The longest time without a delivery is as short as the scenario demands.",
        ends_with_load=True,
        above_zero=True,
    ),
    "longest_hot_key_gap_s": Metric(
        unit="s",
        subject="fault with a hot key",
        meaning=(
            "longest time without a new delivery of a producer's hot key (`hot_key_share`) to a subscription that "
            "touches the fault's span"
        ),
        demand="The longest time without a delivery of a hot key is as short as the scenario demands.",
        ends_with_load=True,
        above_zero=True,
    ),
    "rpo_messages": Metric(
        unit="messages",
        meaning="messages sent before the effect, acked or seen, that no cluster holds any more",
        demand="No more messages that were acked or seen are lost to a fault than the scenario allows (RPO).",
        needs=Ability.STORAGE,
    ),
    "rpo_s": Metric(
        unit="s",
        meaning="age, at the effect, of the oldest acked message that `rpo_messages` counts",
        demand="No acknowledged message older than the scenario allows is lost to a fault (RPO).",
        needs=Ability.STORAGE,
    ),
    "lost_later_messages": Metric(
        unit="messages",
        subject="destroying fault",
        meaning="messages sent after the effect, acked or seen, that no cluster holds any more",
        demand="No more messages that were sent after a destroying fault are lost than the scenario allows.",
        needs=Ability.STORAGE,
    ),
    "missing_messages": Metric(
        unit="messages",
        subject="anomaly",
        meaning=(
            "places at which a message is missing: a value each for `lost`, `not_replicated`, `undelivered` and "
            "`unreadable`, measured if a scenario bounds it"
        ),
        demand="No more messages are missing than the scenario allows.",
        needs=Ability.STORAGE,
    ),
    "repeated_messages": Metric(
        unit="messages",
        subject="anomaly of a repeated message",
        meaning=(
            "messages at two or more positions of one cluster's topic: a value for `stored_twice`, measured if a "
            "scenario bounds it; with a minimum, a run that shows fewer is undecided"
        ),
        demand="The number of messages that are stored twice is within the bounds of the scenario.",
        needs=Ability.STORAGE,
        compared=False,
        minimum_is_to_show=True,
    ),
    "missed_messages": Metric(
        unit="messages",
        subject="subscription of a topic that stores nothing",
        meaning=(
            "acked messages, sent in one of the phases, that the subscription never got; with a minimum, a run that "
            "shows fewer is undecided"
        ),
        demand="Subscriptions of a topic that stores no messages miss no more of them than the scenario allows.",
        minimum_is_to_show=True,
    ),
    "missing_outputs": Metric(
        unit="messages",
        subject="subscription with outputs",
        meaning=(
            "delivered messages without an output by a consumer of the subscription; with a minimum, a run that shows "
            "fewer is undecided"
        ),
        demand="The number of missing outputs is within the bounds of the scenario.",
        compared=False,
        minimum_is_to_show=True,
    ),
    "repeated_outputs": Metric(
        unit="messages",
        subject="subscription with outputs",
        meaning=(
            "messages that have two outputs or more of the subscription's consumers, from one position; with a "
            "minimum, a run that shows fewer is undecided"
        ),
        demand="The number of repeated outputs is within the bounds of the scenario.",
        compared=False,
        minimum_is_to_show=True,
    ),
    "redelivered_messages": Metric(
        unit="messages",
        subject="sharing subscription",
        meaning=(
            "messages that a `shared` or `key_shared` subscription got twice or more from one position, or that the "
            "system says it had delivered before; with a minimum, a run that shows fewer is undecided"
        ),
        demand="The number of redelivered messages is within the bounds of the scenario.",
        needs=Ability.POSITIONS,
        compared=False,
        minimum_is_to_show=True,
    ),
    "overtaken_messages": Metric(
        unit="messages",
        subject="subscription that keeps order",
        meaning=(
            "messages whose last delivery to a subscription that keeps order came after the last delivery of a later "
            "message of their producer and key, in any partition; measured of `key_shared` subscriptions, and of "
            "others if a scenario bounds it; with a minimum, a run that shows fewer is undecided"
        ),
        demand="The number of messages that a later message of their key overtook is within the scenario's bounds.",
        compared=False,
        minimum_is_to_show=True,
    ),
    "longest_overtaking_s": Metric(
        unit="s",
        subject="subscription that keeps order",
        meaning=(
            "longest time from the last delivery of a later message of a producer's key to the last delivery of an "
            "overtaken message, 0 without one"
        ),
        demand="The order of a key is changed for no longer than the scenario allows.",
    ),
    "moved_keys": Metric(
        unit="keys",
        subject="run with more partitions",
        meaning=(
            "keys with acked messages in two or more partitions, because the topic got more of them (`grow`); with a "
            "minimum, a run that shows fewer is undecided"
        ),
        demand="The number of keys that moved to another partition is within the scenario's bounds.",
        needs=Ability.GROWTH,
        compared=False,
        minimum_is_to_show=True,
    ),
    "reached": Metric(
        unit="times",
        subject="state",
        meaning=(
            "how often the run was in a state that many bugs need; with a minimum, a run that was in it less often is "
            "undecided"
        ),
        demand="The run was in the states that the scenario is about.",
        compared=False,
        minimum_is_to_show=True,
    ),
    "largest_consumer_share": Metric(
        unit="share",
        subject="sharing subscription and phase or fault",
        meaning=(
            "part of the deliveries to a `shared` or `key_shared` subscription that its busiest consumer received, in "
            "a phase or in the span of a fault"
        ),
        demand="The busiest consumer's share of the load is within the scenario's bounds.",
    ),
    "rereplicate_s": Metric(
        unit="s",
        meaning="from the effect to the first sample without an under-replicated segment after the last one with any",
        demand="Every segment has all its copies again in the time that the scenario allows.",
        needs=Ability.UNDER_REPLICATION,
        above_zero=True,
    ),
    "backlog_drain_s": Metric(
        unit="s",
        meaning=(
            "from the effect to the first sample of each subscription's backlog that is no higher than before the "
            "run's first fault, after the last high one"
        ),
        demand="The subscriptions' backlog is drained in the time that the scenario allows.",
        needs=Ability.STORAGE,
    ),
    "agree_s": Metric(
        unit="s",
        meaning=(
            "from the failed nodes' return to the first sample in which no cluster is further behind another than "
            "before the run's first fault, after the last high one"
        ),
        demand="Clusters agree again, after failed nodes returned, in the time that the scenario allows.",
        needs=Ability.REPLICATION,
        above_zero=True,
    ),
    "publish_latency_p50_ms": Metric(
        unit="ms",
        subject="phase or fault that slows",
        meaning="median of the time from schedule to ack, or to the end of the load without an ack",
        demand="The median latency from schedule to ack is within the scenario's bounds.",
        above_zero=True,
    ),
    "publish_latency_p99_ms": Metric(
        unit="ms",
        subject="phase or fault that slows",
        meaning="99th percentile of the time from schedule to ack, or to the end of the load without an ack",
        demand="The 99th percentile of the latency from schedule to ack is within the scenario's bounds.",
        above_zero=True,
    ),
    "publish_latency_max_ms": Metric(
        unit="ms",
        subject="phase or fault that slows",
        meaning="longest time from schedule to ack, or to the end of the load without an ack",
        demand="The highest latency from schedule to ack is within the scenario's bounds.",
        above_zero=True,
    ),
    # Not compared: the emulated link, not the messaging system, causes this delay.
    "link_added_p50_ms": Metric(
        unit="ms",
        subject="way and phase or fault that slows",
        meaning="median of what the emulated link added beyond its delay",
        demand="The median of what the emulated link itself added is within the scenario's bounds.",
        compared=False,
    ),
    "link_added_p99_ms": Metric(
        unit="ms",
        subject="way and phase or fault that slows",
        meaning="99th percentile of what the emulated link added beyond its delay",
        demand="The 99th percentile of what the emulated link itself added is within the scenario's bounds.",
        compared=False,
    ),
    "replication_lag_p50_ms": Metric(
        unit="ms",
        subject="way and phase",
        meaning="median of the time from ack to delivery elsewhere",
        demand="The median of the replication lag is within the scenario's bounds.",
        needs=Ability.REPLICATION,
    ),
    "replication_lag_p99_ms": Metric(
        unit="ms",
        subject="way and phase",
        meaning="99th percentile of the time from ack to delivery elsewhere",
        demand="The 99th percentile of the replication lag is within the scenario's bounds.",
        needs=Ability.REPLICATION,
    ),
    "replication_lag_max_ms": Metric(
        unit="ms",
        subject="way and phase",
        meaning="longest time from ack to delivery elsewhere",
        demand="The highest replication lag is within the scenario's bounds.",
        needs=Ability.REPLICATION,
    ),
    "repeated_by_move": Metric(
        unit="messages",
        subject="subscription",
        meaning="messages that a subscription got both before and after it moved to another cluster",
        demand=(
            "Messages that a subscription which moved to another cluster got there again "
            "are as few as the scenario allows."
        ),
        needs=Ability.MOVING_SUBSCRIPTIONS,
    ),
    "missed_by_move": Metric(
        unit="messages",
        subject="subscription",
        meaning="acked messages that a subscription which moved got neither before nor after it",
        demand=(
            "Acknowledged messages that a subscription which moved to another cluster never got "
            "are as few as the scenario allows."
        ),
        needs=Ability.MOVING_SUBSCRIPTIONS,
    ),
    "rate_held": Metric(
        unit="share",
        subject="phase",
        meaning="acked messages of the phase's schedule, as a share of the schedule",
        demand="The share of the schedule that was acknowledged is within the scenario's bound.",
        worse=Worse.LOWER,
    ),
    # Not compared: Brokerproof, not the messaging system, determines how often it samples.
    "sampling_gap_s": Metric(
        unit="s",
        subject="run",
        meaning=(
            "longest time between two samples of one source and metric, without the time in which faults keep down all "
            "nodes that could answer: the platform's own sampling error; null if one was never sampled"
        ),
        demand="The platform's own sampling error is within the scenario's bounds.",
        compared=False,
        above_zero=True,
    ),
}
