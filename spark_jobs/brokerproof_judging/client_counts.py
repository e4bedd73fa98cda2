"""Compares three numbers of each client: the rows that it counted, the rows in its record, and its rows in a table.

A client is a producer or a consumer, and its record is the files that it wrote. These files are removed before the run
is judged, so `ClientRecordRead` has their numbers of rows. If the numbers differ, recorded rows are gone, or the table
has rows that no client recorded. The rows of a log in the table `stored` are compared with the count of the log's
reader.

It is also a problem if several processes ran one client, unless a fault ended each earlier one, because then nothing
can be claimed about its messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from brokerproof.clients.consuming import ConsumerTask, plan_consumers
from brokerproof.clients.producing import plan_producers
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import ClientRecordRead, ConsumerEnd, EpochRead, LogsRead, ProducerEnd, read_record

from brokerproof_judging.client_lives import list_epochs_ended_by_faults
from brokerproof_judging.evidence import LogKey, name_log
from brokerproof_judging.messages.publish_record import PartSummary

# A client's rows in its table, by epoch and then by outcome. Deliveries have the single outcome `delivered`.
RowsByEpoch = Mapping[int, Mapping[str, int]]
ClientEnd = ProducerEnd | ConsumerEnd

# By the type of a client's end: why no claim about messages is possible if several processes ran the client.
_WHY_REPEATS_MATTER: Mapping[type[ClientEnd], str] = {
    ProducerEnd: (
        "An earlier one may still have published when the next began, so their order may be that of Brokerproof itself."
    ),
    ConsumerEnd: "One that was killed may have acknowledged messages that its record lacks.",
}


def find_count_problems(run: Run, summaries: Iterable[PartSummary]) -> dict[str, list[str]]:
    """Return {table: sentences} on wrong numbers of rows, unreadable records and clients with several processes.

    The tables are `publishes`, `deliveries` and `stored`. In a run that was recorded without counts, no numbers are
    compared.
    """
    summaries = list(summaries)
    published, delivered = _count_attempts(summaries), _count_deliveries(run, summaries)
    return {
        "publishes": list(_compare_table(run, "publishes", _list_producers(run), published)),
        "deliveries": list(_compare_table(run, "deliveries", _list_consumers(run), delivered)),
        "stored": list(_compare_logs(run, summaries)),
    }


@dataclass(frozen=True, kw_only=True)
class _Client:
    # The client's name as a key of rows (`who`), in sentences (`label`) and in the run's directory (`client`).
    who: str
    label: str
    client: str
    # The number and the type of the record of the client's end.
    number: int
    kind: type[ProducerEnd] | type[ConsumerEnd]


def _list_producers(run: Run) -> list[_Client]:
    return [
        _Client(who=task.producer, label=task.producer, client=task.client, number=task.number, kind=ProducerEnd)
        for task in plan_producers(run)
    ]


def _list_consumers(run: Run) -> list[_Client]:
    return [
        _Client(who=task.client, label=task.consumer, client=task.client, number=task.number, kind=ConsumerEnd)
        for task in plan_consumers(run)
    ]


def _count_attempts(summaries: Sequence[PartSummary]) -> dict[str, dict[int, Counter[str]]]:
    """Return {producer: {epoch: {outcome: number of attempts}}}. `epoch` numbers the producer's processes from 0."""
    found: dict[str, dict[int, Counter[str]]] = {}
    for producer, epoch, outcome, count in (row for summary in summaries for row in summary.attempts):
        found.setdefault(producer, {}).setdefault(epoch, Counter())[outcome] += count
    return found


def _count_deliveries(run: Run, summaries: Sequence[PartSummary]) -> dict[str, dict[int, Counter[str]]]:
    """Return {client: {epoch: {"delivered": number}}}. `epoch` numbers the client's processes from 0.

    A consumer that the scenario lacks has the key `CONSUMER of SUBSCRIPTION in CLUSTER`.
    """
    tasks: dict[tuple[str, str, str], ConsumerTask] = {
        (cluster, task.subscription, task.consumer): task
        for task in plan_consumers(run)
        for cluster in task.find_subscription(run).list_clusters(run.topology)
    }
    found: dict[str, dict[int, Counter[str]]] = {}
    for cluster, subscription, consumer, incarnation, count in (row for each in summaries for row in each.deliveries):
        task = tasks.get((cluster, subscription, consumer))
        who = f"{consumer} of {subscription} in {cluster}" if task is None else task.client
        epoch = 0 if task is None else (incarnation or 0) // len(task.find_incarnations(run, 0))
        found.setdefault(who, {}).setdefault(epoch, Counter())["delivered"] += count
    return found


