"""Consumes every subscription of the workload and records every delivery.

Usage: spark-submit consume.py RUN_DIR

One Spark task a consumer, all at once. It ends by condition: the load has finished, and the clusters themselves say
that replication and then every subscription is drained; or at a deadline, and then the drain is not proven. Each
consumer leaves a record of its end, and the job leaves one of what the clusters said.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from brokerproof import clock
from brokerproof.errors import AdminError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.workload import Subscription
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import (
    ConsumerEnd,
    ConsumersStop,
    FaultEffective,
    LoadEnd,
    StepProblem,
    SubscriptionDrain,
    SubscriptionDrains,
    read_record,
    remove_record,
    write_record,
)
from brokerproof.run.tables import Batches
from brokerproof.systems.clients import Consumer
from brokerproof.systems.protocols import Observation
from brokerproof.systems.registry import list_abilities, make_clients, make_observation, name_topic
from deliveries import ConfirmedAcks, Deliveries
from pyspark import BarrierTaskContext
from spark_session import SparkTasks, make_batch, open_run
from task_problems import close_clients, defer_error, join_problems

_FLUSH_S = 1.0
# Warm-up and start of the load, on top of the phases and the settling.
_SLACK_S = 360.0


@dataclass(frozen=True, kw_only=True)
class ConsumerTask:
    """One consumer: its name, and the subscription on the cluster where it begins."""

    number: int
    cluster: str
    subscription: str
    consumer: str


def plan_consumers(run: Run) -> list[ConsumerTask]:
    """The consumers of the workload, one task each."""
    places = [
        (subscription.find_home(run.topology), subscription.name, number)
        for subscription in run.scenario.workload.subscriptions
        for number in range(subscription.consumers)
    ]
    return [
        ConsumerTask(number=index, cluster=cluster, subscription=name, consumer=f"{name}-c{number}")
        for index, (cluster, name, number) in enumerate(places)
    ]


class MovingConsumer:
    """Receives and acknowledges, on one cluster after the other where the subscription moves."""

    def __init__(self, run: Run, task: ConsumerTask) -> None:
        self.run, self.task = run, task
        self.subscription: Subscription = next(
            one
            for one in run.scenario.workload.subscriptions
            if one.name == task.subscription and one.find_home(run.topology) == task.cluster
        )
        # Where it is now.
        self.cluster = task.cluster
        self.confirms_acks = Ability.CONFIRMED_ACKS in list_abilities(run)
        self.deliveries = Deliveries(await_confirmation=self.confirms_acks)
        self.leaving = threading.Event()
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def receive_all(self) -> None:
        """Receive on every cluster of the subscription until `stopping` is set."""
        for incarnation, cluster in enumerate(self.subscription.list_clusters(self.run.topology)):
            if incarnation and self.stopping.is_set():
                return
            clients = make_clients(self.run, cluster, self.subscription.region)
            try:
                consumer = clients.consumer(self.subscription, self.task.consumer)
                self.cluster = cluster
                while not self.stopping.is_set() and (incarnation or not self.leaving.is_set()):
                    self._receive(consumer, incarnation)
                while self.stopping.is_set() and self._receive(consumer, incarnation):
                    pass
            finally:
                # A cluster that is left may be gone, and closing then waits for it.
                closing = threading.Thread(target=close_clients, kwargs={"client": clients}, name="close", daemon=True)
                closing.start()
                if self.stopping.is_set():
                    closing.join()

    def leave_in_time(self) -> None:
        """Let the consumer leave its cluster if the time of its move has come."""
        moves = self.subscription.moves
        if moves is None or self.leaving.is_set():
            return
        effective = read_record(self.run, FaultEffective, moves.after)
        if effective is not None and clock.now_us() >= effective.at + moves.after_s * 1e6:
            self.leaving.set()

    def confirm_acks(self, observation: Observation) -> None:
        """Ask the cluster every second which acks it has; the client gets no receipt for an ack."""
        while not self.stopping.wait(1.0):
            cluster = self.cluster
            try:
                positions = observation.find_acknowledged(cluster, self.task.subscription)
            except AdminError:
                continue  # Nobody answers: nothing is confirmed meanwhile.
            self.deliveries.confirm(ConfirmedAcks(cluster=cluster, positions=positions, at=clock.now_us()))

    def _receive(self, consumer: Consumer, incarnation: int) -> bool:
        received = consumer.receive(0.2)
        if received is None:
            return False
        self.deliveries.add(received, cluster=self.cluster, incarnation=incarnation)
        consumer.acknowledge(received)
        return True


def consume_messages(run: Run, task: ConsumerTask, barrier: BarrierTaskContext | None = None) -> Batches:
    """The task of one consumer: rows of the table `deliveries`, and a record of its end.

    `barrier` is where the consumers wait for each other, the one of the Spark task without one.
    """
    (barrier or BarrierTaskContext.get()).barrier()
    consumer, live = MovingConsumer(run, task), LiveStatus(run, f"consume-{task.number}")
    constant = {
        "run_id": run.run_id,
        "topic": name_topic(run),
        "subscription": task.subscription,
        "consumer": task.consumer,
    }

    def receive() -> None:
        try:
            consumer.receive_all()
        except BaseException as error:
            consumer.error = error

    thread = threading.Thread(target=receive, name="receive", daemon=True)
    thread.start()
    if consumer.confirms_acks:
        threading.Thread(
            target=consumer.confirm_acks, args=(make_observation(run),), name="confirm", daemon=True
        ).start()
    while thread.is_alive():
        thread.join(_FLUSH_S)
        if read_record(run, ConsumersStop) is not None:
            consumer.stopping.set()
        consumer.leave_in_time()
        live.show(cluster=consumer.cluster, delivered=consumer.deliveries.count)
        if rows := consumer.deliveries.take():
            yield make_batch("deliveries", rows, constant)
    if rows := consumer.deliveries.take(last=True):
        yield make_batch("deliveries", rows, constant)
    problem = defer_error(run, task.consumer, consumer.error)
    write_record(
        run,
        ConsumerEnd(
            task=task.number,
            consumer=task.consumer,
            delivered=consumer.deliveries.count,
            problem=problem,
            at=clock.now_us(),
        ),
    )


def watch_drains(run: Run, ended: threading.Event) -> None:
    """Decide when the consumers stop, and leave what the clusters said about every subscription by then.

    `ended` is set if the consumers end by themselves.
    """
    observation = make_observation(run)
    settle_s = run.scenario.settle_s
    deadline = time.monotonic() + run.scenario.phases.total_s + 2 * settle_s + _SLACK_S
    load_ended_at: float | None = None
    drains: list[SubscriptionDrain] = []
    behind: list[str] = []
    while not ended.wait(0.5):
        if load_ended_at is None and _load_has_ended(run):
            load_ended_at = time.monotonic()
        if load_ended_at is None and time.monotonic() < deadline:
            continue
        # Replication is asked first: a message that it brings later would reach a subscription that counts as drained.
        behind = [f"{way.sender} to {way.receiver}" for way in observation.find_replication_drains() if not way.drained]
        drains = observation.find_subscription_drains()
        is_late = load_ended_at is None or time.monotonic() > load_ended_at + settle_s
        if is_late or (drains and not behind and all(drain.drained for drain in drains)):
            break
    drains = [_conclude_drain(drain, behind, settle_s) for drain in drains] or [_prove_nothing(run)]
    write_record(run, SubscriptionDrains(subscriptions=tuple(drains), at=clock.now_us()))
    write_record(run, ConsumersStop(at=clock.now_us()))


def _load_has_ended(run: Run) -> bool:
    return read_record(run, LoadEnd) is not None or read_record(run, StepProblem, "load") is not None


def _conclude_drain(drain: SubscriptionDrain, behind: list[str], settle_s: float) -> SubscriptionDrain:
    """The drain of a subscription, given the ways on which replication is still `behind`."""
    if drain.drained and not behind:
        return drain
    # A message that is replicated after this moment has no consumer any more.
    behind_too = f"; replication had not drained from {', '.join(behind)}" if behind else ""
    why = f"{drain.why}{behind_too}; not drained {settle_s:.0f} s after the load"
    return drain.model_copy(update={"drained": False, "why": why})


def _prove_nothing(run: Run) -> SubscriptionDrain:
    return SubscriptionDrain(
        cluster=next(iter(run.topology.clusters)),
        topic=name_topic(run),
        partition=-1,
        subscription="",
        drained=False,
        why="the consumers ended by themselves",
    )


def main(arguments: Sequence[str] | None = None, start: Callable[[str], SparkTasks] = SparkTasks) -> None:
    """Consume, and end with the problems of the consumers where they had any."""
    run = open_run(arguments)
    tasks = plan_consumers(run)
    if not tasks:
        write_record(run, SubscriptionDrains(subscriptions=(), at=clock.now_us()))
        return
    for task in tasks:
        # A record of an earlier attempt would count as one of this attempt.
        remove_record(run, ConsumerEnd, task.number)
    spark = start("consume")
    ended = threading.Event()
    watching = threading.Thread(target=watch_drains, args=(run, ended), name="watch")
    watching.start()
    try:
        spark.run(run, "deliveries", tasks, consume_messages, at_once=True)
    finally:
        ended.set()
        watching.join()
    spark.stop()
    ends = [(task, read_record(run, ConsumerEnd, task.number)) for task in tasks]
    if problem := join_problems(
        f"{task.consumer} left no record of its end" if end is None else end.problem for task, end in ends
    ):
        raise SystemExit(problem)


if __name__ == "__main__":
    main()
