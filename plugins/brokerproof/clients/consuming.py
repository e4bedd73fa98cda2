"""A consumer under test: it receives, acknowledges, and records every delivery.

Usage: python -m brokerproof.clients.consuming RUN_DIR NUMBER EPOCH READY_FD, started by the Spark job `consume`.
EPOCH is the number of this process among all processes of the client, from 0.

The consumer ends when the job stops all consumers, the timeline of faults fails, or its Spark task is gone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from brokerproof import clock
from brokerproof.clients.client_process import run_client
from brokerproof.clients.closing import begin_closing, close_in_time
from brokerproof.clients.deliveries import AckedDeliveries, ConfirmedAcks, Deliveries
from brokerproof.clients.record import KEEP_EVERY_S, STANDSTILL_S, RecordWriter, Segment
from brokerproof.clients.sink import Processing, Sink, list_places
from brokerproof.errors import AdminError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import ClientRole, Commit, Subscription
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.records import ConsumerEnd, ConsumersStop, EarlyEnd, FaultEffective, read_record, write_record
from brokerproof.run.tables import Batches, make_batch
from brokerproof.systems.abilities import ConfirmsAcks, NegativelyAcknowledges, require
from brokerproof.systems.clients import Clients, Consumer
from brokerproof.systems.registry import make_clients, make_observation, name_topic

_SHOW_EVERY_S = 1.0
_CONFIRM_EVERY_S = 1.0
_SUBSCRIBE_EVERY_S = 1.0
_CLOSE_S, _EARLY_CLOSE_S = 20.0, 1.0
# A consumer that a fault may end gathers at most this many messages, for at most this many seconds. It records them
# before it acknowledges them.
_MOST_GATHERED, _GATHER_S = 1000, 0.1
# The time that the cluster has to confirm acks at the end of the run, and the time between two questions at any time.
_CONFIRM_S, _CONFIRM_AGAIN_S = 10.0, 0.05


log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ConsumerTask:
    """One consumer: its number and names, its subscription, and the cluster on which it begins."""

    number: int
    client: str
    cluster: str
    subscription: str
    consumer: str
    # Whether only a fault starts it.
    standby: bool = False

    def find_subscription(self, run: Run) -> Subscription:
        """Return the consumer's subscription from the scenario."""
        return next(
            one
            for one in run.scenario.workload.subscriptions
            if one.name == self.subscription and one.find_home(run.topology) == self.cluster
        )

    def find_incarnations(self, run: Run, epoch: int) -> range:
        """Return the numbers of a client process's incarnations: it has one for each cluster of the subscription.

        `epoch` is the number of the process among the client's processes. No two of these processes share an
        incarnation's number, so each row of the table `deliveries` shows its process.
        """
        count = len(self.find_subscription(run).list_clusters(run.topology))
        return range(epoch * count, (epoch + 1) * count)


def plan_consumers(run: Run) -> list[ConsumerTask]:
    """Return one task for each consumer of the workload."""
    return [
        ConsumerTask(
            number=each.number,
            client=each.client,
            cluster=each.cluster,
            subscription=each.subscription,
            consumer=each.name,
            standby=each.standby,
        )
        for each in run.scenario.workload.list_clients(run.topology, ClientRole.CONSUMER)
    ]


