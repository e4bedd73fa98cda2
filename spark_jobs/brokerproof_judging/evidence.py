"""Reads the records by which tasks of a run's DAG prove what they did or found before the run is judged.

They prove that logs were read to their ends, that subscriptions and replication drained, and that faults were undone.

Without such a proof, no loss is claimed. A message that seems to be missing is then `unproven`, and the verdict is
`unknown`. A damaged record is no proof either, and the reason names the damage.
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
from brokerproof.systems.destinations import list_clusters_reached, list_reached
from brokerproof.systems.registry import find_system, name_topic

from brokerproof_judging.database import make_small_table

# The segment and offset of an unknown position.
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
    """Whether a log was read to its end, and how far the reader came.

    Everything before the position `passed` was read, except the ranges `unreadable`. `passed` is None if no record says
    how far the reader came.
    """

    passed: Behind | None = None
    unreadable: Sequence[UnreadablePart] = ()


@dataclass(frozen=True, kw_only=True)
class DrainProof(Proof):
    """Whether a subscription had acknowledged every message before the position `end` of a log.

    `end` is the log's end when the cluster was asked. If it is None, the proof is about the whole log.
    """

    end: Behind | None = None


@dataclass(frozen=True, kw_only=True)
class ReplicationProof(Proof):
    """Whether replication had sent every message before the positions `ends`.

    `ends` has, by partition, the end that the log in the sending cluster had when the cluster was asked.
    """

    ends: Mapping[int, Behind] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RequiredSubscription:
    """The subscription `name`, and the cluster in which it has to get every message.

    If it moved there from the cluster `moved_from`, it need not get again the messages that it got before. `moved_from`
    is None if the subscription does not move. `writes_outputs` says whether its consumers write outputs.
    """

    cluster: str
    name: str
    moved_from: str | None
    writes_outputs: bool


def list_subscriptions(scenario: Scenario, topology: Topology) -> list[RequiredSubscription]:
    """Return each subscription of the scenario, with the cluster that it moves to, or with its only cluster."""
    return [
        RequiredSubscription(
            cluster=subscription.list_clusters(topology)[-1],
            name=subscription.name,
            moved_from=subscription.find_home(topology) if subscription.moves else None,
            writes_outputs=subscription.outputs_guarantee is not None,
        )
        for subscription in scenario.workload.subscriptions
    ]


def list_replicas(topology: Topology, topics: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return (home, topic, other cluster) for each other cluster that a message published to `home` has to reach."""
    system = find_system(topology)
    return [
        (home, topic, other)
        for topic in topics
        for home in topology.clusters
        for other in list_reached(system, topology, home, topic)
        if other != home
    ]


