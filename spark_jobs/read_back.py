"""Reads every partition's log from its earliest message to its end, with fresh readers.

Usage: spark-submit read_back.py RUN_DIR

Of every cluster that messages had to reach, after replication between them has drained. The topic is closed first, so
that what is read comes from disks and not from a broker's cache. One Spark task a partition and cluster, each of which
leaves a record of what it read. If replication does not drain, or a log is not read to its end, by a deadline, the
record says so. A part of a log that cannot be read is passed over if nothing but the log explains that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from brokerproof import clock
from brokerproof.clients.closing import close_clients
from brokerproof.errors import BrokerproofError, DeadlineError, RunError
from brokerproof.experiment.abilities import Ability
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    FaultsUndone,
    LogRead,
    LogsRead,
    ObservationsRequested,
    ObservationsWritten,
    ReplicationDrain,
    ReplicationDrains,
    UnreadablePart,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.seals import seal_tables
from brokerproof.run.table_rows import iterate_rows
from brokerproof.run.tables import Batches, FaultState, make_batch
from brokerproof.systems.clients import Clients, Position, Reader, Received
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.protocols import Administration, Observation, TopicLog
from brokerproof.systems.registry import (
    list_abilities,
    make_administration,
    make_clients,
    make_observation,
    make_provisioning,
    name_topic,
)
from spark_session import SparkTasks, open_run

_ROWS = 5000
# A reader is given up if no message came for so long, though the log is not at its end.
_STALLED_S = 45.0
_MONITOR_TIMEOUT_S = 30.0
# Unreadable parts of a log after which the reading ends. Each takes the patience of two readers.
_MOST_PARTS = 3


@dataclass(frozen=True, kw_only=True)
class ReadTask:
    """One log to read."""

    number: int
    log: TopicLog


@dataclass(kw_only=True)
class _Reading:
    """How far the reading of a log is, which is what its record says in the end."""

    count: int = 0
    # Of the last message.
    at: Position | None = None
    passed: Position | None = None
    unreadable: list[UnreadablePart] = field(default_factory=list)
    # Why the log was not read to its end.
    problem: str = ""


def read_log(run: Run, task: ReadTask) -> Batches:
    """The task of one log: rows of the table `stored`, and a record of whether it was read to its end."""
    log, live, reading = task.log, LiveStatus(run, f"read-back-{task.number}"), _Reading()
    constant = {"run_id": run.run_id, "cluster": log.cluster, "topic": name_topic(run), "partition": log.partition}
    clients = make_clients(run, log.cluster)
    rows: list[dict[str, Any]] = []
    try:
        for received in _receive_all(run, log, clients, reading):
            rows.append(_make_row(received))
            if len(rows) >= _ROWS:
                live.show(read=reading.count)
                yield make_batch("stored", rows, constant)
                rows = []
    except Exception as error:
        # An error here would lose the rows of other logs too. This log was not read to its end.
        reading.problem = f"{type(error).__name__} at {_describe(reading.at)}: {error}"
    finally:
        close_clients(client=clients)
    if rows:
        yield make_batch("stored", rows, constant)
    live.show(read=reading.count)
    write_record(run, _conclude_log(run, task, reading))


def _receive_all(run: Run, log: TopicLog, clients: Clients, reading: _Reading) -> Iterator[Received]:
    """The messages of a log, and of what is behind the parts that cannot be read."""
    # Without the places of parts nothing is called unreadable, and one reader waits as long as two.
    has_parts = Ability.COPIES in list_abilities(run)
    patience_s = _STALLED_S if has_parts else 2 * _STALLED_S
    reader, progressed, is_second = clients.reader(log.partition), time.monotonic(), not has_parts
    while True:
        received = reader.read(1.0)
        if received is not None and is_second and has_parts and not _is_new(received, reading):
            # A reader that begins behind an entry gets the messages of its batch again.
            continue
        if received is not None:
            progressed, is_second = time.monotonic(), not has_parts
            reading.count += 1
            reading.at, reading.passed = received.position, reader.next_position()
            yield received
        elif reader.at_end() and (log.end is None or _is_behind(reader, log.end)):
            break
        elif time.monotonic() - progressed <= patience_s:
            continue
        elif not is_second:
            # Perhaps it is the reader that hangs, so another one has to hang at the same place.
            close_clients(reader=reader)
            reader, progressed, is_second = clients.reader(log.partition, reading.passed), time.monotonic(), True
        else:
            at, end = _describe(reading.at), _describe(log.end)
            reading.problem = f"no message for {2 * _STALLED_S:.0f} s at {at}, before the end, {end}"
            try:
                part = find_unreadable_part(run, log, reading.passed)
            except BrokerproofError as error:
                reading.problem += f"; that the log is to blame is not proven: {error}"
                break
            reading.unreadable.append(part)
            reading.passed = Position(*part.end)
            gaps = [
                f"{_describe(Position(*gap.start))} to {_describe(Position(*gap.end))}" for gap in reading.unreadable
            ]
            reading.problem = f"the entries from {' and from '.join(gaps)} cannot be read"
            if log.end is None or reading.passed.reaches(log.end) or len(reading.unreadable) == _MOST_PARTS:
                break
            close_clients(reader=reader)
            reader, progressed, is_second = clients.reader(log.partition, reading.passed), time.monotonic(), False
    close_clients(reader=reader)


def _is_new(received: Received, reading: _Reading) -> bool:
    """Whether a message lies behind the last one that was read."""
    if reading.at is None or received.position is None:
        return True
    (*_, index), (*_, last) = received.position, reading.at
    return (*received.position[:2], index or 0) > (*reading.at[:2], last or 0)


def find_unreadable_part(run: Run, log: TopicLog, passed: Position | None) -> UnreadablePart:
    """The part of a log that a reader cannot read, which got to `passed`, and behind which it may go on.

    Raises BrokerproofError with the reason if something else than the log may be why: a fault that is in force, a node
    that is not healthy, or a system that does not say where parts of a log begin.
    """
    if Ability.COPIES not in list_abilities(run):
        raise RunError("the system does not say on which nodes the parts of a log are")
    undone = read_record(run, FaultsUndone)
    if undone is None or not (undone.undone and undone.undisturbed):
        raise RunError("nothing proves that every fault was undone")
    provisioning = make_provisioning(run)
    ill = [name for name in _list_running(run) if not provisioning.is_healthy(provisioning.specs()[name])]
    if ill:
        raise RunError(f"{', '.join(ill)} did not say that they are healthy")
    parts = make_observation(run).find_parts(log.cluster, log.partition)
    left = [part for part in parts if passed is None or not passed.reaches(part[1])]
    if left:
        (start, end), *others = left
        # A reader cannot begin behind the last entry of a segment that cannot be opened, so the next part is the end.
        end = others[0][0] if others else end
        return UnreadablePart(start=max(start[:2], passed[:2] if passed else start[:2]), end=end[:2])
    raise RunError("no part of the log is left to read")


def _list_running(run: Run) -> list[str]:
    """The nodes that should run once the faults are undone. Raises RunError if a fault that is no node's end stays."""
    kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in run.scenario.faults}
    permanent = {fault.name for fault in run.scenario.faults if fault.permanent}
    if lasting := sorted(name for name in permanent if not kinds[name].ends_nodes and kinds[name].keeps_down):
        raise RunError(f"{', '.join(lasting)} is in force for good")
    running = {name for name, node in run.topology.nodes.items() if not node.standby}
    for row in iterate_rows(run, "faults"):
        if row["state"] == FaultState.EFFECTIVE and row["fault"] in kinds:
            if kinds[row["fault"]].helps:
                running |= set(row["targets"] or ())
            elif row["fault"] in permanent:
                running -= set(row["targets"] or ())
    return sorted(running)


