"""Consumes every subscription of the workload and records every delivery: `spark-submit consume.py RUN_DIR`.

Each consumer has a Spark task, and all tasks run at once. A task starts a client process (brokerproof.clients), and
turns the process's growing record into rows of the table `deliveries`. It also records the consumer's end.

The job waits until the load has finished, the faults are undone, and replication has drained. Then it waits until every
subscription has drained, and records each drain. At a deadline the job ends anyway, and some drains are not proven.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokerproof import clock
from brokerproof.clients.client_life import ClientLife
from brokerproof.clients.consuming import ConsumerTask, complete_deliveries, plan_consumers
from brokerproof.clients.record import leave_read, remove_records
from brokerproof.clients.sink import Sink, remove_sinks
from brokerproof.experiment.workload import ClientRole
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientRecordRead,
    ClustersConfigured,
    ConsumerEnd,
    ConsumersStop,
    EarlyEnd,
    FaultsUndone,
    LoadEnd,
    Record,
    StepProblem,
    SubscriptionDrain,
    SubscriptionDrains,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import Batches
from brokerproof.systems.destinations import find_replication_drains
from brokerproof.systems.registry import make_observation, name_topic
from pyspark import BarrierTaskContext
from spark_session import SparkTasks, end_job, join_problems, leave_end, open_job_run
from streaming_checkpoint import find_streaming_drains, remove_checkpoints

# The seconds that the deadline allows for the load's start and warm-up, beyond the phases and the settling.
_SLACK_S = 360.0
# A consumer that still runs this many seconds after `ConsumersStop` hangs, and is killed.
_OVERDUE_S = 60.0
# After an early end, the job waits this many seconds for the watching thread, because a cluster may not answer it.
_EARLY_JOIN_S = 1.0


def consume_messages(run: Run, task: ConsumerTask, barrier: BarrierTaskContext | None = None) -> Batches:
    """Run one consumer as a Spark task, and yield rows of the table `deliveries`.

    All consumers start together: they wait for each other at `barrier`, by default that of the Spark task.
    """
    life = ClientLife(
        run,
        ClientRole.CONSUMER,
        task.number,
        module=_choose_module(run, task),
        is_overdue=lambda: _is_overdue(run),
    )
    # A repeated task reads what the earlier ones answered before one of them answers anew.
    (barrier or BarrierTaskContext.get()).barrier()
    for before in life.earlier:
        yield from before.count(complete_deliveries(before.read_rest()))
    remove_record(run, ConsumerEnd, task.number)
    for reader, segments in life.live():
        yield from reader.count(complete_deliveries(segments))
    leave_read(run, task.client, life.readers)
    leave_end(run, ConsumerEnd, task.number, life.epoch, lambda: _make_end(task, life))


@dataclass(frozen=True)
class SinkShare:
    """A share of a subscription's sink, which one Spark task reads."""

    sink: tuple[str, str]
    share: int
    shares: int


def plan_sinks(run: Run) -> list[SinkShare]:
    """Return the shares of all sinks. A sink has one share for each consumer of its subscription."""
    return [
        SinkShare((subscription.find_home(run.topology), subscription.name), share, subscription.consumers)
        for subscription in run.scenario.workload.subscriptions
        if subscription.outputs_guarantee is not None
        for share in range(subscription.consumers)
    ]


def read_outputs(run: Run, task: SinkShare) -> Batches:
    """Yield the rows of a share of a sink. Raises RunError if an object is damaged."""
    cluster, subscription = task.sink
    yield from Sink(run=run, cluster=cluster, subscription=subscription).read(task.share, task.shares)


def _choose_module(run: Run, task: ConsumerTask) -> str:
    is_streaming = task.find_subscription(run).streaming is not None
    return "streaming_client" if is_streaming else "brokerproof.clients.consuming"


def _make_end(task: ConsumerTask, life: ClientLife) -> ConsumerEnd:
    """Return the record of the end of a consumer whose last process left none. A fault that ended it, or that never
    started it, is no problem.

    `delivered` is None, because only the rows in the table `deliveries` show what was delivered.
    """
    return ConsumerEnd(
        task=task.number,
        consumer=task.consumer,
        delivered=None,
        fault=life.ended_by,
        problem=None if life.is_excused else f"{task.consumer}: its process {life.end}",
        at=clock.now_us(),
    )


def _is_overdue(run: Run) -> bool:
    stop = read_record(run, ConsumersStop)
    return stop is not None and clock.now_us() > stop.at + _OVERDUE_S * 1e6


