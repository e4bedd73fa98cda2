"""Reads every partition's log from its earliest message to its end: `spark-submit read_back.py RUN_DIR`.

The job reads every cluster that messages had to reach. It waits until replication has drained or a deadline has passed,
and records each drain. It closes the topic, so that messages come from disks and not from a node's cache. Then each log
gets a Spark task with new readers. The task records how far the log was read. It skips an unreadable part only if
nothing but the log itself can be the cause.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import pyarrow as pa
from brokerproof import clock
from brokerproof.clients.client_process import spare_collections
from brokerproof.clients.closing import close_clients
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
from brokerproof.systems.clients import Clients, Position, Reader
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

# The columns of this many messages are made at once. Until then, they keep their payloads in memory.
_MOST_MESSAGES = 1000
# A reader waits for the next message for this many seconds before it asks whether the log ends here.
_WAIT_S = 0.1
# A reader is closed if it gets no message for this many seconds before the log's end.
_STALLED_S = 45.0
_SHOW_EVERY_S = 1.0
_MONITOR_TIMEOUT_S = 30.0
# Reading a log ends after this many unreadable parts, because each costs two times `_STALLED_S`.
_MOST_PARTS = 3


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
    live, reading = LiveStatus(run, f"read-back-{task.number}"), _Reading()
    spare_collections()
    clients = make_clients(run, task.log.cluster)
    try:
        shown_at = 0.0
        for rows in _read_all(run, task.log, clients, reading):
            if time.monotonic() - shown_at >= _SHOW_EVERY_S:
                shown_at = time.monotonic()
                live.show(read=reading.count)
            yield rows
    except Exception as error:
        # The record holds the error, because Spark would drop the rows of other logs too if it were raised.
        reading.problem = f"{type(error).__name__} at {_describe(reading.at)}: {error}"
        # The rest of the last entry's batch may be missing, so only the entries before it were passed.
        reading.passed = reading.at
    finally:
        close_clients(client=clients)
    live.show(read=reading.count)
    write_record(run, _conclude_log(run, task, reading))


def _read_all(run: Run, log: TopicLog, clients: Clients, reading: _Reading) -> Batches:
    """Yield rows of the messages of a log, skip its unreadable parts, and note the progress in `reading`."""
    constant = {"run_id": run.run_id, "cluster": log.cluster, "topic": name_topic(run), "partition": log.partition}
    # If the system does not say where parts begin, no part is skipped, and one reader waits as long as two.
    has_parts = isinstance(make_observation(run), LocatesCopies)
    patience_s = _STALLED_S if has_parts else 2 * _STALLED_S
    reader, progressed, is_second = clients.reader(log.partition), time.monotonic(), not has_parts
    # Where the next reader begins: at the last entry that was read, because its batch may hold more messages, or after
    # an unreadable part.
    start: Position | None = None
    while True:
        messages, error = _read_some(reader)
        rows = join_columns("stored", clients.describe(messages), constant) if messages else None
        if rows is not None and is_second and has_parts:
            rows = _drop_known(rows, reading.at)
        if rows is not None and rows.num_rows:
            progressed, is_second = time.monotonic(), not has_parts
            reading.count += rows.num_rows
            reading.at = start = _find_last_position(rows)
            reading.passed = reader.next_position()
            yield rows
        if error is not None:
            raise error
        if len(messages) == _MOST_MESSAGES:
            continue
        if reader.at_end() and (log.end is None or _is_behind(reader, log.end)):
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


def _read_some(reader: Reader) -> tuple[list[Any], Exception | None]:
    """Return the next messages, at most `_MOST_MESSAGES`, and the error that ended them, if any.

    If there are fewer messages and no error, no message came for `_WAIT_S` seconds.
    """
    messages: list[Any] = []
    try:
        while len(messages) < _MOST_MESSAGES and (message := reader.read(_WAIT_S)) is not None:
            messages.append(message)
    except Exception as error:
        return messages, error
    return messages, None


def _drop_known(rows: pa.RecordBatch, at: Position | None) -> pa.RecordBatch:
    """Return the rows after the position `at`, because a second reader gets the messages of the last entry again.

    A row without a position is kept.
    """
    places = zip(*(rows.column(name).to_pylist() for name in ("segment", "offset", "batch_index")), strict=True)
    last = (-1, -1, -1) if at is None else (*at[:2], at.index or 0)
    is_new = [segment is None or (segment, offset, index or 0) > last for segment, offset, index in places]
    return rows.filter(pa.array(is_new, pa.bool_()))


def _find_last_position(rows: pa.RecordBatch) -> Position | None:
    """Return the position of the last row; None if the system gave none."""
    segment, offset, index = (rows.column(name)[-1].as_py() for name in ("segment", "offset", "batch_index"))
    return None if segment is None else Position(segment, offset, index)


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
    if not run.scenario.workload.is_stored:
        return conclude_without_logs(run)
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


def conclude_without_logs(run: Run) -> LogsRead:
    """Return the result for a topic that stores no messages, after sealing an empty table."""
    write_record(run, ReplicationDrains(drains=(), at=clock.now_us()))
    seal_tables(run, "stored")
    at = clock.now_us()
    logs = (
        LogRead(
            task=number,
            cluster=cluster,
            topic=name_topic(run),
            partition=partition,
            end=None,
            read_to_end=True,
            why="the topic stores no messages",
            messages=0,
        )
        for number, (cluster, partition) in enumerate(
            product(list_clusters_reached(run.topology, run.scenario.workload), run.scenario.workload.list_partitions())
        )
    )
    return LogsRead(started_at=at, finished_at=at, logs=tuple(logs))


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
