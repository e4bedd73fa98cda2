"""What the faults of a run did to its clients, and what its consumers made of messages, without judging's queries.

The records of the clients' processes say which of them a fault ended. Everything else is counted from the tables.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from brokerproof.experiment.fault import QUIET
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.workload import ClientRole, Commit, Subscription, WorkloadClient
from brokerproof.faults.targets import list_clients
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    EarlyEnd,
    FaultsUndone,
    PhaseTimes,
    StepProblem,
    SubscriptionDrains,
    read_record,
    record_keys,
)
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import AttemptOutcome, FaultState

Message = tuple[str, int]
# Where a message is stored: its partition and its position.
Place = tuple[int | None, ...]
_PLACE = ("partition", "segment", "offset", "batch_index")
# A producer looks for due messages this often.
_TICK_S = 0.002


@dataclass(frozen=True, kw_only=True)
class ClientHarm:
    """Clients by their labels, subscriptions by their names."""

    # The clients that are targets of two faults or more, and those on standby.
    shared: frozenset[str] = frozenset()
    standby: frozenset[str] = frozenset()
    # The clients one of whose processes a fault ended.
    ended: frozenset[str] = frozenset()
    # The subscriptions one of whose consumers a fault ended, and those of which two processes ran at a time.
    interrupted: frozenset[str] = frozenset()
    doubled: frozenset[str] = frozenset()
    # The producers a second process of whose name took over, and those that a fault ended and something started again.
    fenced: frozenset[str] = frozenset()
    restarted_producers: frozenset[str] = frozenset()
    # All producers, those that were down, frozen or without messages for a while, and clients that ended by themselves
    # after the load.
    producers: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    outlived: frozenset[str] = frozenset()
    # Whether each message is due alone, so that a batch of several comes only by chance.
    sends_singly: bool = False

    @staticmethod
    def names(sentence: str, labels: frozenset[str]) -> bool:
        """Whether a sentence names one of these clients."""
        return bool(labels & set(re.findall(r"[\w@-]+", sentence)))

    @classmethod
    def read(cls, run: Run) -> ClientHarm:
        """From the run's directory."""
        scenario, topology = run.scenario, run.topology
        faults = {
            fault.name: (fault.kind, set(list_clients(fault.targets, scenario.workload, topology)))
            for fault in scenario.faults
        }
        of_faults = Counter(label for _, labels in faults.values() for label in labels)
        effective = {
            row["fault"]
            for row in iterate_rows(run, "faults", ["fault", "state"])
            if row["state"] == FaultState.EFFECTIVE
        }
        clients = [each for role in ClientRole for each in scenario.workload.list_clients(topology, role)]
        lives = {each.label: _read_epochs(run, each) for each in clients}
        ended = frozenset(label for label, epochs in lives.items() if any(epoch.fault for epoch in epochs))
        by_subscription = defaultdict[str, list[ClientEpoch]](list)
        for each in clients:
            by_subscription[each.subscription] += lives[each.label]
        frozen = frozenset(label for kind, labels in faults.values() if kind in ("pause", QUIET) for label in labels)
        producers = frozenset(each.label for each in clients if each.role is ClientRole.PRODUCER)
        phases, rate = read_record(run, PhaseTimes), scenario.workload.target_rate
        ends_at = phases.ends_at if phases else None
        fencing = {name for name, (kind, _) in faults.items() if kind == "fence"} & effective
        return cls(
            shared=frozenset(label for label, count in of_faults.items() if count > 1),
            standby=frozenset(each.label for each in clients if each.standby),
            ended=ended,
            interrupted=frozenset(each.subscription for each in clients if each.label in ended and each.subscription),
            doubled=frozenset(name for name, epochs in by_subscription.items() if name and _overlap(epochs)),
            producers=producers,
            idle=producers & (ended | frozen),
            outlived=frozenset(label for label, epochs in lives.items() if ends_at and _ends_after(epochs, ends_at)),
            sends_singly=rate is not None and rate / scenario.workload.producer_count < 1 / _TICK_S,
            restarted_producers=frozenset(
                each.name
                for each in clients
                if each.role is ClientRole.PRODUCER and each.label in ended and len(lives[each.label]) > 1
            ),
            # A process that was refused is never connected.
            fenced=frozenset(
                each.name
                for each in clients
                if any(epoch.fault in fencing and epoch.ready_at for epoch in lives[each.label])
            ),
        )


