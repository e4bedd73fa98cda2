"""Consumes every subscription of the workload and records every delivery.

Usage: spark-submit consume.py RUN_DIR

One Spark task a consumer, all at once. It ends by condition: the load has finished, and the clusters themselves say
that replication and then every subscription is drained; or at a deadline, and then the drain is not proven.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from brokerproof import clock
from brokerproof.errors import AdminError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.scenario import Subscription
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus, read_live_status
from brokerproof.systems.clients import Consumer, Position
from brokerproof.systems.protocols import Observation
from brokerproof.systems.registry import abilities_of, clients_for, observation_of, topic_of
from pyspark import BarrierTaskContext
from spark_session import append, batch, close, kept, one_task_each, run_argument, schema, session, told

_FLUSH_S = 1.0
# A delivery waits this long for the confirmation of its ack before it is written without one.
_CONFIRM_S = 20.0
# Warm-up and start of the load, on top of the phases and the settling.
_SLACK_S = 360.0


def consumers_of(run: Run) -> list[dict[str, Any]]:
    """One entry a task."""
    return [
        {
            "subscription": subscription.name,
            "cluster": subscription.home(run.topology),
            "consumer": f"{subscription.name}-c{number}",
        }
        for subscription in run.scenario.workload.subscriptions
        for number in range(subscription.consumers)
    ]


class Consumption:
    """One consumer's life: a thread that receives and acknowledges, one that learns which acks are confirmed."""

    def __init__(self, run: Run, index: int, task: dict[str, Any]) -> None:
        self.run, self.task = run, task
        self.subscription: Subscription = next(
            one
            for one in run.scenario.workload.subscriptions
            if one.name == task["subscription"] and one.home(run.topology) == task["cluster"]
        )
        self.cluster: str = task["cluster"]
        self.live = LiveStatus(run, f"consume-{index}")
        self.unconfirmed: deque[dict[str, Any]] = deque()
        self.delivered = 0
        # Whether the cluster says what it took for acknowledged: else no delivery waits for that.
        self.confirms = Ability.CONFIRMED_ACKS in abilities_of(run)
        # The cluster that was asked, and the position before which it has everything acknowledged.
        self.confirmed: tuple[str, dict[int, Position]] = ("", {})
        self.confirmed_at = 0
        self.leaving = threading.Event()
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def receive_all(self) -> None:
        """Receive until told to stop, on one cluster after the other where the subscription moves."""
        for incarnation, cluster in enumerate(self.subscription.places(self.run.topology)):
            if incarnation and self.stopping.is_set():
                return
            clients = clients_for(self.run, cluster, self.subscription.region)
            try:
                consumer = clients.consumer(self.subscription, self.task["consumer"])
                self.cluster = cluster
                self.live.show(subscribed=True, cluster=cluster, delivered=self.delivered)
                while not self.stopping.is_set() and (incarnation or not self.leaving.is_set()):
                    self._receive(consumer, incarnation)
                while self.stopping.is_set() and self._receive(consumer, incarnation):
                    pass
            finally:
                # A cluster that is left may be gone, and closing then waits for it.
                closing = threading.Thread(target=close, kwargs={"client": clients}, name="close", daemon=True)
                closing.start()
                if self.stopping.is_set():
                    closing.join()

    def leave_in_time(self) -> None:
        """Have the consumer move where its time to do so has come."""
        moves = self.subscription.moves
        if moves is None or self.leaving.is_set():
            return
        effective = self.run.state(f"effective-{moves.after}")
        if effective is not None and clock.now_us() >= effective["at"] + moves.after_s * 1e6:
            self.leaving.set()

    def _receive(self, consumer: Consumer, incarnation: int) -> bool:
        received = consumer.receive(0.2)
        if received is None:
            return False
        segment, offset, index = received.position or (None, None, None)
        self.unconfirmed.append(
            {
                "cluster": self.cluster,
                "incarnation": incarnation,
                "arrival": self.delivered,
                "received_at": clock.now_us(),
                "producer": received.producer,
                "seq": received.seq,
                "key": received.key,
                "payload_hash": received.payload_hash,
                "partition": received.partition,
                "ledger_id": segment,
                "entry_id": offset,
                "batch_index": index,
                "redelivery_count": received.redelivery_count,
                "published_at": received.published_at,
                "replicated_from": received.replicated_from,
                "acknowledged_at": None,
            }
        )
        self.delivered += 1
        consumer.acknowledge(received)
        return True

    def confirm(self, observation: Observation) -> None:
        """Ask the cluster up to where the subscription is acknowledged; the client's own acks have no receipt."""
        while not self.stopping.wait(1.0):
            try:
                cluster = self.cluster
                confirmed = observation.acknowledged(cluster, self.task["subscription"])
            except AdminError:
                continue  # nobody answers: nothing is confirmed meanwhile
            self.confirmed_at = clock.now_us()
            self.confirmed = cluster, confirmed

    def take(self, *, last: bool = False) -> list[dict[str, Any]]:
        """Deliveries whose ack is confirmed, or which have waited long enough for that, in order of arrival."""
        rows = []
        (asked, confirmed), confirmed_at = self.confirmed, self.confirmed_at
        last = last or not self.confirms
        waited_since = clock.now_us() - int(_CONFIRM_S * 1e6)
        while self.unconfirmed:
            row = self.unconfirmed[0]
            mark = confirmed.get(row["partition"]) if row["cluster"] == asked else None
            if (
                mark is not None
                and (row["ledger_id"], row["entry_id"]) < mark[:2]
                and row["received_at"] <= confirmed_at
            ):
                row["acknowledged_at"] = confirmed_at
            elif not last and row["received_at"] > waited_since:
                break
            rows.append(self.unconfirmed.popleft())
        return rows


