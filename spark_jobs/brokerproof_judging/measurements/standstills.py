"""Reads the standstills of clients: times in which a client did nothing and may have caused measured delays itself.

A client that a fault ended does nothing until it is back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from brokerproof.clients.consuming import plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.clients.schedule import list_quiet_times
from brokerproof.run.directory import Run
from brokerproof.run.records import ConsumerEnd, LoadRates, ProducerEnd, read_record

from brokerproof_judging.client_lives import intersect, list_absences

OF_STANDSTILLS = "; it is less without the times in which a client itself stood still"
# Later than every time in a run.
_NEVER_US = 2**62
# By a client's name, its standstills (from, to) in µs.
Times = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True, kw_only=True)
class Standstills:
    """The standstills of client processes, as times (from, to) in µs.

    `of_acks` has, by producer, the producer's own standstills, because these may delay its acks. `of_deliveries` has,
    by subscription, the standstills of all producers and of the subscription's consumers, because these may delay
    deliveries. `of_consumers` has, by subscription, only the standstills of its consumers.
    """

    of_acks: Times = field(default_factory=dict)
    of_deliveries: Times = field(default_factory=dict)
    of_consumers: Times = field(default_factory=dict)


def read_standstills(run: Run) -> Standstills:
    """Read the standstills from the records that clients wrote when they ended, and the times in which they were away.

    A subscription is without consumers only while all of them are away, because another one takes over.
    """
    acks: dict[str, list[tuple[int, int]]] = {}
    for producer in plan_producers(run):
        if absences := list_absences(run, producer.client):
            acks[producer.producer] = absences
        if produced := read_record(run, ProducerEnd, producer.number):
            acks.setdefault(produced.producer, []).extend(produced.standstills)
    of_producers = [times for each in acks.values() for times in each]
    planned = plan_consumers(run)
    consumers: dict[str, list[tuple[int, int]]] = {
        each.name: intersect(list_absences(run, task.client) for task in planned if task.subscription == each.name)
        for each in run.scenario.workload.subscriptions
    }
    for consumer in planned:
        if consumed := read_record(run, ConsumerEnd, consumer.number):
            consumers[consumer.subscription].extend(consumed.standstills)
    deliveries = {name: [*of_producers, *times] for name, times in consumers.items()}
    return Standstills(of_acks=acks, of_deliveries=deliveries, of_consumers=consumers)


def read_quiet_times(run: Run) -> tuple[Times, Times]:
    """Return by producer, and by subscription, the times (from, to) in µs in which it had nothing to send or receive.

    A subscription has nothing to receive while all producers have nothing to send.
    """
    rates, tasks = read_record(run, LoadRates), plan_producers(run)
    of_all = intersect(list_quiet_times(rates, task.label) for task in tasks)
    return (
        {task.producer: list_quiet_times(rates, task.label) for task in tasks},
        {subscription.name: of_all for subscription in run.scenario.workload.subscriptions},
    )


def find_proven_end(causes: Iterable[tuple[int, int]], end_us: int) -> int:
    """Return the latest time up to `end_us` at which no cause of delay was in effect.

    `causes` has the times (from, to) in µs in which a client or the monitor may have caused delays. They may overlap.
    """
    for begin, until in sorted(causes, reverse=True):
        if begin < end_us <= until:
            end_us = begin
    return end_us


def list_free_times(standstills: Times, lead_us: int = 0) -> Iterator[tuple[str, int, int]]:
    """Yield (client, from, to) in µs for each time in which no standstill of the client had an effect.

    A standstill has effects for at least `lead_us` after its end.
    """
    yield from list_times_without({name: list_causes(each, lead_us) for name, each in standstills.items()})


def list_times_without(times: Times) -> Iterator[tuple[str, int, int]]:
    """Yield (client, from, to) in µs for each time outside those of the client, which are in order and apart."""
    for name, each in times.items():
        edges = [(-_NEVER_US, -_NEVER_US), *each, (_NEVER_US, _NEVER_US)]
        yield from ((name, begin, end) for (_, begin), (end, _) in pairwise(edges))


def list_causes(standstills: Iterable[tuple[int, int]], lead_us: int = 0) -> list[tuple[int, int]]:
    """Return the times in µs in which standstills may make messages late, in order and without overlaps.

    Such a time begins with the standstill. It ends when the client has worked off the messages that came due meanwhile.
    This is assumed to take as long as the standstill, and at least `lead_us`.
    """
    found: list[tuple[int, int]] = []
    for begin, end in sorted(standstills):
        until = end + max(end - begin, lead_us)
        if found and begin <= found[-1][1]:
            begin, until = found[-1][0], max(found.pop()[1], until)
        found.append((begin, until))
    return found