def watch_drains(run: Run, ended: threading.Event) -> None:
    """Wait until the consumers may stop, record whether every subscription has drained, and tell the consumers to stop.

    If `ended` is set, the consumers have ended by themselves, and the wait ends too.
    """
    observation = make_observation(run)
    settle_s = run.scenario.settle_s
    limit_s = run.scenario.longest_load_s + 2 * settle_s + _SLACK_S
    deadline = time.monotonic() + limit_s
    # The time by which load and timeline had both ended. The undo of the last fault may bring messages back.
    ended_at: float | None = None
    drains: list[SubscriptionDrain] = []
    behind: list[str] = []
    while not ended.wait(0.5) and read_record(run, EarlyEnd) is None:
        if read_record(run, ClustersConfigured) is None:
            # The nodes start.
            deadline = time.monotonic() + limit_s
            continue
        if ended_at is None and _has_ended(run, "load", LoadEnd) and _timeline_has_ended(run):
            ended_at = time.monotonic()
        if ended_at is None and time.monotonic() < deadline:
            continue
        # Ask about replication first, or a message could be replicated after its subscription counted as drained.
        ways = find_replication_drains(run.topology, observation)
        behind = [f"{way.sender} to {way.receiver}" for way in ways if not way.drained]
        drains = [*observation.find_subscription_drains(), *find_streaming_drains(run, observation)]
        is_late = ended_at is None or time.monotonic() > ended_at + settle_s
        if is_late or (drains and not behind and all(drain.drained for drain in drains)):
            break
    if read_record(run, EarlyEnd) is not None:
        drains = [_prove_nothing(run, "the run ended before its time")]
    elif drains and ended_at is None:
        drains = [_prove_nothing(run, "load and faults had not ended when the consumers had to stop")]
    else:
        drains = [_conclude_drain(drain, behind, settle_s) for drain in drains]
    drains = drains or [_prove_nothing(run, "the consumers ended by themselves")]
    write_record(run, SubscriptionDrains(subscriptions=tuple(drains), at=clock.now_us()))
    write_record(run, ConsumersStop(at=clock.now_us()))


def _has_ended(run: Run, step: str, record: type[Record]) -> bool:
    return read_record(run, record) is not None or read_record(run, StepProblem, step) is not None


def _timeline_has_ended(run: Run) -> bool:
    return not run.scenario.faults or _has_ended(run, "break_it", FaultsUndone)


def _conclude_drain(drain: SubscriptionDrain, behind: list[str], settle_s: float) -> SubscriptionDrain:
    """Return the record of a subscription's drain. It is not proven if messages may still be replicated.

    `behind` has the directions (`SENDER to RECEIVER`) in which replication had not drained.
    """
    if drain.drained and not behind:
        return drain
    # A message that is replicated after this time has no consumer.
    behind_too = f"; replication had not drained from {', '.join(behind)}" if behind else ""
    why = f"{drain.why}{behind_too}; not drained {settle_s:.0f} s after load and faults had ended"
    return drain.model_copy(update={"drained": False, "why": why})


def _prove_nothing(run: Run, why: str) -> SubscriptionDrain:
    return SubscriptionDrain(
        cluster=next(iter(run.topology.clusters)),
        topic=name_topic(run),
        partition=-1,
        subscription="",
        drained=False,
        why=why,
    )


def main(arguments: Sequence[str] | None = None, start: Callable[[str], SparkTasks] = SparkTasks) -> None:
    """Consume, and seal `deliveries`. Raises RunError with the consumers' problems, unless the timeline failed."""
    run = open_job_run(arguments)
    tasks = plan_consumers(run)
    if not tasks:
        write_record(run, SubscriptionDrains(subscriptions=(), at=clock.now_us()))
        return
    for task in tasks:
        # A record from an earlier start of this job would count for this one.
        remove_record(run, ConsumerEnd, task.number)
        remove_record(run, ClientRecordRead, task.client)
    remove_record(run, SubscriptionDrains)
    spark = start("consume")
    ended = threading.Event()
    watching = threading.Thread(target=watch_drains, args=(run, ended), name="watch", daemon=True)
    watching.start()
    try:
        spark.run(run, "deliveries", tasks, consume_messages, at_once=True)
        seal_tables(run, "deliveries")
        remove_records(run, "consume")
        if sinks := plan_sinks(run):
            spark.run(run, "outputs", sinks, read_outputs)
            seal_tables(run, "outputs")
            remove_sinks(run)
            remove_checkpoints(run)
    finally:
        ended.set()
        watching.join(None if read_record(run, EarlyEnd) is None else _EARLY_JOIN_S)
    if read_record(run, SubscriptionDrains) is None:
        drain = _prove_nothing(run, "no node answered before the run ended")
        write_record(run, SubscriptionDrains(subscriptions=(drain,), at=clock.now_us()))
    end_job(run, join_problems((task.consumer, read_record(run, ConsumerEnd, task.number)) for task in tasks))


if __name__ == "__main__":
    main()
