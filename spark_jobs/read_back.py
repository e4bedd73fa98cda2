"""Reads every partition's log from its earliest message to its end, with fresh readers.

Usage: spark-submit read_back.py RUN_DIR

Of every cluster that messages had to reach, after replication between them has drained. The topic is closed first, so
that what is read comes from disks and not from a broker's cache. One Spark task a partition and cluster, each of which
leaves a record of what it read. Where replication does not drain, or a log is not read to its end, by a deadline, the
record says so, and no loss can be claimed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from brokerproof import clock
from brokerproof.clients.closing import close_clients
from brokerproof.errors import BrokerproofError, DeadlineError, RunError
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    LogRead,
    LogsRead,
    ObservationsRequested,
    ObservationsWritten,
    ReplicationDrain,
    ReplicationDrains,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import Batches, make_batch
from brokerproof.systems.clients import Position, Reader, Received
from brokerproof.systems.destinations import list_clusters_reached
from brokerproof.systems.protocols import Administration, Observation, TopicLog
from brokerproof.systems.registry import make_administration, make_clients, make_observation, name_topic
from spark_session import SparkTasks, open_run

_ROWS = 5000
# The reading is given up where no message came for so long, though the log is not at its end.
_STALLED_S = 90.0
_MONITOR_TIMEOUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ReadTask:
    """One log to read."""

    number: int
    log: TopicLog


def read_log(run: Run, task: ReadTask) -> Batches:
    """The task of one log: rows of the table `stored`, and a record of whether it was read to its end."""
    log, live = task.log, LiveStatus(run, f"read-back-{task.number}")
    constant = {"run_id": run.run_id, "cluster": log.cluster, "topic": name_topic(run), "partition": log.partition}
    clients = make_clients(run, log.cluster)
    rows: list[dict[str, Any]] = []
    position: Position | None = None
    passed: Position | None = None
    count, problem = 0, ""
    try:
        reader = clients.reader(log.partition)
        progressed = time.monotonic()
        while True:
            received = reader.read(1.0)
            if received is not None:
                progressed = time.monotonic()
                position, passed = received.position, reader.next_position()
                rows.append(_make_row(received))
                count += 1
                if len(rows) >= _ROWS:
                    live.show(read=count)
                    yield make_batch("stored", rows, constant)
                    rows = []
            elif reader.at_end() and (log.end is None or _is_behind(reader, log.end)):
                break
            elif time.monotonic() - progressed > _STALLED_S:
                at, end = _describe(position), _describe(log.end)
                problem = f"no message for {_STALLED_S:.0f} s at {at}, before the end, {end}"
                break
        close_clients(reader=reader)
    except Exception as error:
        # An error here would lose the rows of other logs too. This log was not read to its end.
        problem = f"{type(error).__name__} at {_describe(position)}: {error}"
    finally:
        close_clients(client=clients)
    if rows:
        yield make_batch("stored", rows, constant)
    live.show(read=count)
    why = problem or f"read to {_describe(position)}, the end of the log"
    write_record(run, _conclude_log(run, task, read_to_end=not problem, why=why, messages=count, passed=passed))


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


def _conclude_log(
    run: Run,
    task: ReadTask,
    *,
    read_to_end: bool,
    why: str,
    messages: int | None = None,
    passed: Position | None = None,
) -> LogRead:
    return LogRead(
        task=task.number,
        cluster=task.log.cluster,
        topic=name_topic(run),
        partition=task.log.partition,
        end=None if task.log.end is None else _describe(task.log.end),
        read_to_end=read_to_end,
        why=why,
        messages=messages,
        passed=None if passed is None else passed[:2],
    )


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
            or _conclude_log(run, task, read_to_end=False, why=task.log.why or "its reader left no record")
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
