"""The proofs that the other jobs left: which logs were read to their end, what drained, whether faults were undone.

Missing proof never turns into a finding: a message that would be missing is `unproven` there, and the verdict is
`unknown`. A record that breaks its model proves nothing; the sentence about it differs from that about a
missing record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from brokerproof.clients.consuming import plan_consumers
from brokerproof.errors import RunError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    Behind,
    ConsumerEnd,
    FaultsUndone,
    LoadEnd,
    LogsRead,
    RecordModel,
    ReplicationDrains,
    SubscriptionDrains,
    UnreadablePart,
    read_record,
)
from brokerproof.systems.registry import find_system

from brokerproof_judging.database import make_small_table

# The columns of a position that is not known.
_NOWHERE = (None, None)
# (cluster, topic, partition)
LogKey = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Whether something is proven, and why or why not."""

    given: bool
    why: str


NO_RECORD = Proof(given=False, why="no step left a record of it")


@dataclass(frozen=True, kw_only=True)
class LogProof(Proof):
    """Whether a log was read to its end, and if not, how far, and which parts of it cannot be read.

    Everything before `passed` was read but the unreadable parts; None if nothing tells.
    """

    passed: Behind | None = None
    unreadable: Sequence[UnreadablePart] = ()


@dataclass(frozen=True, kw_only=True)
class DrainProof(Proof):
    """Whether a subscription drained up to the end of the log that was seen; `end` is None if that is of all."""

    end: Behind | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicationProof(Proof):
    """Whether replication drained up to the ends of the sender's logs that were seen, by partition."""

    ends: Mapping[int, Behind] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RequiredSubscription:
    """A subscription that has to get every message of its cluster, or, once it moved, those that it had not got."""

    cluster: str
    name: str
    moved_from: str | None


def list_subscriptions(scenario: Scenario, topology: Topology) -> list[RequiredSubscription]:
    """The scenario's subscriptions, each with the cluster that it is on in the end."""
    return [
        RequiredSubscription(
            cluster=subscription.list_clusters(topology)[-1],
            name=subscription.name,
            moved_from=subscription.find_home(topology) if subscription.moves else None,
        )
        for subscription in scenario.workload.subscriptions
    ]


def list_replicas(topology: Topology, topics: Iterable[str]) -> list[tuple[str, str, str]]:
    """(home, topic, other cluster) wherever a message published in `home` has to reach the other cluster too."""
    system = find_system(topology)
    return [
        (home, topic, other)
        for topic in topics
        for home in topology.clusters
        for other in system.list_reached(topology, home, topic)
        if other != home
    ]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the other jobs proved, by log, subscription and replication path."""

    logs: Mapping[LogKey, LogProof]
    drains: Mapping[tuple[str, str, int, str], DrainProof]
    replication: Mapping[tuple[str, str, str], ReplicationProof]
    # For a path that `replication` does not have.
    without_replication: Proof
    undone: Proof
    finished: Proof
    read_back: Proof
    consumed: Proof

    @classmethod
    def from_run(cls, run: Run) -> Evidence:
        """Read the proofs from the run's directory."""
        read, no_read = _read_proof(run, LogsRead)
        consumed, no_consumed = _read_proof(run, SubscriptionDrains)
        broken_consumers = _find_broken_consumers(run)
        replicated, no_replicated = _read_proof(run, ReplicationDrains)
        return cls(
            logs={
                (log.cluster, log.topic, log.partition): LogProof(
                    given=log.read_to_end, why=_give_reason(log.why), passed=log.passed, unreadable=log.unreadable
                )
                for log in (read.logs if read else ())
            },
            drains={
                (drain.cluster, drain.topic, drain.partition, drain.subscription): (
                    broken_consumers.get(drain.subscription)
                    or DrainProof(given=drain.drained, why=_give_reason(drain.why), end=drain.end)
                )
                for drain in (consumed.subscriptions if consumed else ())
            },
            replication={
                (drain.topic, drain.sender, drain.receiver): ReplicationProof(
                    given=drain.drained, why=_give_reason(drain.why), ends=drain.ends
                )
                for drain in (replicated.drains if replicated else ())
            },
            without_replication=no_replicated,
            undone=prove_undone(run),
            finished=_prove_finished(run),
            read_back=no_read,
            consumed=no_consumed,
        )

    def list_problems(self, run: Run, logs: Iterable[tuple[str, LogKey]]) -> Iterator[str]:
        """A sentence for each thing that is not proven about the logs, which are given as (home, log) pairs."""
        if not self.finished.given:
            yield f"The load did not finish: {self.finished.why}."
        if not self.undone.given:
            yield f"Nothing proves that every fault was undone: {self.undone.why}."
        if not self.read_back.given:
            yield f"No log was read back: {self.read_back.why}."
        if not self.consumed.given:
            yield f"Nothing proves that a subscription drained: {self.consumed.why}."
        subscriptions = list_subscriptions(run.scenario, run.topology)
        pairs = list(logs)
        for cluster, topic, partition in dict.fromkeys(log for _, log in pairs):
            log_name = _name_partition(topic, partition)
            proof = self.logs.get((cluster, topic, partition), NO_RECORD)
            if self.read_back.given and not proof.given:
                yield f"The log of {log_name} in {cluster} was not read to its end: {proof.why}."
            for subscription in subscriptions:
                drain = self.drains.get((cluster, topic, partition, subscription.name), NO_RECORD)
                if self.consumed.given and subscription.cluster == cluster and not drain.given:
                    yield f"Subscription {subscription.name} of {log_name} in {cluster} did not drain: {drain.why}."
        for home, topic, other in sorted({(home, log[1], log[0]) for home, log in pairs if home != log[0]}):
            drain = self.replication.get((topic, home, other), self.without_replication)
            if not drain.given:
                yield f"Replication of {topic} from {home} to {other} did not drain: {drain.why}."

    def make_tables(self) -> EvidenceTables:
        """The proofs as small tables, for joins."""
        return EvidenceTables(
            logs=make_small_table(
                "cluster string, topic string, partition int32, read_to_end bool, read_why string, "
                "passed_ledger_id int64, passed_entry_id int64",
                [(*log, proof.given, proof.why, *(proof.passed or _NOWHERE)) for log, proof in self.logs.items()],
            ),
            unreadable=make_small_table(
                "cluster string, topic string, partition int32, ledger_id int64, entry_id int64, end_ledger_id int64, "
                "end_entry_id int64",
                [(*log, *part.start, *part.end) for log, proof in self.logs.items() for part in proof.unreadable],
            ),
            drains=make_small_table(
                "cluster string, topic string, partition int32, subscription string, drained bool, drained_why string, "
                "end_ledger_id int64, end_entry_id int64",
                [(*place, proof.given, proof.why, *(proof.end or _NOWHERE)) for place, proof in self.drains.items()],
            ),
            replication=make_small_table(
                "topic string, home string, cluster string, replicated bool, replicated_why string",
                [(*path, proof.given, proof.why) for path, proof in self.replication.items()],
            ),
            replication_ends=make_small_table(
                "topic string, home string, cluster string, partition int32, end_ledger_id int64, end_entry_id int64",
                [
                    (*path, partition, *end)
                    for path, proof in self.replication.items()
                    for partition, end in proof.ends.items()
                ],
            ),
        )


