"""Observes clusters of the log server. Its leader knows the most, so it is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from brokerproof import clock
from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.run.observations import Sample, SampledMetric, Source, format_names, make_topic_source
from brokerproof.run.records import ReplicationDrain, SubscriptionDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import SegmentCopies, TopicLog
from testlog.client import LogAdmin, PartitionStatus

from testlog_system.administration import admin_errors
from testlog_system.cluster import ROLE, cluster_name, cluster_of, partition_numbers


class TestlogObservation:
    """The cluster of one run, as its leader sees it."""

    def __init__(self, run: Run, *, patience_s: float = 10.0) -> None:
        self._run, self._cluster = run, cluster_name(run)
        # Half of the patience for each of two servers: the first one may be frozen.
        self._admin = LogAdmin(cluster_of(run, answer_timeout_s=patience_s / 2), timeout_s=patience_s)
        self._topic = run.scenario.workload.topic

    def find_owner(self, cluster: str | None = None) -> str | None:
        """The leader."""
        return self._admin.leader()

    def find_holders(self, cluster: str | None = None) -> list[str]:
        """Not asked of a system without `Ability.COPIES`."""
        raise AdminError("the log server does not say who holds a message")

    def list_alive(self) -> dict[str, list[str]]:
        """The leader, and the servers that it finds in sync."""
        leader, partitions = self._leader()
        return {ROLE: sorted({leader, *(name for each in partitions for name in each.in_sync or ())})}

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        """One for what the leader says, one for the subscriptions."""
        return {"leader": self._sample_leader, "subscriptions": self._sample_subscriptions}

    def count_under_replicated(self) -> int:
        """Not asked of a system without `Ability.UNDER_REPLICATION`."""
        raise AdminError("the log server does not say what lacks a copy")

    def find_copies(self, without: Collection[str] = ()) -> list[SegmentCopies]:
        """Not asked of a system without `Ability.COPIES`."""
        raise AdminError("the log server does not say where copies are")

    def count_published(self) -> int:
        """What the leader took in since it leads."""
        return sum(each.taken_in for each in self._leader()[1])

    def find_subscription_drains(self) -> list[SubscriptionDrain]:
        """From the backlog that the leader computes from the committed offset."""
        drains = []
        for subscription in self._run.scenario.workload.subscriptions:
            backlogs: list[int | None] = [None] * len(partition_numbers(self._run))
            why = ""
            try:
                backlogs = [*self._backlogs(subscription.name)]
            except AdminError as error:
                why = str(error)
            drains += [
                SubscriptionDrain(
                    cluster=self._cluster,
                    topic=self._topic,
                    partition=number,
                    subscription=subscription.name,
                    drained=backlog == 0,
                    backlog=backlog,
                    why=why or f"backlog {backlog}",
                )
                for number, backlog in zip(partition_numbers(self._run), backlogs, strict=True)
            ]
        return drains

    def find_replication_drains(self) -> list[ReplicationDrain]:
        """Nothing: there is one cluster."""
        return []

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """The committed offset, which is that of the next message."""
        with admin_errors("tell a subscription's offset"):
            committed = self._admin.subscription(self._topic, subscription).committed
        return {
            number: Position(0, offset) for number, offset in zip(partition_numbers(self._run), committed, strict=True)
        }

    def find_logs(self) -> list[TopicLog]:
        """Each partition with its exclusive end, behind which nothing is committed."""
        numbers = partition_numbers(self._run)
        try:
            with admin_errors("tell where its logs end"):
                ends = self._admin.log_ends(self._topic)
        except AdminError as error:
            return [TopicLog(cluster=self._cluster, partition=number, why=str(error)) for number in numbers]
        return [
            TopicLog(cluster=self._cluster, partition=number, end=Position(0, end))
            for number, end in zip(numbers, ends, strict=True)
        ]

    def _leader(self) -> tuple[str, list[PartitionStatus]]:
        """The leader, and the topic's partitions as it sees them."""
        with admin_errors("tell what its leader sees"):
            leader = self._admin.leader()
            if leader is None:
                raise AdminError("no server says that it leads")
            partitions = self._admin.status(leader).topics.get(self._topic)
        if partitions is None:
            raise AdminError(f"{leader} knows no topic {self._topic}")
        return leader, partitions

    def _backlogs(self, subscription: str) -> list[int]:
        with admin_errors(f"tell the backlog of {subscription}"):
            return self._admin.subscription(self._topic, subscription).backlog

    def _sample_leader(self) -> list[Sample]:
        leader, partitions = self._leader()
        alive = {leader, *(name for each in partitions for name in each.in_sync or ())}
        source = make_topic_source(self._topic)
        return [
            _sample(
                Source.CLUSTER.join_name(self._cluster), SampledMetric.ALIVE.join_subject(ROLE), format_names(alive)
            ),
            _sample(source, SampledMetric.OWNER, leader),
            _sample(source, SampledMetric.PUBLISHED, str(sum(each.taken_in for each in partitions))),
        ]

    def _sample_subscriptions(self) -> list[Sample]:
        return [
            _sample(
                make_topic_source(self._topic),
                SampledMetric.BACKLOG.join_subject(each.name),
                str(sum(self._backlogs(each.name))),
            )
            for each in self._run.scenario.workload.subscriptions
        ]


def _sample(source: str, metric: str, value: str) -> Sample:
    return Sample(at=clock.now_us(), source=source, metric=metric, value=value)
