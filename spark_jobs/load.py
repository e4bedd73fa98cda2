"""Publishes the workload, open-loop, and records every attempt.

Usage: spark-submit load.py RUN_DIR

One Spark task a producer, all at once (barrier mode fails clearly where the executors have too few slots). A message
has its time before it is sent: message i of a producer is scheduled at start + i / rate, whatever the cluster does.
The load ends at the time that state/timeline.json gives, and then waits for what is pending.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus, read_live_status
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Settled, payload, payload_hash
from brokerproof.systems.registry import clients_for, topic_of
from pyspark import BarrierTaskContext
from spark_session import append, batch, close, kept, one_task_each, run_argument, schema, session, told

_TICK_S = 0.002
_FLUSH_S = 1.0
# The load gives up where no timeline appears; the timeline itself gives up earlier.
_NO_TIMELINE_S = 300.0


def producers_of(run: Run) -> list[dict[str, Any]]:
    """One entry a task: which cluster, which producer, which keys, which rate (messages per second)."""
    workload = run.scenario.workload
    places = [(cluster, number) for cluster in workload.homes(run.topology) for number in range(workload.producers)]
    return [
        {
            "index": index,
            "cluster": cluster,
            "producer": f"{cluster}-p{number}",
            # A key belongs to one producer, of whichever cluster: order across two clusters is promised by nobody.
            "keys": [f"k{key}" for key in range(index, workload.keys, len(places))],
            "rate": workload.rate / workload.producers,
        }
        for index, (cluster, number) in enumerate(places)
    ]


class Load:
    """One producer's life: a thread that sends on schedule, and rows of settled attempts for whoever asks."""

    def __init__(self, run: Run, task: dict[str, Any]) -> None:
        self.run, self.task, self.workload = run, task, run.scenario.workload
        self.live = LiveStatus(run, f"load-{task['index']}")
        self.rows: deque[dict[str, Any]] = deque()
        self.pending: dict[int, dict[str, Any]] = {}
        self.counts = dict.fromkeys(AttemptOutcome, 0)
        self.scheduled = 0
        self.error: BaseException | None = None
        self._lock = threading.Lock()

    def send_all(self, start_at: float) -> None:
        """Send from `start_at` (of time.time) until the timeline ends; then wait until all is settled."""
        clients = clients_for(self.run, self.task["cluster"], self.workload.region)
        try:
            producer = clients.producer(self.task["producer"])
            ends_at = self._send_until_end(producer.send, start_at)
            settle_by = max(time.time(), ends_at) + self.run.scenario.settle_s
            while self.pending and time.time() < settle_by:
                time.sleep(0.05)
            self._give_up_pending()
            close(producer=producer)
        finally:
            # What was sent was sent, whatever went wrong after it.
            self._give_up_pending()
            close(client=clients)

    def _send_until_end(self, send: Callable[..., None], start_at: float) -> float:
        name, keys, rate, size = self.task["producer"], self.task["keys"], self.task["rate"], self.workload.size
        limit = self.workload.client.max_pending
        ends_at: float | None = None
        asked = 0.0
        while True:
            now = time.time()
            if ends_at is None and now - asked > 0.25:
                asked, ends_at = now, self._ends_at(start_at)
            horizon = now if ends_at is None else min(now, ends_at)
            due = int((horizon - start_at) * rate) + 1 if horizon >= start_at else 0
            while self.scheduled < due and len(self.pending) < limit:
                seq = self.scheduled
                content = payload(name, seq, size)
                row = {
                    "seq": seq,
                    "key": keys[seq % len(keys)],
                    "payload_hash": payload_hash(content),
                    "scheduled_at": int((start_at + seq / rate) * 1e6),
                    "sent_at": clock.now_us(),
                }
                self.pending[seq] = row
                self.scheduled += 1
                send(seq, row["key"], content, lambda settled, seq=seq: self._settle(seq, settled))
            if (
                ends_at is not None
                and now >= ends_at
                and (self.scheduled >= due or now >= ends_at + self.run.scenario.settle_s)
            ):
                return ends_at
            time.sleep(_TICK_S)

    def _ends_at(self, start_at: float) -> float | None:
        timeline = self.run.state("timeline")
        if timeline is not None:
            return float(timeline["ends_at"]) / 1e6
        # break_it ended without a timeline, or never began.
        if self.run.state("break_it") is not None or time.time() > start_at + _NO_TIMELINE_S:
            return time.time()
        return None

    def _settle(self, seq: int, settled: Settled) -> None:
        # Called on the client's thread; the attempt may have been given up meanwhile.
        at = clock.now_us()
        with self._lock:
            row = self.pending.pop(seq, None)
            if row is not None:
                self._keep(row, settled, at)

    def _give_up_pending(self) -> None:
        with self._lock:
            for seq in list(self.pending):
                self._keep(self.pending.pop(seq), Settled(AttemptOutcome.UNKNOWN, error="not settled in time"), None)

    def _keep(self, row: dict[str, Any], settled: Settled, at: int | None) -> None:
        segment, offset, index = settled.position or (None, None, None)
        row |= {
            "settled_at": at,
            "outcome": settled.outcome.value,
            "error": settled.error,
            "partition": settled.partition,
            "ledger_id": segment,
            "entry_id": offset,
            "batch_index": index,
        }
        self.counts[settled.outcome] += 1
        self.rows.append(row)

    def take(self) -> list[dict[str, Any]]:
        """The rows settled since the last call."""
        return [self.rows.popleft() for _ in range(len(self.rows))]

    def report(self, *, finished: bool = False, problem: str | None = None) -> None:
        """Rewrite the progress counters."""
        self.live.show(
            producer=self.task["producer"],
            scheduled=self.scheduled,
            pending=len(self.pending),
            finished=finished,
            problem=problem,
            **{outcome.value: count for outcome, count in self.counts.items()},
        )


def _publish_one(run: Run, number: int, task: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    constant = {
        "run_id": run.run_id,
        "cluster": task["cluster"],
        "topic": topic_of(run),
        "producer": task["producer"],
    }
    context = BarrierTaskContext.get()
    # An attempt that Spark repeats is another epoch: what the first one sent is sent.
    constant["epoch"] = context.attemptNumber()
    # All producers start at one moment.
    start_at = max(float(at) for at in context.allGather(str(time.time()))) + 0.5
    load = Load(run, task)

    def work() -> None:
        try:
            load.send_all(start_at)
        except BaseException as error:
            load.error = error

    thread = threading.Thread(target=work, name="send", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_FLUSH_S)
        load.report()
        if rows := load.take():
            yield batch("publishes", rows, constant)
    if rows := load.take():
        yield batch("publishes", rows, constant)
    problem = kept(run, task["producer"], load.error)
    load.report(finished=problem is None, problem=problem)


def main() -> None:
    run = run_argument()
    tasks = producers_of(run)
    spark = session("load")
    # Too few slots are an error at once, not after Spark's own patience.
    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        one_task_each(run, tasks, _publish_one), schema("publishes"), barrier=True
    )
    append(frame, run, "publishes")
    parts = [read_live_status(run, f"load-{task['index']}") for task in tasks]
    run.leave_state(
        "load",
        {
            "finished": all(part.get("finished") for part in parts),
            "why": (problem := told(part.get("problem") for part in parts)),
            "scheduled": sum(part.get("scheduled", 0) for part in parts),
            "producers": parts,
            "at": clock.now_us(),
        },
    )
    spark.stop()
    if problem:
        raise SystemExit(problem)


if __name__ == "__main__":
    main()