class MovingConsumer:
    """Receives and acknowledges messages. If its subscription moves, it does so on one cluster after the other."""

    def __init__(self, run: Run, task: ConsumerTask, *, epoch: int = 0) -> None:
        self.run, self.task = run, task
        self.subscription = task.find_subscription(run)
        self.first_incarnation = task.find_incarnations(run, epoch).start
        # A fault started it, maybe while another one keeps the cluster from answering.
        self._is_started_late = epoch > 0 or task.standby
        # The consumer's current cluster.
        self.cluster = task.cluster
        self.has_subscribed = False
        # The values of the columns that are equal in all rows of the consumer.
        self.constant = {
            "run_id": run.run_id,
            "topic": name_topic(run),
            "subscription": task.subscription,
            "consumer": task.consumer,
        }
        self.deliveries = Deliveries(self.constant)
        # Messages that came while the consumer waited for the confirmation of acks.
        self._come_meanwhile: list[Any] = []
        # If it is set, deliveries are acknowledged only after this function has recorded them.
        self.keep: Callable[[], None] | None = None
        # It is called at each moment for which a fault may wait, with what the consumer holds.
        self.reach: Callable[[ClientMoment, str], None] = lambda moment, holding: None
        # It confirms acks before a message is processed, if the subscription demands it.
        self.observation: ConfirmsAcks | None = None
        self.say_ready: Callable[[], None] = lambda: None
        self.leaving = threading.Event()
        # A consumer that a fault stops leaves the messages that are left to the others.
        self.leaves_rest = threading.Event()
        # `stopping` ends the consumer after the messages that are left. `hurrying` ends it at once.
        self.stopping, self.hurrying = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def receive_all(self) -> None:
        """Receive on each cluster of the subscription in turn, until `stopping` is set. Keep an error in `error`."""
        try:
            for moves, cluster in enumerate(self.subscription.list_clusters(self.run.topology)):
                if moves and self.stopping.is_set():
                    return
                self.receive_on(cluster, moves)
        except BaseException as error:
            self.error = error

    def leave_in_time(self) -> None:
        """Set `leaving` if it is time for the subscription to move to its next cluster."""
        moves = self.subscription.moves
        if moves is None or self.leaving.is_set():
            return
        effective = read_record(self.run, FaultEffective, moves.after)
        if effective is not None and clock.now_us() >= effective.at + moves.after_s * 1e6:
            self.leaving.set()

    def confirm_acks(self, observation: ConfirmsAcks) -> None:
        """Ask the cluster every second which messages the subscription has acknowledged, until `stopping` is set.

        The client itself gets no receipt for an ack. A cluster that does not answer is asked again. Any other error
        ends the questions and is kept in `error`.
        """
        while not self.stopping.wait(_CONFIRM_EVERY_S):
            cluster = self.cluster
            try:
                positions = observation.find_acknowledged(cluster, self.task.subscription)
            except AdminError:
                continue  # The cluster does not answer, so no ack is confirmed meanwhile.
            except Exception as error:
                self.error = self.error or error
                return
            self.deliveries.confirm(ConfirmedAcks(cluster=cluster, positions=positions, at=clock.now_us()))

    def receive_on(self, cluster: str, moves: int) -> None:
        """Receive on one cluster until `stopping` or, before the first move, `leaving` is set."""
        clients = make_clients(self.run, cluster, self.subscription.region)
        try:
            consumer = self._subscribe(clients, cluster, again=moves > 0 or self._is_started_late)
            self.cluster, self.has_subscribed = cluster, True
            self.deliveries.begin(clients.describe, cluster=cluster, incarnation=self.first_incarnation + moves)
            if not moves:
                self.say_ready()
            receive = self._receive
            if self.keep is not None:
                acknowledge: Callable[[Consumer, Sequence[Any]], None] = self._acknowledge
                if self.subscription.negative_ack_every is not None:
                    acknowledge = partial(self._answer, clients.describe, self.subscription.negative_ack_every)
                if self.subscription.commit is not None:
                    incarnation = self.first_incarnation + moves
                    acknowledge = self._make_processing(clients, cluster, incarnation, self.subscription.commit).process
                receive = partial(self._receive_and_keep, keep=self.keep, acknowledge=acknowledge)
            while not self.stopping.is_set() and (moves or not self.leaving.is_set()):
                receive(consumer)
            while self.finishes() and receive(consumer):
                pass
        finally:
            if self.stopping.is_set():
                close_in_time(_EARLY_CLOSE_S if self.hurrying.is_set() else _CLOSE_S, client=clients)
            else:
                # The cluster that the consumer leaves may be gone. Closing a client would then block the move.
                begin_closing(client=clients)

    def _subscribe(self, clients: Clients, cluster: str, *, again: bool) -> Consumer:
        """Return a consumer on the cluster. If `again` is True, try every second until the cluster answers.

        A cluster may be broken when a subscription moves to it, or when a fault starts the consumer. If `stopping` is
        set, the last error is raised.
        """
        while True:
            try:
                return clients.consumer(self.subscription, self.task.consumer)
            except Exception as error:
                if not again or self.stopping.wait(_SUBSCRIBE_EVERY_S):
                    raise
                log.warning("%s does not get to %s yet: %s", self.task.consumer, cluster, error)

    def _receive(self, consumer: Consumer) -> bool:
        message = consumer.receive(0.2)
        if message is None:
            return False
        self.deliveries.add(message)
        consumer.acknowledge(message)
        return True

    def finishes(self) -> bool:
        """Return whether the consumer ends after the messages that are left."""
        return self.stopping.is_set() and not self.hurrying.is_set() and not self.leaves_rest.is_set()

    def _receive_and_keep(
        self,
        consumer: Consumer,
        keep: Callable[[], None],
        acknowledge: Callable[[Consumer, Sequence[Any]], None],
    ) -> bool:
        """Receive messages for `_GATHER_S` seconds, have them recorded, and acknowledge them then.

        So a consumer that a fault kills has acknowledged no message that its record lacks.
        """
        messages, self._come_meanwhile = self._come_meanwhile, []
        self._gather(messages, consumer, _GATHER_S)
        if messages:
            keep()
            acknowledge(consumer, messages)
        return bool(messages)

    def _gather(self, messages: list[Any], consumer: Consumer, for_s: float) -> None:
        """Add the messages that come in the next `for_s` seconds to `messages`, up to `_MOST_GATHERED` in all."""
        until = time.monotonic() + for_s
        while len(messages) < _MOST_GATHERED and (left_s := until - time.monotonic()) > 0:
            message = consumer.receive(left_s)
            if message is not None:
                self.deliveries.add(message)
                messages.append(message)

    def _acknowledge(self, consumer: Consumer, messages: Sequence[Any], refused: Collection[int] = ()) -> None:
        """Acknowledge messages, and answer those negatively whose indexes are in `refused`."""
        count = len(messages)
        for done, message in enumerate(messages):
            moment = ClientMoment.IN_BATCH if done else ClientMoment.HOLDS_UNACKNOWLEDGED
            self.reach(moment, f"{count - done:,} of {count:,} messages that it has not acknowledged")
            if done in refused:
                require(consumer, NegativelyAcknowledges).refuse(message)
            else:
                consumer.acknowledge(message)

    def _answer(
        self,
        describe: Callable[[Sequence[Any]], Mapping[str, Any]],
        every: int,
        consumer: Consumer,
        messages: Sequence[Any],
    ) -> None:
        """Answer each `every`-th message of a producer negatively unless it came before, and acknowledge the others."""
        columns = describe(messages)
        names = ("seq", "redelivery_count")
        seqs, counts = (pa.array(columns[name], pa.int64()).to_pylist() for name in names)
        refused = {
            index
            for index, (seq, count) in enumerate(zip(seqs, counts, strict=True))
            if seq is not None and seq % every == 0 and not count
        }
        self._acknowledge(consumer, messages, refused)

    def _make_processing(self, clients: Clients, cluster: str, incarnation: int, commit: Commit) -> Processing:
        name, home = self.task.subscription, self.task.cluster
        return Processing(
            commit=commit,
            # A subscription that moves keeps its sink.
            sink=Sink(run=self.run, cluster=home, subscription=name),
            name=f"{self.task.consumer}-{incarnation}",
            constant={**self.constant, "cluster": cluster, "incarnation": incarnation},
            describe=clients.describe,
            confirm=partial(self._confirm, cluster, clients.describe),
            reach=lambda moment, holding: self.reach(moment, holding),
        )

    def _confirm(
        self,
        cluster: str,
        describe: Callable[[Sequence[Any]], Mapping[str, Any]],
        consumer: Consumer,
        columns: Mapping[str, Any],
    ) -> list[Any] | None:
        """Wait until the cluster confirms the acks of messages with these columns. Returns None if the consumer ends.

        The consumer receives meanwhile, because some clients send acks only when they are asked for messages. If one of
        the messages comes again, its ack was lost, and it is acknowledged again. A cluster confirms a message together
        with all messages before it, and perhaps no message of a batch before the last one. So what comes of the rest of
        a batch, or comes again from before, is acknowledged too, and returned.
        """
        places, rest = set(list_places(columns)), list[Any]()
        last: dict[int, tuple[int, int]] = {}
        for _, _, partition, segment, offset, _ in places:
            last[partition] = max(last.get(partition, (-1, -1)), (segment, offset))
        gives_up_at = float("inf")
        while self.observation is not None and time.monotonic() < gives_up_at and not self.hurrying.is_set():
            with suppress(AdminError):
                answers = self.observation.find_acknowledged(cluster, self.task.subscription)
                if all(partition in answers and answers[partition][:2] > place for partition, place in last.items()):
                    return rest
            come, awaited = list[Any](), list[Any]()
            self._gather(come, consumer, _CONFIRM_AGAIN_S)
            for message in come:
                (place,) = list_places(describe([message]))
                if place[3:5] > last.get(place[2], (-1, -1)):
                    self._come_meanwhile.append(message)
                    continue
                awaited.append(message)
                if place not in places:
                    places.add(place)
                    rest.append(message)
            if awaited and self.keep is not None:
                self.keep()
            for message in awaited:
                consumer.acknowledge(message)
            if self.stopping.is_set():
                gives_up_at = min(gives_up_at, time.monotonic() + _CONFIRM_S)
        return None


