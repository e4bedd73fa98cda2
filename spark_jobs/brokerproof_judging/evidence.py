"""What the other jobs left as proof: which logs were read to their end, what drained, whether every fault was undone.

Missing proof never turns into a finding: a message that would be missing is `unproven` there, and the verdict is
`unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run.directory import Run
from brokerproof.systems.registry import system_of

from brokerproof_judging import partitioned_sql

Log = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Whether something was shown, and why not."""

    given: bool
    why: str


NOTHING = Proof(given=False, why="no step left a record of it")


@dataclass(frozen=True, kw_only=True)
class Subscribed:
    """A subscription that had to get every message of its cluster; one that moved, what it had not got before."""

    cluster: str
    name: str
    moved_from: str | None


def subscriptions(scenario: Scenario, topology: Topology) -> list[Subscribed]:
    """The scenario's subscriptions, each with the cluster that it is on in the end."""
    return [
        Subscribed(
            cluster=each.places(topology)[-1], name=each.name, moved_from=each.home(topology) if each.moves else None
        )
        for each in scenario.workload.subscriptions
    ]


def replicas(topology: Topology, topics: Iterable[str]) -> list[tuple[str, str, str]]:
    """(home, topic, other cluster) wherever a message published in `home` has to reach the other cluster too."""
    system = system_of(topology)
    return [
        (home, topic, other)
        for topic in topics
        for home in topology.clusters
        for other in system.reached(topology, home, topic)
        if other != home
    ]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the other jobs proved, by place."""

    logs: Mapping[Log, Proof]
    drains: Mapping[tuple[str, str, int, str], Proof]
    replication: Mapping[tuple[str, str, str], Proof]
    undone: Proof
    finished: Proof
    read_back: bool
    consumed: bool

    @classmethod
    def of(cls, run: Run) -> Evidence:
        """What the run's directory holds."""
        read_back, consume, replication = run.state("read_back"), run.state("consume"), run.state("replication")
        return cls(
            logs={
                (log["cluster"], log["topic"], log["partition"]): _proof(log, "read_to_end")
                for log in (read_back or {}).get("logs", [])
            },
            drains={
                (each["cluster"], each["topic"], each["partition"], each["subscription"]): _proof(each, "drained")
                for each in (consume or {}).get("subscriptions", [])
            },
            replication={
                (drain["topic"], drain["from"], drain["to"]): _proof(drain, "drained")
                for drain in (replication or {}).get("drains", [])
            },
            undone=_undone(run.scenario, run.state("break_it")),
            finished=_finished(run.state("load")),
            read_back=read_back is not None,
            consumed=consume is not None,
        )

    def problems(self, run: Run, logs: Iterable[tuple[str, Log]]) -> Iterator[str]:
        """A sentence for everything that is not proven about the logs, given as (home, log) pairs."""
        if not self.finished.given:
            yield f"The load did not finish: {self.finished.why}."
        if not self.undone.given:
            yield f"Nothing proves that every fault was undone: {self.undone.why}."
        if not self.read_back:
            yield "No log was read back."
        if not self.consumed:
            yield "Nothing proves that a subscription drained."
        subscribed = subscriptions(run.scenario, run.topology)
        seen: set[Log] = set()
        pairs = list(logs)
        for _, log in pairs:
            if log in seen:
                continue
            seen.add(log)
            cluster, topic, partition = log
            proof = self.logs.get(log, NOTHING)
            if self.read_back and not proof.given:
                yield f"The log of {_name(topic, partition)} in {cluster} was not read to its end: {proof.why}."
            for each in subscribed:
                drained = self.drains.get((cluster, topic, partition, each.name), NOTHING)
                if self.consumed and each.cluster == cluster and not drained.given:
                    name = f"Subscription {each.name} of {_name(topic, partition)}"
                    yield f"{name} in {cluster} did not drain: {drained.why}."
        for home, topic, other in sorted({(home, log[1], log[0]) for home, log in pairs if home != log[0]}):
            drain = self.replication.get((topic, home, other), NOTHING)
            if not drain.given:
                yield f"Replication of {topic} from {home} to {other} did not drain: {drain.why}."

    def tables(self) -> EvidenceTables:
        """The same as small tables to join with."""
        return EvidenceTables(
            logs=partitioned_sql.table(
                "cluster string, topic string, partition int32, read_to_end bool, read_why string",
                [(*log, proof.given, proof.why) for log, proof in self.logs.items()],
            ),
            drains=partitioned_sql.table(
                "cluster string, topic string, partition int32, subscription string, drained bool, drained_why string",
                [(*place, proof.given, proof.why) for place, proof in self.drains.items()],
            ),
            replication=partitioned_sql.table(
                "topic string, home string, cluster string, replicated bool, replicated_why string",
                [(*path, proof.given, proof.why) for path, proof in self.replication.items()],
            ),
        )


@dataclass(frozen=True, kw_only=True)
class EvidenceTables:
    """Evidence by place, one row a log, a subscription, a replication path."""

    logs: pa.Table
    drains: pa.Table
    replication: pa.Table


def _proof(record: Mapping[str, Any], claim: str) -> Proof:
    return Proof(given=bool(record.get(claim)), why=str(record.get("why") or "its record gives no reason"))


def _undone(scenario: Scenario, state: Mapping[str, Any] | None) -> Proof:
    if all(fault.permanent for fault in scenario.faults):
        return Proof(given=True, why="nothing had to be undone")
    if state is None:
        return NOTHING
    return Proof(
        given=bool(state.get("undone")), why="; ".join(state.get("problems", [])) or "its record gives no reason"
    )


def _finished(state: Mapping[str, Any] | None) -> Proof:
    if state is None:
        return NOTHING
    return Proof(given=bool(state.get("finished")), why=str(state.get("why") or "it stopped before its schedule ended"))


def _name(topic: str, partition: int) -> str:
    return topic if partition < 0 else f"{topic}-partition-{partition}"
