"""Reads every partition's log from its earliest message to the last confirmed position, with fresh readers.

Usage: spark-submit read_back.py RUN_DIR

The topic is closed first, so that what is read comes from disks and not from a broker's cache. One Spark task a
partition. Where a log cannot be read to its end by a deadline, that is said, and no loss can be claimed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
from brokerproof import clock
from brokerproof.announcements import Announcer, read
from brokerproof.drivers.base import Driver, driver_for
from brokerproof.drivers.clients import Received, clients_for
from brokerproof.errors import BrokerproofError, DeadlineError
from brokerproof.run import Run
from spark_session import append, batch, one_task_each, run_argument, schema, session

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
        reader.close()
    finally:
        clients.close()
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


def _closed(driver: Driver) -> list[dict[str, Any]]:
    """The logs to read, with their topic closed."""
    logs = driver.logs()
    driver.unload()
    return logs


def main() -> None:
    run = run_argument()
    started_at = clock.now_us()
    evidence: dict[str, Any] = {"started_at": started_at, "logs": []}
    # Java takes some seconds to start, in which the topic is closed.
    with ThreadPoolExecutor(max_workers=1) as pool:
        closed = pool.submit(_closed, driver_for(run))
        spark = session("read_back")
    try:
        tasks = closed.result()
    except BrokerproofError as error:
        # Nobody to read from: every log is unread, and the verdict cannot be more than unknown.
        run.leave_state("read_back", evidence | {"finished_at": clock.now_us(), "why": str(error)})
        raise SystemExit(f"the log cannot be read back: {error}") from None
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(one_task_each(run, tasks, _read_one), schema("stored"))
    append(frame, run, "stored")
    for index, task in enumerate(tasks):
        said = read(run, f"read-back-{index}")
        evidence["logs"].append(
            {
                "cluster": task["cluster"],
                "topic": run.scenario.topic,
                "partition": task["partition"],
                "last_confirmed": None
                if task["last_confirmed"] is None
                else ":".join(map(str, task["last_confirmed"])),
                "read_to_end": bool(said.get("read_to_end")),
                "why": said.get("why", "the reader said nothing"),
                "messages": said.get("read"),
            }
        )
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
