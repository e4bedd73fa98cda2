"""Reads every partition's log from its earliest message to its end: `spark-submit read_back.py RUN_DIR`.

The job reads every cluster that messages had to reach. It waits until replication has drained or a deadline has passed,
and records each drain. It closes the topic, so that messages come from disks and not from a node's cache. Then each log
gets a Spark task with new readers. The task records how far the log was read. It skips an unreadable part only if
nothing but the log itself can be the cause.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from brokerproof import clock
from brokerproof.clients.client_process import spare_collections
from brokerproof.clients.closing import close_clients
from brokerproof.clients.deliveries import list_columns
from brokerproof.errors import BrokerproofError, DeadlineError, RunError
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses
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
from brokerproof.run.tables import Batches, join_columns
from brokerproof.systems.abilities import LocatesCopies, ReadsFromDisk
from brokerproof.systems.clients import Clients, Position, Reader, Received
from brokerproof.systems.destinations import find_replication_drains, list_clusters_reached
from brokerproof.systems.protocols import Administration, Observation, TopicLog
from brokerproof.systems.registry import (
    make_administration,
    make_clients,
    make_observation,
    make_provisioning,
    name_topic,
)
from spark_session import SparkTasks, open_job_run

_ROWS = 5000
# A reader is closed if it gets no message for this many seconds before the log's end.
_STALLED_S = 45.0
_MONITOR_TIMEOUT_S = 30.0
# Reading a log ends after this many unreadable parts, because each costs two times `_STALLED_S`.
_MOST_PARTS = 3
# The fields of a message that was read, without the client's own object.
_READ = Received._fields[:-1]


@dataclass(frozen=True, kw_only=True)
class ReadTask:
    number: int
    log: TopicLog


@dataclass(kw_only=True)
class _Reading:
    """The progress of reading one log, from which the log's record (`LogRead`) is made."""

    count: int = 0
    # `at` is the last message's position. Everything before `passed` was read or is unreadable.
    at: Position | None = None
    passed: Position | None = None
    unreadable: list[UnreadablePart] = field(default_factory=list)
    # Why the log was not read to its end.
    problem: str = ""


def read_log(run: Run, task: ReadTask) -> Batches:
    """Read one log as a Spark task, yield rows of the table `stored`, and record whether it was read to its end."""
    log, live, reading = task.log, LiveStatus(run, f"read-back-{task.number}"), _Reading()
    constant = {"run_id": run.run_id, "cluster": log.cluster, "topic": name_topic(run), "partition": log.partition}
    spare_collections()
    clients = make_clients(run, log.cluster)
    rows: list[tuple[Any, ...]] = []
    try:
        for received in _receive_all(run, log, clients, reading):
            rows.append(received[:-1])
            if len(rows) >= _ROWS:
                live.show(read=reading.count)
                yield join_columns("stored", list_columns(_READ, rows), constant)
                rows = []
    except Exception as error:
        # The record holds the error, because Spark would drop the rows of other logs too if it were raised.
        reading.problem = f"{type(error).__name__} at {_describe(reading.at)}: {error}"
        # The rest of the last entry's batch may be missing, so only the entries before it were passed.
        reading.passed = reading.at
    finally:
        close_clients(client=clients)
    if rows:
        yield join_columns("stored", list_columns(_READ, rows), constant)
    live.show(read=reading.count)
    write_record(run, _conclude_log(run, task, reading))


def _receive_all(run: Run, log: TopicLog, clients: Clients, reading: _Reading) -> Iterator[Received]:
    """Yield the messages of a log, skip its unreadable parts, and note the progress in `reading`."""
    # If the system does not say where parts begin, no part is skipped, and one reader waits as long as two.
    has_parts = isinstance(make_observation(run), LocatesCopies)
    patience_s = _STALLED_S if has_parts else 2 * _STALLED_S
    reader, progressed, is_second = clients.reader(log.partition), time.monotonic(), not has_parts
    # Where the next reader begins: at the last entry that was read, because its batch may hold more messages, or after
    # an unreadable part.
    start: Position | None = None
    while True:
        received = reader.read(1.0)
        if received is not None and is_second and has_parts and not _is_new(received, reading):
            # The second reader gets the messages of the last entry again.
            continue
        if received is not None:
            progressed, is_second = time.monotonic(), not has_parts
            reading.count += 1
            reading.at, reading.passed = received.position, reader.next_position()
            start = reading.at
            yield received
            # Without this, a reader would wait for a message after the last one.
            if log.end is not None and _is_behind(reader, log.end) and reader.at_end():
                break
        elif reader.at_end() and (log.end is None or _is_behind(reader, log.end)):
            break
        elif time.monotonic() - progressed <= patience_s:
            continue
        elif not is_second:
            # The first reader itself may hang. If a second one hangs at the same position, the log may be the cause.
            close_clients(reader=reader)
            reader, progressed, is_second = clients.reader(log.partition, start), time.monotonic(), True
        else:
            at, end = _describe(reading.at), _describe(log.end)
            reading.problem = f"no message for {2 * _STALLED_S:.0f} s at {at}, before the end, {end}"
            try:
                part = find_unreadable_part(run, log, reading.passed)
            except BrokerproofError as error:
                reading.problem += f"; that the log is to blame is not proven: {error}"
                break
            reading.unreadable.append(part)
            start = reading.passed = Position(*part.end)
            gaps = [
                f"{_describe(Position(*gap.start))} to {_describe(Position(*gap.end))}" for gap in reading.unreadable
            ]
            reading.problem = f"the entries from {' and from '.join(gaps)} cannot be read"
            if log.end is None or reading.passed.reaches(log.end) or len(reading.unreadable) == _MOST_PARTS:
                break
            close_clients(reader=reader)
            reader, progressed, is_second = clients.reader(log.partition, start), time.monotonic(), False
    close_clients(reader=reader)