def list_workload_logs(run: Run) -> list[LogKey]:
    """Return the logs that have to be read back: each partition in every cluster that the workload reaches."""
    topology, workload = run.topology, run.scenario.workload
    return [
        (cluster, name_topic(run), partition)
        for cluster in list_clusters_reached(topology, workload)
        for partition in workload.list_partitions()
    ]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The proofs that the run's other steps recorded.

    A key of `drains` is (cluster, topic, partition, subscription). A key of `replication` is (topic, sending cluster,
    receiving cluster).
    """

    logs: Mapping[LogKey, LogProof]
    drains: Mapping[tuple[str, str, int, str], DrainProof]
    replication: Mapping[tuple[str, str, str], ReplicationProof]
    # The proof for each key that `replication` lacks.
    without_replication: Proof
    undone: Proof
    finished: Proof
    read_back: Proof
    consumed: Proof

    @classmethod
    def from_run(cls, run: Run) -> Evidence:
        """Read the proofs from the run's directory. A record that is missing or damaged gives no proof."""
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
                    broken_consumers.get((drain.cluster, drain.subscription))
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
        """Yield a sentence for each missing proof: of the load's end, the undo of faults, the read-back or a drain.

        `logs` has (home, log) for each log that messages published to the cluster `home` had to reach. The workload's
        other logs must have been read to their ends too.
        """
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
        named = dict.fromkeys(log for _, log in pairs)
        # A log that no message names may hold copies and phantoms, which only its reader can find.
        for log in dict.fromkeys([*named, *self.logs, *list_workload_logs(run)]):
            cluster, *_ = log
            proof = self.logs.get(log, NO_RECORD)
            if self.read_back.given and not proof.given:
                yield f"The log of {name_log(log)} was not read to its end: {proof.why}."
            for subscription in subscriptions if log in named else ():
                drain = self.drains.get((*log, subscription.name), NO_RECORD)
                if self.consumed.given and subscription.cluster == cluster and not drain.given:
                    yield f"Subscription {subscription.name} of {name_log(log)} did not drain: {drain.why}."
        for home, topic, other in sorted({(home, log[1], log[0]) for home, log in pairs if home != log[0]}):
            drain = self.replication.get((topic, home, other), self.without_replication)
            if not drain.given:
                yield f"Replication of {topic} from {home} to {other} did not drain: {drain.why}."

    def make_tables(self) -> EvidenceTables:
        return EvidenceTables(
            logs=make_small_table(
                "cluster string, topic string, partition int32, read_to_end bool, read_why string, "
                "passed_segment int64, passed_offset int64",
                [(*log, proof.given, proof.why, *(proof.passed or _NOWHERE)) for log, proof in self.logs.items()],
            ),
            unreadable=make_small_table(
                "cluster string, topic string, partition int32, segment int64, offset int64, end_segment int64, "
                "end_offset int64",
                [(*log, *part.start, *part.end) for log, proof in self.logs.items() for part in proof.unreadable],
            ),
            drains=make_small_table(
                "cluster string, topic string, partition int32, subscription string, drained bool, drained_why string, "
                "end_segment int64, end_offset int64",
                [(*place, proof.given, proof.why, *(proof.end or _NOWHERE)) for place, proof in self.drains.items()],
            ),
            replication=make_small_table(
                "topic string, home string, cluster string, replicated bool, replicated_why string",
                [(*path, proof.given, proof.why) for path, proof in self.replication.items()],
            ),
            replication_ends=make_small_table(
                "topic string, home string, cluster string, partition int32, end_segment int64, end_offset int64",
                [
                    (*path, partition, *end)
                    for path, proof in self.replication.items()
                    for partition, end in proof.ends.items()
                ],
            ),
        )


@dataclass(frozen=True, kw_only=True)
class EvidenceTables:
    """The proofs as tables for SQL queries.

    `logs` has a row for each log, `unreadable` for each unreadable range of a log, and `drains` for each partition and
    subscription. `replication` has a row for each topic and direction (from `home` to `cluster`), and
    `replication_ends` has a row for each topic, direction and partition.
    """

    logs: pa.Table
    unreadable: pa.Table
    drains: pa.Table
    replication: pa.Table
    replication_ends: pa.Table


def _read_proof(run: Run, kind: type[RecordModel]) -> tuple[RecordModel | None, Proof]:
    """Return a record, and a proof that it can be read.

    If the record is missing or damaged, return None, and a proof with `given` false and the reason as `why`.
    """
    try:
        record = read_record(run, kind)
    except RunError as error:
        return None, Proof(given=False, why=str(error))
    return record, NO_RECORD if record is None else Proof(given=True, why="its record can be read")


def _find_broken_consumers(run: Run) -> dict[tuple[str, str], DrainProof]:
    """Return {(cluster, subscription): proof with `given` false} of subscriptions with a consumer that ended badly.

    Such a consumer may have acknowledged deliveries that its record lacks. The proof's `why` is the consumer's problem.
    The cluster is the subscription's last cluster, in which it has to drain. If all consumers of a subscription ended
    without a problem, the subscription is left out. If the run's tables have no seals, as in old runs, the result is
    empty.
    """
    broken: dict[tuple[str, str], DrainProof] = {}
    for task in plan_consumers(run) if run.facts.sealed else ():
        try:
            end = read_record(run, ConsumerEnd, task.number)
            problem = f"{task.consumer} left no record of its end" if end is None else end.problem
        except RunError as error:
            problem = str(error)
        if problem is not None:
            cluster = task.find_subscription(run).list_clusters(run.topology)[-1]
            broken[cluster, task.subscription] = DrainProof(given=False, why=problem)
    return broken


def _give_reason(why: str) -> str:
    return why or "its record gives no reason"


def prove_undone(run: Run) -> Proof:
    """Return the proof that every fault was undone, except permanent ones. Its `given` is false if this is not proven.

    If something outside the run ended a node, `given` is false even if the scenario has no faults.
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


def name_log(log: LogKey) -> str:
    """Return a log's name for use in sentences, such as `orders-partition-3 in eu`."""
    cluster, topic, partition = log
    return f"{topic if partition < 0 else f'{topic}-partition-{partition}'} in {cluster}"
