"""Publishes the workload, open-loop, and records every attempt.

Usage: spark-submit load.py RUN_DIR

One Spark task a producer, all at once. A message has its time before it is sent: message i of a producer is scheduled
at start + i / rate, whatever the cluster does. The load ends when the phases do, as their record says, and then waits
for the answers that are pending. Each producer leaves a record of its end, and the job one of the whole load.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from attempts import Attempts
from brokerproof import clock
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    FaultsUndone,
    LoadEnd,
    PhaseTimes,
    ProducerEnd,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.tables import AttemptOutcome, Batches
from brokerproof.systems.clients import hash_payload, make_payload
from brokerproof.systems.registry import make_clients, name_topic
from pyspark import BarrierTaskContext
from spark_session import SparkTasks, make_batch, open_run
from task_problems import close_clients, defer_error, join_problems

_TICK_S = 0.002
_FLUSH_S = 1.0
# The load gives up where no phases appear; the timeline itself gives up earlier.
_NO_PHASES_S = 300.0


@dataclass(frozen=True, kw_only=True)
class ProducerTask:
    """One producer: where it publishes, which keys are its own, and how many messages a second."""

    number: int
    cluster: str
    producer: str
    keys: tuple[str, ...]
    rate: float


def plan_producers(run: Run) -> list[ProducerTask]:
    """The producers of the workload, one task each."""
    workload = run.scenario.workload
    places = [
        (cluster, number) for cluster in workload.list_homes(run.topology) for number in range(workload.producers)
    ]
    return [
        ProducerTask(
            number=index,
            cluster=cluster,
            producer=f"{cluster}-p{number}",
            # A key belongs to one producer of one cluster, because no system promises order across two clusters.
            keys=tuple(f"k{key}" for key in range(index, workload.keys, len(places))),
            rate=workload.rate / workload.producers,
        )
        for index, (cluster, number) in enumerate(places)
    ]


class ScheduledProducer:
    """Sends the messages of one producer on schedule."""

    def __init__(self, run: Run, task: ProducerTask) -> None:
        self.run, self.task, self.workload = run, task, run.scenario.workload
        self.attempts = Attempts()
        self.scheduled = 0
        self.error: BaseException | None = None

    def send_all(self, start_at: float) -> None:
        """Send from `start_at` (of time.time) until the phases end; then wait until all is settled."""
        clients = make_clients(self.run, self.task.cluster, self.workload.region)
        try:
            producer = clients.producer(self.task.producer)
            ends_at = self._send_until_end(producer.send, start_at)
            settle_by = max(time.time(), ends_at) + self.run.scenario.settle_s
            while self.attempts.pending and time.time() < settle_by:
                time.sleep(0.05)
            self.attempts.give_up()
            close_clients(producer=producer)
        finally:
            # Whatever went wrong, the attempts that were sent must be recorded.
            self.attempts.give_up()
            close_clients(client=clients)

    def _send_until_end(self, send: Callable[..., None], start_at: float) -> float:
        name, keys, rate, size = self.task.producer, self.task.keys, self.task.rate, self.workload.size
        limit = self.workload.client.max_pending
        ends_at: float | None = None
        asked = 0.0
        while True:
            now = time.time()
            if ends_at is None and now - asked > 0.25:
                asked, ends_at = now, self._ends_at(start_at)
            horizon = now if ends_at is None else min(now, ends_at)
            due = int((horizon - start_at) * rate) + 1 if horizon >= start_at else 0
            while self.scheduled < due and self.attempts.pending < limit:
                seq = self.scheduled
                content, key = make_payload(name, seq, size), keys[seq % len(keys)]
                self.attempts.begin(
                    seq,
                    {
                        "seq": seq,
                        "key": key,
                        "payload_hash": hash_payload(content),
                        "scheduled_at": int((start_at + seq / rate) * 1e6),
                        "sent_at": clock.now_us(),
                    },
                )
                self.scheduled += 1
                send(seq, key, content, lambda settled, seq=seq: self.attempts.settle(seq, settled))
            if (
                ends_at is not None
                and now >= ends_at
                and (self.scheduled >= due or now >= ends_at + self.run.scenario.settle_s)
            ):
                return ends_at
            time.sleep(_TICK_S)

    def _ends_at(self, start_at: float) -> float | None:
        phases = read_record(self.run, PhaseTimes)
        if phases is not None:
            return phases.ends_at / 1e6
        # The timeline ended before the load was steady, or never began.
        if read_record(self.run, FaultsUndone) is not None or time.time() > start_at + _NO_PHASES_S:
            return time.time()
        return None

    def show(self, live: LiveStatus) -> None:
        """Show the counters to people who watch."""
        counts: dict[str, Any] = {outcome.value: count for outcome, count in self.attempts.counts.items()}
        live.show(producer=self.task.producer, scheduled=self.scheduled, pending=self.attempts.pending, **counts)

    def end(self, problem: str | None) -> ProducerEnd:
        """The end of the producer."""
        counts = self.attempts.counts
        return ProducerEnd(
            task=self.task.number,
            producer=self.task.producer,
            scheduled=self.scheduled,
            acked=counts[AttemptOutcome.ACKED],
            failed=counts[AttemptOutcome.FAILED],
            unknown=counts[AttemptOutcome.UNKNOWN],
            problem=problem,
            at=clock.now_us(),
        )


def publish_messages(run: Run, task: ProducerTask, barrier: BarrierTaskContext | None = None) -> Batches:
    """The task of one producer: rows of the table `publishes`, and a record of its end.

    `barrier` is where the producers wait for each other, the one of the Spark task without one.
    """
    constant = {"run_id": run.run_id, "cluster": task.cluster, "topic": name_topic(run), "producer": task.producer}
    context = barrier or BarrierTaskContext.get()
    # A task that Spark repeats is another epoch, because the messages of the first one are already sent.
    constant["epoch"] = context.attemptNumber()
    # All producers start at one moment.
    start_at = max(float(at) for at in context.allGather(str(time.time()))) + 0.5
    producer, live = ScheduledProducer(run, task), LiveStatus(run, f"load-{task.number}")

    def send() -> None:
        try:
            producer.send_all(start_at)
        except BaseException as error:
            producer.error = error

    thread = threading.Thread(target=send, name="send", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_FLUSH_S)
        producer.show(live)
        if rows := producer.attempts.take():
            yield make_batch("publishes", rows, constant)
    if rows := producer.attempts.take():
        yield make_batch("publishes", rows, constant)
    producer.show(live)
    write_record(run, producer.end(defer_error(run, task.producer, producer.error)))


def conclude_load(run: Run, tasks: list[ProducerTask]) -> LoadEnd:
    """The end of the load, from the records of its producers. A producer without a record did not finish."""
    ends = [(task, read_record(run, ProducerEnd, task.number)) for task in tasks]
    why = join_problems(
        f"{task.producer} left no record of its end" if end is None else end.problem for task, end in ends
    )
    producers = tuple(end for _, end in ends if end is not None)
    return LoadEnd(
        finished=not why,
        why=why,
        scheduled=sum(end.scheduled for end in producers),
        producers=producers,
        at=clock.now_us(),
    )


def main(arguments: Sequence[str] | None = None, start: Callable[[str], SparkTasks] = SparkTasks) -> None:
    """Publish, and end with the problems of the producers where they had any."""
    run = open_run(arguments)
    tasks = plan_producers(run)
    for task in tasks:
        # A record of an earlier attempt would count as one of this attempt.
        remove_record(run, ProducerEnd, task.number)
    spark = start("load")
    spark.run(run, "publishes", tasks, publish_messages, at_once=True)
    end = conclude_load(run, tasks)
    write_record(run, end)
    spark.stop()
    if not end.finished:
        raise SystemExit(end.why)


if __name__ == "__main__":
    main()