def _deliver_one(run: Run, index: int, task: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    BarrierTaskContext.get().barrier()
    consumption = Consumption(run, index, task)
    constant = {
        "run_id": run.run_id,
        "topic": topic_of(run),
        "subscription": task["subscription"],
        "consumer": task["consumer"],
    }

    def work() -> None:
        try:
            consumption.receive_all()
        except BaseException as error:
            consumption.error = error

    thread = threading.Thread(target=work, name="receive", daemon=True)
    thread.start()
    if consumption.confirms:
        threading.Thread(target=consumption.confirm, args=(observation_of(run),), name="confirm", daemon=True).start()
    while thread.is_alive():
        thread.join(_FLUSH_S)
        if run.state("consume_stop") is not None:
            consumption.stopping.set()
        consumption.leave_in_time()
        consumption.live.show(delivered=consumption.delivered)
        if rows := consumption.take():
            yield batch("deliveries", rows, constant)
    if rows := consumption.take(last=True):
        yield batch("deliveries", rows, constant)
    consumption.live.show(problem=kept(run, task["consumer"], consumption.error))


def watch(run: Run, ended: threading.Event) -> None:
    """Decide when to stop, and leave the evidence for it in state/consume.json and state/consume_stop.json."""
    observation = observation_of(run)
    phases, settle_s = run.scenario.phases, run.scenario.settle_s
    deadline = time.monotonic() + phases.total_s + 2 * settle_s + _SLACK_S
    finished_at: float | None = None
    drained: list[dict[str, Any]] = []
    behind: list[str] = []
    while not ended.wait(0.5):
        load = run.state("load")
        if finished_at is None and (load is not None or run.state("problem-load") is not None):
            finished_at = time.monotonic()
        if finished_at is None and time.monotonic() < deadline:
            continue
        # In this order: what replication brings later would find a subscription that counts as drained.
        behind = [f"{path['from']} to {path['to']}" for path in observation.replicated() if not path["drained"]]
        drained = observation.drained()
        all_drained = not behind and bool(drained) and all(row["drained"] for row in drained)
        late = finished_at is None or time.monotonic() > finished_at + settle_s
        if all_drained or late:
            break
    for row in drained:
        if behind:
            # What comes later finds nobody who consumes it.
            row["drained"] = False
            row["why"] += f"; replication had not drained from {', '.join(behind)}"
        if not row["drained"]:
            row["why"] += f"; not drained {settle_s:.0f} s after the load"
    run.leave_state(
        "consume",
        {"subscriptions": drained or [_unproven(run, "the consumers ended by themselves")], "at": clock.now_us()},
    )
    run.leave_state("consume_stop", {"at": clock.now_us()})


def _unproven(run: Run, why: str) -> dict[str, Any]:
    return {
        "cluster": next(iter(run.topology.clusters)),
        "topic": topic_of(run),
        "partition": -1,
        "subscription": "",
        "drained": False,
        "why": why,
    }


def main() -> None:
    run = run_argument()
    tasks = consumers_of(run)
    if not tasks:
        run.leave_state("consume", {"subscriptions": [], "at": clock.now_us()})
        return
    spark = session("consume")
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(run, ended), name="watch")
    watcher.start()
    try:
        frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
            one_task_each(run, tasks, _deliver_one), schema("deliveries"), barrier=True
        )
        append(frame, run, "deliveries")
    finally:
        ended.set()
        watcher.join()
    spark.stop()
    if problem := told(read_live_status(run, f"consume-{index}").get("problem") for index in range(len(tasks))):
        raise SystemExit(problem)


if __name__ == "__main__":
    main()