def _read_epochs(run: Run, client: WorkloadClient) -> tuple[ClientEpoch, ...]:
    lives = read_record(run, ClientEpochs, client.client)
    return lives.epochs if lives else ()


def _ends_after(epochs: tuple[ClientEpoch, ...], at: int) -> bool:
    """Whether a process of a client ended by itself after a time."""
    return any(each.fault is None and each.ended_at is not None and each.ended_at >= at for each in epochs)


def _overlap(epochs: list[ClientEpoch]) -> bool:
    """Whether two processes were connected at a time."""
    lives = sorted((each.ready_at, each.ended_at or float("inf")) for each in epochs if each.ready_at is not None)
    return any(later[0] < max(end for _, end in lives[:number]) for number, later in enumerate(lives) if number)


@dataclass(kw_only=True)
class Outputs:
    """How often each message was delivered to a subscription, and how many outputs of it there are.

    `written` counts them by message and position: a message that is stored twice has an output of each copy.
    """

    subscription: Subscription
    delivered: Counter[Message] = field(default_factory=Counter)
    written: Counter[tuple[Message, Place]] = field(default_factory=Counter)

    @property
    def missing(self) -> int:
        """The delivered messages without an output."""
        return len(self.delivered.keys() - {message for message, _ in self.written})

    @property
    def repeated(self) -> int:
        """The messages with two outputs or more of one position."""
        return len({message for (message, _), count in self.written.items() if count > 1})


def count_outputs(run: Run) -> list[Outputs]:
    """Count the deliveries and the outputs of each subscription whose consumers write outputs."""
    found = {
        each.name: Outputs(subscription=each)
        for each in run.scenario.workload.subscriptions
        if each.outputs_guarantee is not None
    }
    for table in ("deliveries", "outputs"):
        for row in iterate_rows(run, table, ["subscription", "producer", "seq", *_PLACE]):
            if row["subscription"] not in found or row["seq"] is None:
                continue
            outputs, message = found[row["subscription"]], (row["producer"], row["seq"])
            if table == "deliveries":
                outputs.delivered[message] += 1
            else:
                outputs.written[message, tuple(row[each] for each in _PLACE)] += 1
    return list(found.values())


def find_wrong_outputs(run: Run, judgement: Judgement) -> Iterator[str]:
    """What of a run's outputs judging counts wrongly."""
    outputs = count_outputs(run)
    measured = {(row.metric, row.subject): row.value for row in judgement.measurements}
    is_whole = not judgement.problems
    for each in outputs:
        name = each.subscription.name
        for anomaly, metric, count in (
            (Anomaly.OUTPUT_MISSING, "missing_outputs", each.missing),
            (Anomaly.OUTPUT_REPEATED, "repeated_outputs", each.repeated),
        ):
            said = measured.get((metric, name))
            # Without a proof, a message may be unproven instead.
            if said != count and (is_whole or (said is not None and said > count)):
                yield f"{count} messages are {anomaly} at {name}, and judging measures {said}"
    for anomaly, count in (
        (Anomaly.OUTPUT_MISSING, sum(each.missing for each in outputs)),
        (Anomaly.OUTPUT_REPEATED, sum(each.repeated for each in outputs)),
    ):
        said = judgement.counts.count_anomaly(anomaly)
        if said != count and (is_whole or said > count):
            yield f"{count} messages are {anomaly}, and judging counts {said}"


def find_unexplained_outputs(run: Run, harm: ClientHarm) -> Iterator[str]:
    """What consumers did not write, or wrote again, although no fault made them."""
    for outputs in count_outputs(run):
        yield from _find_unexplained_of(run, outputs, harm)