def _compare_table(
    run: Run, table: str, clients: Sequence[_Client], stored: Mapping[str, RowsByEpoch]
) -> Iterator[str]:
    is_counted = False
    for client in clients:
        try:
            end, read = read_record(run, client.kind, client.number), read_record(run, ClientRecordRead, client.client)
        except RunError as error:
            yield f"What {client.label} recorded cannot be compared with the table {table}: {error}."
            continue
        is_counted |= read is not None
        held = {each.epoch: each for each in (read.epochs if read else ())}
        rows = stored.get(client.who, {})
        yield from _name_repeats(run, client, {*held, *rows, *([end.epoch or 0] if end else [])})
        yield from _compare_client(table, client.label, end, held, rows)
    # A run that was recorded without counts may hold rows of any client.
    for who in sorted(stored.keys() - {client.who for client in clients}) if is_counted else ():
        count = sum(sum(rows.values()) for rows in stored[who].values())
        yield f"The table {table} holds rows of {who}, which is no client of the scenario: {count:,}."


def _name_repeats(run: Run, client: _Client, epochs: Collection[int]) -> Iterator[str]:
    # Epochs begin at 0. The highest one is used, because an earlier process may have left no readable record.
    processes = max(epochs, default=0) + 1
    if not set(range(processes - 1)) <= list_epochs_ended_by_faults(run, client.client):
        why = _WHY_REPEATS_MATTER[client.kind]
        yield f"{processes} processes ran {client.label}, because its task was repeated. {why}"


def _compare_client(
    table: str, label: str, end: ClientEnd | None, held: Mapping[int, EpochRead], stored: RowsByEpoch
) -> Iterator[str]:
    said = {end.epoch: end} if end and end.epoch is not None else {}
    for epoch in sorted({*said, *held, *(stored if held else ())}):
        # If Spark repeats a task, another process runs the client. Each process is one epoch.
        name = label if epoch == 0 else f"{label} (epoch {epoch})"
        yield from _compare_epoch(table, name, said.get(epoch), held.get(epoch), stored.get(epoch, {}))


def _compare_epoch(
    table: str, name: str, end: ClientEnd | None, held: EpochRead | None, stored: Mapping[str, int]
) -> Iterator[str]:
    if held and held.missing:
        numbers = ", ".join(str(number) for number in held.missing)
        yield f"Segments that are missing from the record of {name}: {numbers}."
    found = held.segments + len(held.missing) if held else None
    if end and end.segments is not None and found is not None and end.segments != found:
        yield f"{name} wrote {end.segments:,} segments, and its record ends after {found:,}."
    counts = end.counts if end else None
    in_table = sum(stored.values())
    numbers_of_rows = {
        "it counted": None if counts is None else sum(counts.values()),
        "its record holds": held.rows if held else None,
        f"the table {table} holds": in_table,
    }
    known = {words: count for words, count in numbers_of_rows.items() if count is not None}
    if not end and not held:
        yield f"No record of {name} was read, and the table {table} holds rows of it: {in_table:,}."
    elif len(set(known.values())) > 1:
        yield f"The numbers of rows of {name} differ: {', '.join(f'{words} {n:,}' for words, n in known.items())}."
    elif counts is not None and (apart := _list_apart(counts, stored)):
        yield f"{name} and the table {table} count outcomes differently: {', '.join(apart)}."


def _list_apart(counts: Mapping[str, int], stored: Mapping[str, int]) -> list[str]:
    return [
        f"{name} {counts.get(name, 0):,} and {stored.get(name, 0):,}"
        for name in sorted({*counts, *stored})
        if counts.get(name, 0) != stored.get(name, 0)
    ]


def _compare_logs(run: Run, summaries: Sequence[PartSummary]) -> Iterator[str]:
    """Yield a sentence for each log whose number of rows in the table `stored` is not the one that its reader counted.

    Yields nothing if the record of the read-back (`LogsRead`) is damaged or has no counts.
    """
    try:
        read = read_record(run, LogsRead)
    except RunError:
        # `Evidence` reports the damaged record and counts no log as read.
        return
    counts = {(log.cluster, log.topic, log.partition): log.messages for log in (read.logs if read else ())}
    if all(count is None for count in counts.values()):
        return
    in_table: Counter[LogKey] = Counter()
    for cluster, topic, partition, rows in (row for summary in summaries for row in summary.stored):
        in_table[cluster, topic, partition] += rows
    for log in (*counts, *sorted(in_table.keys() - counts.keys())):
        count, rows = counts.get(log), in_table[log]
        if count is None and rows:
            yield f"No reader counted the log of {name_log(log)}, and the table stored holds rows of it: {rows:,}."
        elif count is not None and count != rows:
            yield (
                f"The numbers of rows of the log of {name_log(log)} differ: its reader counted {count:,}, "
                f"the table stored holds {rows:,}."
            )
