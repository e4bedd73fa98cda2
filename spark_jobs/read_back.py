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
from typing import Any

import pyarrow as pa
from brokerproof import clock
from brokerproof.errors import BrokerproofError, DeadlineError
from brokerproof.run.directory import Run
from brokerproof.run.live_status import Announcer, read
from brokerproof.systems.clients import Received
from brokerproof.systems.protocols import Driver
from brokerproof.systems.registry import clients_for, driver_for
from spark_session import append, batch, close, one_task_each, run_argument, schema, session

_ROWS = 5000
# No message for this long, though the log is not at its end, and the reading is given up.
_STALLED_S = 90.0


def _read_one(run: Run, index: int, task: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    announce = Announcer(run, f"read-back-{index}")
    last_confirmed = task["last_confirmed"]
    constant = {
        "run_id": run.run_id,
        "cluster": task["cluster"],
        "topic": run.scenario.topic,
        "partition": task["partition"],
    }
    clients = clients_for(run, task["cluster"])
    rows: list[dict[str, Any]] = []
    position: tuple[int, int] | None = None
    count, why = 0, ""
    try:
        reader = clients.reader(task["partition"])
        progressed = time.monotonic()
        while True:
            received = reader.read(1.0)
            if received is not None:
                progressed = time.monotonic()
                position = (received.position.ledger_id, received.position.entry_id)
                rows.append(_row(received))
                count += 1
                if len(rows) >= _ROWS:
                    announce(read=count)
                    yield batch("stored", rows, constant)
                    rows = []
            elif reader.at_end() and (
                last_confirmed is None or (position is not None and position >= tuple(last_confirmed))
            ):
                break
            elif time.monotonic() - progressed > _STALLED_S:
                why = f"no message for {_STALLED_S:.0f} s at {position}, before the last confirmed, {last_confirmed}"
                break
        close(reader=reader)
    except Exception as error:
        # Raised here it would take along what other logs hold. This one was not read to its end.
        why = f"{type(error).__name__} at {position}: {error}"
    finally:
        close(client=clients)
    if rows:
        yield batch("stored", rows, constant)
    announce(read=count, read_to_end=not why, why=why or f"read to {position}, the end of the log", position=position)


def _row(received: Received) -> dict[str, Any]:
    return {
        "producer": received.producer,
        "seq": received.seq,
        "key": received.key,
        "payload_hash": received.payload_hash,
        "ledger_id": received.position.ledger_id,
        "entry_id": received.position.entry_id,
        "batch_index": received.position.batch_index,
        "published_at": received.published_at,
        "replicated_from": received.replicated_from,
    }


def _read(run: Run, log: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence about one log, from what its reader said."""
    last_confirmed = log["last_confirmed"]
    return {
        "cluster": log["cluster"],
        "topic": run.scenario.topic,
        "partition": log["partition"],
        "last_confirmed": None if last_confirmed is None else ":".join(map(str, last_confirmed)),
        "read_to_end": bool(said.get("read_to_end")),
        "why": said.get("why", "the reader said nothing"),
        "messages": said.get("read"),
    }


def _await_replication(run: Run, driver: Driver) -> None:
    """Wait until replication has drained, and leave the evidence of whether it did in state/replication.json."""
    drains: list[dict[str, Any]] = []

    def drained() -> bool:
        nonlocal drains
        drains = driver.replicated()
        return all(path["drained"] for path in drains)

    settle_s = run.scenario.settle_s
    try:
        clock.wait_until(drained, timeout_s=settle_s, what="replication to drain", every_s=0.5)
    except DeadlineError:
        for path in drains:
            if not path["drained"]:
                path["why"] += f"; not drained after {settle_s:.0f} s"
    run.leave_state("replication", {"drains": drains, "at": clock.now_us()})


def _closed(run: Run, driver: Driver) -> list[dict[str, Any]]:
    """The logs to read, `why` says which cannot be. Closes the topic in every cluster."""
    logs = driver.logs()
    for cluster in run.scenario.workload.reached(run.topology):
        try:
            driver.unload(cluster)
        except BrokerproofError as error:
            for log in logs:
                if log["cluster"] == cluster:
                    log["why"] = log["why"] or str(error)
    return logs


def main() -> None:
    run = run_argument()
    driver = driver_for(run)
    _await_replication(run, driver)
    started_at = clock.now_us()
    evidence: dict[str, Any] = {"started_at": started_at, "logs": []}
    # Java takes some seconds to start, in which the topic is closed.
    with ThreadPoolExecutor(max_workers=1) as pool:
        closed = pool.submit(_closed, run, driver)
        spark = session("read_back")
    logs = closed.result()
    tasks = [log for log in logs if log["why"] is None]
    for log in logs:
        if log["why"] is not None:
            evidence["logs"].append(_read(run, log, {"why": log["why"]}))
    if not tasks:
        # Nobody to read from: every log is unread, and the verdict cannot be more than unknown.
        why = "; ".join(log["why"] for log in logs)
        run.leave_state("read_back", evidence | {"finished_at": clock.now_us(), "why": why})
        raise SystemExit(f"no log can be read back: {why}")
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(one_task_each(run, tasks, _read_one), schema("stored"))
    append(frame, run, "stored")
    for index, task in enumerate(tasks):
        evidence["logs"].append(_read(run, task, read(run, f"read-back-{index}")))
    run.leave_state("read_back", evidence | {"finished_at": clock.now_us()})
    spark.stop()
    # What was sampled so far has to be in the table before it is judged.
    run.leave_state("observe_until", {"at": clock.now_us()})
    try:
        clock.wait_until(lambda: run.state("observed"), timeout_s=30, what="the keeper to write its samples down")
    except DeadlineError as error:
        # A keeper that died leaves a gap in the samples, which is measured and judged.
        print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