def consume(
    run: Run,
    task: ConsumerTask,
    *,
    epoch: int = 0,
    make: Callable[..., MovingConsumer] = MovingConsumer,
    gone: threading.Event | None = None,
    stopped: threading.Event | None = None,
    reach: Callable[[ClientMoment, str], None] = lambda moment, holding: None,
    say_ready: Callable[[], None] = lambda: None,
) -> None:
    """Receive messages until the job stops the consumers, the timeline of faults fails, or the Spark task is gone.

    Record every delivery, and at last the consumer's end with its problem, if any. `make` makes the consumer. `gone` is
    set when the task ends, and `stopped` when a fault stops the consumer. `say_ready` is called when it has subscribed,
    and `reach` at each moment for which a fault may wait, with what the consumer holds.
    """
    consumer, live = make(run, task, epoch=epoch), LiveStatus(run, task.client, totals=["delivered"])
    record = RecordWriter(run, task.client, table="deliveries", epoch=epoch)
    # If the consumer is killed within its first seconds, this file shows that it ran.
    record.append(make_batch("deliveries", [], {}))

    writing = threading.Lock()

    def write() -> None:
        with writing:
            rows, acks = consumer.deliveries.take()
            if rows.num_rows or acks:
                record.append(rows, acks)

    def keep() -> None:
        try:
            write()
        except Exception as error:
            consumer.error = consumer.error or error

    consumer.reach, consumer.say_ready = reach, say_ready
    may_end = any(fault.targets.client is ClientRole.CONSUMER for fault in run.scenario.faults)
    subscription = consumer.subscription
    if may_end or subscription.outputs_guarantee is not None or subscription.negative_ack_every is not None:
        consumer.keep = write
    observation = make_observation(run)
    # A streaming query acknowledges nothing, and a topic that stores no messages keeps no acks.
    has_acks = run.scenario.workload.is_stored and consumer.subscription.streaming is None
    if has_acks and isinstance(observation, ConfirmsAcks):
        consumer.observation = observation
    receiving = threading.Thread(target=consumer.receive_all, name="receive", daemon=True)
    receiving.start()
    if consumer.observation is not None:
        threading.Thread(
            target=consumer.confirm_acks, args=(consumer.observation,), name="confirm", daemon=True
        ).start()
    shown_at, hurry_at = 0.0, float("inf")

    def show() -> None:
        live.show(cluster=consumer.cluster, subscribed=consumer.has_subscribed, delivered=consumer.deliveries.count)

    standstills: list[tuple[int, int]] = []
    seen_us = clock.now_us()
    while receiving.is_alive() and time.monotonic() < hurry_at:
        receiving.join(KEEP_EVERY_S)
        awaited_us, seen_us = seen_us + round(KEEP_EVERY_S * 1e6), clock.now_us()
        if seen_us - awaited_us > STANDSTILL_S * 1e6:
            standstills.append((awaited_us, seen_us))
        if not consumer.hurrying.is_set() and ((gone is not None and gone.is_set()) or read_record(run, EarlyEnd)):
            consumer.hurrying.set()
            consumer.stopping.set()
            hurry_at = time.monotonic() + 2 * _EARLY_CLOSE_S
        if stopped is not None and stopped.is_set():
            consumer.leaves_rest.set()
            consumer.stopping.set()
        if read_record(run, ConsumersStop) is not None:
            consumer.stopping.set()
        consumer.leave_in_time()
        keep()
        if time.monotonic() - shown_at >= _SHOW_EVERY_S:
            shown_at = time.monotonic()
            show()
    # A consumer that still receives may add to its count after its last rows were taken.
    is_counted = not receiving.is_alive()
    keep()
    show()
    problem = None if consumer.error is None else f"{type(consumer.error).__name__}: {consumer.error}"
    if problem is None and consumer.hurrying.is_set():
        problem = "it was told to end before its time"
    write_record(
        run,
        ConsumerEnd(
            task=task.number,
            consumer=task.consumer,
            delivered=consumer.deliveries.count if is_counted else None,
            epoch=epoch,
            segments=record.segments,
            standstills=tuple(standstills),
            problem=None if problem is None else f"{task.consumer}: {problem}",
            at=clock.now_us(),
        ),
    )


def complete_deliveries(segments: Iterable[Segment]) -> Batches:
    """Yield all rows of `deliveries` from a consumer's record, each with the time at which its ack was confirmed.

    If an ack was not confirmed in time, this time is null.
    """
    deliveries = AckedDeliveries()
    for segment in segments:
        yield from deliveries.add(segment.rows, segment.acks)
    yield from deliveries.finish()


def run_consumer(make: Callable[..., MovingConsumer] = MovingConsumer) -> NoReturn:
    """Run a consumer that `make` makes as this process, and exit."""
    run_client(
        plan_consumers,
        lambda run, task, epoch, parent: consume(
            run,
            task,
            epoch=epoch,
            make=make,
            gone=parent.gone,
            stopped=parent.stopping,
            reach=parent.reach,
            say_ready=parent.say_ready,
        ),
    )


if __name__ == "__main__":
    run_consumer()
