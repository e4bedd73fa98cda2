"""Observes the log server's cluster. It asks the leader, which knows more than the other servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerproof import clock
from brokerproof.errors import AdminError
from brokerproof.run.directory import Run
from brokerproof.run.observations import Sample, SampledMetric, Source, format_names, make_topic_source
from brokerproof.run.records import SubscriptionDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import TopicLog
from testlog.client import LogAdmin, PartitionStatus

from testlog_system.administration import admin_errors
from testlog_system.cluster import ROLE, cluster_name, cluster_of, partition_numbers


class TestlogObservation:
    def __init__(self, run: Run, *, patience_s: float = 10.0) -> None:
        self._run, self._cluster = run, cluster_name(run)
        # The first server may be frozen, so each of two servers gets half of the patience.
        self._admin = LogAdmin(cluster_of(run, answer_timeout_s=patience_s / 2), timeout_s=patience_s)
        self._topic, self._nodes = run.scenario.workload.topic, run.topology.nodes

    def find_owner(self, cluster: str | None = None) -> str | None:
        """Return the leader. Raises AdminError also if no server leads; the library does not show the difference."""
        with admin_errors("tell who leads"):
            leader = self._admin.leader()
        if leader not in self._nodes:
            raise AdminError("no server of this run says that it leads")
        return leader

    def list_alive(self) -> dict[str, list[str]]:
        """Return the leader, and the servers that are in sync with it."""
        leader, partitions = self._leader()
        return {ROLE: sorted({leader, *(name for each in partitions for name in each.in_sync or ())})}

    def samplers(self) -> Mapping[str, Callable[[], list[Sample]]]:
        return {"leader": self._sample_leader, "subscriptions": self._sample_subscriptions}

    def count_published(self) -> int:
        """Return the number of messages that the leader took in since its leadership began."""
        return sum(each.taken_in for each in self._leader()[1])

    def find_subscription_drains(self) -> list[SubscriptionDrain]:
        """Return the drains. A subscription has drained if the leader reports a backlog of 0 for the partition."""
        drains = []
        for subscription in self._run.scenario.workload.known_subscriptions:
            backlogs: list[int | None] = [None] * len(partition_numbers(self._run))
            ends: dict[int, int] = {}
            why = ""
            try:
                with admin_errors("tell where its logs end"):
                    ends = self._one_each(self._admin.log_ends(self._topic))
                backlogs = list(self._backlogs(subscription.name))
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
                    end=(0, ends[number]) if number in ends else None,
                    why=why or f"backlog {backlog}",
                )
                for number, backlog in zip(partition_numbers(self._run), backlogs, strict=True)
            ]
        return drains

    def find_acknowledged(self, cluster: str, subscription: str) -> dict[int, Position]:
        """Return the committed position by partition: the position of the next message that will be delivered."""
        with admin_errors("tell a subscription's offset"):
            committed = self._one_each(self._admin.subscription(self._topic, subscription).committed)
        return {number: Position(0, offset) for number, offset in committed.items()}

    def find_logs(self, cluster: str | None = None) -> list[TopicLog]:
        """Return each partition's log with its exclusive end, which is the end of the committed entries."""
        try:
            with admin_errors("tell where its logs end"):
                ends = self._one_each(self._admin.log_ends(self._topic))
        except AdminError as error:
            return [
                TopicLog(cluster=self._cluster, partition=number, why=str(error))
                for number in partition_numbers(self._run)
            ]
        return [TopicLog(cluster=self._cluster, partition=number, end=Position(0, end)) for number, end in ends.items()]

    def _leader(self) -> tuple[str, list[PartitionStatus]]:
        """Return the leader, and the topic's partitions as the leader sees them."""
        with admin_errors("tell what its leader sees"):
            leader = self._admin.leader()
            if leader is None:
                raise AdminError("no server says that it leads")
            partitions = self._admin.status(leader).topics.get(self._topic)
            if partitions is None:
                raise AdminError(f"{leader} knows no topic {self._topic}")
            self._one_each([each.taken_in for each in partitions])
            if unknown := {leader, *(name for each in partitions for name in each.in_sync or ())} - {*self._nodes}:
                raise AdminError(f"{leader} names servers that there are not: {sorted(unknown, key=str)}")
        return leader, partitions

    def _backlogs(self, subscription: str) -> list[int]:
        with admin_errors(f"tell the backlog of {subscription}"):
            return [*self._one_each(self._admin.subscription(self._topic, subscription).backlog).values()]

    def _one_each(self, counts: list[int]) -> dict[int, int]:
        """Return the counts by partition. Raises ValueError unless each partition has a count of 0 or more."""
        numbers = partition_numbers(self._run)
        if len(counts) != len(numbers) or not all(type(each) is int and each >= 0 for each in counts):
            raise ValueError(f"{counts!r} for {len(numbers)} partitions")
        return dict(zip(numbers, counts, strict=True))

    def _sample_leader(self) -> list[Sample]:
        leader, partitions = self._leader()
        alive = {leader, *(name for each in partitions for name in each.in_sync or ())}
        source = make_topic_source(self._topic)
        return [
            _sample(
                Source.CLUSTER.join_name(self._cluster), SampledMetric.ALIVE.join_subject(ROLE), format_names(alive)
            ),
            *(
                _sample(source, SampledMetric.OWNER.join_partition(number), leader)
                for number in partition_numbers(self._run)
            ),
            _sample(source, SampledMetric.PUBLISHED, str(sum(each.taken_in for each in partitions))),
        ]

    def _sample_subscriptions(self) -> list[Sample]:
        return [
            _sample(
                make_topic_source(self._topic),
                SampledMetric.BACKLOG.join_subject(each.name),
                str(sum(self._backlogs(each.name))),
            )
            for each in self._run.scenario.workload.known_subscriptions
        ]


def _sample(source: str, metric: str, value: str) -> Sample:
    return Sample(at=clock.now_us(), source=source, metric=metric, value=value)
