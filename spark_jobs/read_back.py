"""Reads every partition's log from its earliest message to the last confirmed position, with fresh readers.

Usage: spark-submit read_back.py RUN_DIR

Of every cluster that messages had to reach, after replication between them has drained. The topic is closed first, so
that what is read comes from disks and not from a broker's cache. One Spark task a partition and cluster. Where
replication does not drain, or a log cannot be read to its end, by a deadline, that is said, and no loss can be claimed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
from brokerproof import clock
from brokerproof.errors import BrokerproofError, DeadlineError
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus, read_live_status
from brokerproof.systems.clients import Position, Reader, Received
from brokerproof.systems.protocols import Administration, Log, Observation
from brokerproof.systems.registry import administration_of, clients_for, observation_of, topic_of
from spark_session import append, batch, close, one_task_each, run_argument, schema, session

_ROWS = 5000
# No message for this long, though the log is not at its end, and the reading is given up.
_STALLED_S = 90.0


def _read_one(run: Run, index: int, log: Log) -> Iterator[pa.RecordBatch]:
    live = LiveStatus(run, f"read-back-{index}")
    constant = {
        "run_id": run.run_id,
        "cluster": log.cluster,
        "topic": topic_of(run),
        "partition": log.partition,
    }
    clients = clients_for(run, log.cluster)
    rows: list[dict[str, Any]] = []
    position: Position | None = None
    count, why = 0, ""
    try:
        reader = clients.reader(log.partition)
        progressed = time.monotonic()
        while True:
            received = reader.read(1.0)
            if received is not None:
                progressed = time.monotonic()
                position = received.position
                rows.append(_row(received))
                count += 1
                if len(rows) >= _ROWS:
                    live.show(read=count)
                    yield batch("stored", rows, constant)
                    rows = []
            elif reader.at_end() and (log.end is None or _reached(reader, log.end)):
                break
            elif time.monotonic() - progressed > _STALLED_S:
                why = f"no message for {_STALLED_S:.0f} s at {_said(position)}, before the end, {_said(log.end)}"
                break
        close(reader=reader)
    except Exception as error:
        # Raised here it would take along what other logs hold. This one was not read to its end.
        why = f"{type(error).__name__} at {_said(position)}: {error}"
    finally:
        close(client=clients)
    if rows:
        yield batch("stored", rows, constant)
    live.show(read=count, read_to_end=not why, why=why or f"read to {_said(position)}, the end of the log")


def _reached(reader: Reader, end: Position) -> bool:
    following = reader.next_position()
    return following is not None and following.reaches(end)


def _said(position: Position | None) -> str:
    """A position in words, without its index."""
    return "the beginning" if position is None else f"{position.segment}:{position.offset}"


def _row(received: Received) -> dict[str, Any]:
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


def _read(run: Run, log: Log, said: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence about one log, from what its reader said."""
    return {
        "cluster": log.cluster,
        "topic": topic_of(run),
        "partition": log.partition,
        "end": None if log.end is None else _said(log.end),
        "read_to_end": bool(said.get("read_to_end")),
        "why": said.get("why", "the reader said nothing"),
        "messages": said.get("read"),
    }


def _await_replication(run: Run, observation: Observation) -> None:
    """Wait until replication has drained, and leave the evidence of whether it did in state/replication.json."""
    drains: list[dict[str, Any]] = []

    def drained() -> bool:
        nonlocal drains
        drains = observation.replicated()
        return all(path["drained"] for path in drains)

    settle_s = run.scenario.settle_s
    try:
        clock.wait_until(drained, timeout_s=settle_s, what="replication to drain", every_s=0.5)
    except DeadlineError:
        for path in drains:
            if not path["drained"]:
                path["why"] += f"; not drained after {settle_s:.0f} s"
    run.leave_state("replication", {"drains": drains, "at": clock.now_us()})


def _closed(run: Run, observation: Observation, administration: Administration) -> list[Log]:
    """The logs to read, `why` says which cannot be. Closes the topic in every cluster."""
    logs = observation.logs()
    for cluster in run.scenario.workload.reached(run.topology):
        try:
            administration.unload(cluster)
        except BrokerproofError as error:
            logs = [replace(log, why=log.why or str(error)) if log.cluster == cluster else log for log in logs]
    return logs


def main() -> None:
    run = run_argument()
    observation = observation_of(run)
    _await_replication(run, observation)
    started_at = clock.now_us()
    evidence: dict[str, Any] = {"started_at": started_at, "logs": []}
    # Java takes some seconds to start, in which the topic is closed.
    with ThreadPoolExecutor(max_workers=1) as pool:
        closed = pool.submit(_closed, run, observation, administration_of(run))
        spark = session("read_back")
    logs = closed.result()
    tasks = [log for log in logs if log.why is None]
    for log in logs:
        if log.why is not None:
            evidence["logs"].append(_read(run, log, {"why": log.why}))
    if not tasks:
        # Nobody to read from: every log is unread, and the verdict cannot be more than unknown.
        why = "; ".join(log.why or "" for log in logs)
        run.leave_state("read_back", evidence | {"finished_at": clock.now_us(), "why": why})
        raise SystemExit(f"no log can be read back: {why}")
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(one_task_each(run, tasks, _read_one), schema("stored"))
    append(frame, run, "stored")
    for index, task in enumerate(tasks):
        evidence["logs"].append(_read(run, task, read_live_status(run, f"read-back-{index}")))
    run.leave_state("read_back", evidence | {"finished_at": clock.now_us()})
    spark.stop()
    # What was sampled so far has to be in the table before it is judged.
    run.leave_state("observe_until", {"at": clock.now_us()})
    try:
        clock.wait_until(lambda: run.state("observed"), timeout_s=30, what="the monitor to write its samples down")
    except DeadlineError as error:
        # A monitor that died leaves a gap in the samples, which is measured and judged.
        print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