def _is_behind(reader: Reader, end: Position) -> bool:
    following = reader.next_position()
    return following is not None and following.reaches(end)


def _describe(position: Position | None) -> str:
    """A position in words, without its index."""
    return "the beginning" if position is None else f"{position.segment}:{position.offset}"


def _make_row(received: Received) -> dict[str, Any]:
    segment, offset, index = received.position or (None, None, None)
    return {
        "producer": received.producer,
        "seq": received.seq,
        "key": received.key,
        "payload_hash": received.payload_hash,
        "ledger_id": segment,
        "entry_id": offset,
        "batch_index": index,
        "published_at": received.published_at,
        "replicated_from": received.replicated_from,
    }


def _conclude_log(run: Run, task: ReadTask, reading: _Reading) -> LogRead:
    return LogRead(
        task=task.number,
        cluster=task.log.cluster,
        topic=name_topic(run),
        partition=task.log.partition,
        end=None if task.log.end is None else _describe(task.log.end),
        read_to_end=not reading.problem,
        why=reading.problem or f"read to {_describe(reading.at)}, the end of the log",
        messages=reading.count,
        passed=None if reading.passed is None else reading.passed[:2],
        unreadable=tuple(reading.unreadable),
    )


def _conclude_unread(run: Run, task: ReadTask, why: str) -> LogRead:
    """The record of a log without a reader."""
    return _conclude_log(run, task, _Reading(problem=why)).model_copy(update={"messages": None})