def _is_new(received: Received, reading: _Reading) -> bool:
    """Return whether a message comes after the last message that was read; true if one of the positions is unknown."""
    if reading.at is None or received.position is None:
        return True
    (*_, index), (*_, last) = received.position, reading.at
    return (*received.position[:2], index or 0) > (*reading.at[:2], last or 0)


def find_unreadable_part(run: Run, log: TopicLog, passed: Position | None) -> UnreadablePart:
    """Return the part of a log that cannot be read, after its reader stopped at `passed`.

    Raises BrokerproofError if a fault may still be in force or a node is not healthy, because then the log may not be
    the cause. The error is also raised if the system cannot say where parts of a log begin, or if no part follows
    `passed`.
    """
    observation = make_observation(run)
    if not isinstance(observation, LocatesCopies):
        raise RunError("the system does not say on which nodes the parts of a log are")
    undone = read_record(run, FaultsUndone)
    if undone is None or not (undone.undone and undone.undisturbed):
        raise RunError("nothing proves that every fault was undone")
    provisioning = make_provisioning(run)
    ill = [name for name in _list_running(run) if not provisioning.is_healthy(provisioning.specs()[name])]
    if ill:
        raise RunError(f"{', '.join(ill)} did not say that they are healthy")
    parts = observation.find_parts(log.cluster, log.partition)
    left = [part for part in parts if passed is None or not passed.reaches(part[1])]
    if left:
        (start, end), *others = left
        # If a segment cannot be opened, no reader can begin after its last entry, so this part ends at the next part.
        end = others[0][0] if others else end
        return UnreadablePart(start=max(start[:2], passed[:2] if passed else start[:2]), end=end[:2])
    raise RunError("no part of the log is left to read")


def _list_running(run: Run) -> list[str]:
    """Return the nodes that should run when the faults are undone.

    Raises RunError if a permanent fault freezes nodes, or interrupts or slows the traffic of a link.
    """
    kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in run.scenario.faults}
    # A fault that starts nodes stays in force without harm.
    permanent = {fault.name for fault in run.scenario.faults if fault.permanent and not kinds[fault.name].helps}
    may_hinder = (each for each in permanent if kinds[each].slows or not kinds[each].leaves_nodes)
    if lasting := sorted(name for name in may_hinder if not kinds[name].ends_nodes):
        raise RunError(f"{', '.join(lasting)} is in force for good")
    running = {name for name, node in run.topology.nodes.items() if not node.standby}
    for name, course in read_fault_courses(run).items():
        if course.effective_at is not None and name in kinds:
            if kinds[name].helps:
                running |= set(course.targets)
            elif name in permanent:
                running -= set(course.targets)
    return sorted(running)


def _is_behind(reader: Reader, end: Position) -> bool:
    following = reader.next_position()
    return following is not None and following.reaches(end)


def _describe(position: Position | None) -> str:
    """Return a position as `SEGMENT:OFFSET`, or `the beginning` for None."""
    return "the beginning" if position is None else f"{position.segment}:{position.offset}"


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
    """Return the record of a log that had no reader, or whose reader left no record."""
    return _conclude_log(run, task, _Reading(problem=why)).model_copy(update={"messages": None})


def await_replication(run: Run, observation: Observation) -> None:
    """Wait until replication has drained, at most the scenario's `settle_s` seconds. Record whether it drained."""
    drains: list[ReplicationDrain] = []

    def has_drained() -> bool:
        nonlocal drains
        drains = find_replication_drains(run.topology, observation)
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
    """Close the topic in every cluster, so that readers get messages from disks. Return the topic's logs.

    A cluster without a cache needs no closing. If a log cannot be read, or its cluster's topic could not be closed, the
    log's `why` gives the reason.
    """
    logs = observation.find_logs()
    for cluster in list_clusters_reached(run.topology, run.scenario.workload):
        try:
            if isinstance(administration, ReadsFromDisk):
                administration.unload(cluster)
        except BrokerproofError as error:
            logs = [replace(log, why=log.why or str(error)) if log.cluster == cluster else log for log in logs]
    return logs


def read_logs(run: Run, start: Callable[[str], SparkTasks] = SparkTasks) -> LogsRead:
    """Read every log that can be read, and return the result for each log."""
    observation = make_observation(run)
    await_replication(run, observation)
    started_at = clock.now_us()
    # Java takes some seconds to start. The topic is closed in that time.
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
    """Wait until the monitor has written its samples so far to the table `observations`, which judging reads next."""
    write_record(run, ObservationsRequested(at=clock.now_us()))
    try:
        clock.wait_until(
            lambda: read_record(run, ObservationsWritten),
            timeout_s=_MONITOR_TIMEOUT_S,
            what="the monitor to write its samples down",
        )
    except DeadlineError as error:
        # If the monitor died, the gap in its samples is measured and judged.
        print(error, file=sys.stderr)


def main(arguments: Sequence[str] | None = None, start: Callable[[str], SparkTasks] = SparkTasks) -> None:
    """Read every log back. Raises RunError with the reasons if no log can be read."""
    run = open_job_run(arguments)
    read = read_logs(run, start)
    write_record(run, read)
    # Judging comes next, even if no log could be read.
    await_observations(run)
    if all(log.messages is None for log in read.logs):
        raise RunError(f"no log can be read back: {'; '.join(dict.fromkeys(log.why for log in read.logs))}")


if __name__ == "__main__":
    main()