def _find_unexplained_of(run: Run, outputs: Outputs, harm: ClientHarm) -> Iterator[str]:
    name, commit = outputs.subscription.name, outputs.subscription.commit
    written: Counter[Message] = Counter()
    for (message, _), count in outputs.written.items():
        written[message] += count
    more = [message for message, count in written.items() if count > outputs.delivered[message]]
    if more:
        yield f"{len(more)} messages have more outputs at {name} than deliveries, such as {more[0]}"
    may_miss = (commit is Commit.BEFORE and name in harm.interrupted) or not _has_drained(run, name)
    if outputs.missing and not may_miss:
        yield f"{outputs.missing} messages have no output at {name} ({commit}), which drained, and no fault took it"
    # The log server gives two consumers the same messages.
    may_repeat = name in harm.doubled or (commit is Commit.AFTER and name in harm.interrupted)
    if outputs.repeated and (commit is Commit.BY_KEY or not may_repeat):
        yield f"{outputs.repeated} messages have several outputs at {name} ({commit}), and no fault repeated them"


def _has_drained(run: Run, subscription: str) -> bool:
    """Whether all steps succeeded, and the subscription drained in all partitions."""
    drains = read_record(run, SubscriptionDrains)
    undone = read_record(run, FaultsUndone)
    if record_keys(run, StepProblem) or read_record(run, EarlyEnd) is not None or (undone and not undone.undone):
        return False
    own = [each for each in drains.subscriptions if each.subscription == subscription] if drains else []
    return bool(own) and all(each.drained for each in own)


def find_wrong_publishes(run: Run, judgement: Judgement) -> Iterator[str]:
    """What of the producers' messages judging counts wrongly, and what dead producers left open that is not unknown."""
    outcomes = defaultdict[Message, set[str]](set)
    for row in iterate_rows(run, "publishes", ["producer", "seq", "outcome"]):
        outcomes[row["producer"], row["seq"]].add(row["outcome"])
    known = {AttemptOutcome.FAILED, AttemptOutcome.NOT_SENT}
    unknown = sum(AttemptOutcome.ACKED not in each and not each <= known for each in outcomes.values())
    if unknown != judgement.counts.unknown:
        yield f"{unknown} messages are unknown, and judging counts {judgement.counts.unknown}"
    if judgement.problems:
        return
    by_producer = defaultdict[str, list[int]](list)
    for producer, seq in outcomes:
        by_producer[producer].append(seq)
    for producer, seqs in by_producer.items():
        gaps = sum(later != earlier + 1 for earlier, later in pairwise(sorted(seqs)))
        if gaps or min(seqs):
            yield f"the messages of {producer} have {gaps} gaps, although what it left open is unknown"


def explain_disorder(run: Run, harm: ClientHarm) -> str | None:
    """Why messages are stored out of order, if their producers sent them so; None if one of them has no such reason."""
    late = _list_stored_late(run)
    sent_again = set[Message]()
    if run.scenario.workload.client.on_restart is not None:
        epochs = defaultdict[Message, set[int]](set)
        for row in iterate_rows(run, "publishes", ["producer", "seq", "epoch"]):
            epochs[row["producer"], row["seq"]].add(row["epoch"])
        sent_again = {message for message, numbers in epochs.items() if len(numbers) > 1}
    rest = late - sent_again
    if not late or any(producer not in harm.fenced for producer, _ in rest):
        return None
    if rest:
        return "messages are stored out of order: the log server refuses no second producer of a name"
    return "messages are stored out of order: a producer sent what had no answer again, behind later messages"


def _list_stored_late(run: Run) -> set[Message]:
    """The messages that are first stored behind a later one of their producer and key."""
    first: dict[tuple[int, str, str, int], tuple[int, int]] = {}
    for row in iterate_rows(run, "stored", ["partition", "producer", "key", "seq", "segment", "offset"]):
        at, message = (row["segment"], row["offset"]), (row["partition"], row["producer"], row["key"], row["seq"])
        first[message] = min(first.get(message, at), at)
    found, highest = set[Message](), dict[tuple[int, str, str], int]()
    for partition, producer, key, seq in sorted(first, key=lambda each: first[each]):
        if seq < highest.get((partition, producer, key), -1):
            found.add((producer, seq))
        highest[partition, producer, key] = max(seq, highest.get((partition, producer, key), -1))
    return found