@dataclass(frozen=True, kw_only=True)
class EvidenceTables:
    """The proofs, one row for each log, unreadable part, subscription, replication path, and partition of a path."""

    logs: pa.Table
    unreadable: pa.Table
    drains: pa.Table
    replication: pa.Table
    replication_ends: pa.Table


def _read_proof(run: Run, kind: type[RecordModel]) -> tuple[RecordModel | None, Proof]:
    """A record, and the proof that it can be read. A record that cannot be read proves nothing."""
    try:
        record = read_record(run, kind)
    except RunError as error:
        return None, Proof(given=False, why=str(error))
    return record, NO_RECORD if record is None else Proof(given=True, why="its record can be read")


def _find_broken_consumers(run: Run) -> dict[str, DrainProof]:
    """By subscription, why what its consumers recorded may lack a delivery that its cluster knows to be acknowledged.

    Nothing where every consumer ended by itself, and in a run that was recorded before clients had records.
    """
    broken: dict[str, DrainProof] = {}
    for task in plan_consumers(run) if run.facts.sealed else ():
        try:
            end = read_record(run, ConsumerEnd, task.number)
            problem = f"{task.consumer} left no record of its end" if end is None else end.problem
        except RunError as error:
            problem = str(error)
        if problem is not None:
            broken[task.subscription] = DrainProof(given=False, why=problem)
    return broken


def _give_reason(why: str) -> str:
    return why or "its record gives no reason"


def prove_undone(run: Run) -> Proof:
    """Whether every fault that is not permanent was undone.

    A node that was ended from outside the run counts as a fault without an undo, under every scenario.
    """
    record, unread = _read_proof(run, FaultsUndone)
    disturbed = record is not None and not record.undisturbed
    if not disturbed and all(fault.permanent for fault in run.scenario.faults):
        return Proof(given=True, why="nothing had to be undone")
    if record is not None and disturbed:
        return Proof(given=False, why=_give_reason("; ".join(record.problems)))
    return unread if record is None else Proof(given=record.undone, why=_give_reason("; ".join(record.problems)))


def _prove_finished(run: Run) -> Proof:
    record, unread = _read_proof(run, LoadEnd)
    if record is None:
        return unread
    return Proof(given=record.finished, why=record.why or "it stopped before its schedule ended")


def _name_partition(topic: str, partition: int) -> str:
    return topic if partition < 0 else f"{topic}-partition-{partition}"