def await_replication(run: Run, observation: Observation) -> None:
    """Wait until replication has drained, and leave a record of whether it did."""
    drains: list[ReplicationDrain] = []

    def has_drained() -> bool:
        nonlocal drains
        drains = observation.find_replication_drains()
        return all(drain.drained for drain in drains)

    settle_s = run.scenario.settle_s
    try:
        clock.wait_until(has_drained, timeout_s=settle_s, what="replication to drain", every_s=0.5)
    except DeadlineError:
        late = f"; not drained after {settle_s:.0f} s"
        drains = [
            drain if drain.drained else drain.model_copy(update={"why": f"{drain.why}{late}"}) for drain in drains
        ]
    write_record(run, ReplicationDrains(drains=tuple(drains), at=clock.now_us()))


def close_topic(run: Run, observation: Observation, administration: Administration) -> list[TopicLog]:
    """Close the topic in every cluster, and return the logs to read; `why` of a log says why it cannot be read."""
    logs = observation.find_logs()
    for cluster in list_clusters_reached(run.topology, run.scenario.workload):
        try:
            administration.unload(cluster)
        except BrokerproofError as error:
            logs = [replace(log, why=log.why or str(error)) if log.cluster == cluster else log for log in logs]
    return logs


def read_logs(run: Run, start: Callable[[str], SparkTasks] = SparkTasks) -> LogsRead:
    """Read every log that can be read, and return the result for each log."""
    observation = make_observation(run)
    await_replication(run, observation)
    started_at = clock.now_us()
    # Java takes some seconds to start, in which the topic is closed.
    with ThreadPoolExecutor(max_workers=1) as pool:
        closing = pool.submit(close_topic, run, observation, make_administration(run))
        spark = start("read_back")
    tasks = [ReadTask(number=number, log=log) for number, log in enumerate(closing.result())]
    for task in tasks:
        # A record of an earlier attempt would count as one of this attempt.
        remove_record(run, LogRead, task.number)
    if readable := [task for task in tasks if task.log.why is None]:
        spark.run(run, "stored", readable, read_log)
    seal_tables(run, "stored")
    finished_at = clock.now_us()
    spark.stop()
    return LogsRead(
        started_at=started_at,
        finished_at=finished_at,
        logs=tuple(
            read_record(run, LogRead, task.number)
            or _conclude_unread(run, task, task.log.why or "its reader left no record")
            for task in tasks
        ),
    )


def await_observations(run: Run) -> None:
    """Wait until the samples taken so far are in their table, because judging reads it next."""
    write_record(run, ObservationsRequested(at=clock.now_us()))
    try:
        clock.wait_until(
            lambda: read_record(run, ObservationsWritten),
            timeout_s=_MONITOR_TIMEOUT_S,
            what="the monitor to write its samples down",
        )
    except DeadlineError as error:
        # A monitor that died leaves a gap in the samples, which is measured and judged.
        print(error, file=sys.stderr)


def main(arguments: Sequence[str] | None = None, start: Callable[[str], SparkTasks] = SparkTasks) -> None:
    """Read back; where not one log can be read, end with the reasons."""
    run = open_run(arguments)
    read = read_logs(run, start)
    write_record(run, read)
    # Also where nothing could be read: judging comes next in any case.
    await_observations(run)
    if all(log.messages is None for log in read.logs):
        raise RunError(f"no log can be read back: {'; '.join(dict.fromkeys(log.why for log in read.logs))}")


if __name__ == "__main__":
    main()
