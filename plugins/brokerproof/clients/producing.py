"""A producer under test: it sends on schedule and records every attempt.

Usage: python -m brokerproof.clients.producing RUN_DIR NUMBER EPOCH READY_FD [beside], started by the Spark job `load`.
EPOCH is the number of this process among all processes of the client, from 0. With `beside`, an earlier one runs.

The schedule is open-loop: message i is due at start + i / rate, in any state of the cluster, until the run's phases
end. If the load has to find its rate, or a fault quiets it, the schedule follows the record `LoadRates`. While
`max_pending` attempts have no result, due messages are held back. After the schedule, `settle_s` seconds remain to send
these messages and to get results. Messages still held back then are recorded as not sent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from brokerproof import clock
from brokerproof.clients.client_process import awaits_moments, run_client
from brokerproof.clients.closing import close_in_time
from brokerproof.clients.missed_rates import IN_TIME_S, Activity, ProcessorWait, RateWatch, SenderTimes, sample_load
from brokerproof.clients.record import (
    KEEP_EVERY_S,
    STANDSTILL_S,
    RecordReader,
    RecordWriter,
    Reservation,
    Segment,
    find_next_seq,
    list_open_seqs,
)
from brokerproof.clients.schedule import Schedule, list_changes
from brokerproof.errors import RunError, shorten
from brokerproof.experiment.fault import QUIET, ClientMoment
from brokerproof.experiment.workload import MAX_RATE, MOST_RATE, ClientRole, OnRestart
from brokerproof.run.directory import Run
from brokerproof.run.live_status import LiveStatus
from brokerproof.run.load_rate import FIRST_RATE
from brokerproof.run.records import (
    EarlyEnd,
    LoadRates,
    MissedRates,
    PhaseTimes,
    ProducerEnd,
    read_record,
    write_record,
)
from brokerproof.run.tables import AttemptOutcome, Batches, join_columns
from brokerproof.systems.abilities import NumberedProducer
from brokerproof.systems.clients import Clients, Producer, Settled, hash_payload, make_payload
from brokerproof.systems.registry import make_clients, name_topic

_TICK_S = 0.002
_ASK_EVERY_S = 0.25
_SHOW_EVERY_S = 1.0
# The producer ends if the phases are not recorded after this many seconds. The timeline itself gives up earlier.
_NO_PHASES_S = 500.0
# Seconds that pending attempts may take after the timeline broke or the task is gone.
_EARLY_SETTLE_S = 1.0
_CLOSE_S = 10.0
# A producer that is started again tries to connect for this many seconds, because the cluster may take the killed one
# for alive, or have another fault. The second number is the time between two attempts.
_RECONNECT_S, _RECONNECT_EVERY_S = 120.0, 0.2
# A second producer of a name tries for this many seconds. A system may fence the first one and refuse the second one at
# once, because the first one's end is not complete yet.
_CONTEST_S = 2.0
# A reservation in the record lets the producer send at least this many more messages.
_RESERVED = 1000
_ROWS = 10_000
# Payloads of this many messages are made before the first of them is sent.
_BURST = 64
# The load may become steady late, and then lasts longer by this many seconds.
_SPARE_S = 600
# More messages than a producer sends in a day.
_MOST_SEQS = 1_000_000_000
_NO_POSITION = (None, None, None)

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ProducerTask:
    """One producer: the cluster that it publishes to, the keys of its messages, and its rate in messages a second.

    `label` belongs to no other client. Rates after the first one, `rate`, are in the record `LoadRates`. The share
    `hot_key_share` of its messages has the first key, and the other keys share the rest. If it is None, all keys take
    turns.
    """

    number: int
    client: str
    cluster: str
    producer: str
    label: str
    keys: tuple[str, ...]
    rate: float
    hot_key_share: float | None = None

    def number_keys(self, seqs: Any) -> Any:
        """Return, for each message of the array `seqs`, the index of its key in `keys`."""
        count = len(self.keys)
        if self.hot_key_share is None or count == 1:
            return seqs % count
        # The hot key's messages with a lower seq. They are spread evenly.
        hot = np.floor(seqs * self.hot_key_share).astype(np.int64)
        is_hot = np.floor((seqs + 1) * self.hot_key_share) > hot
        return np.where(is_hot, 0, 1 + (seqs - hot) % (count - 1))

    def list_keys(self, seqs: range) -> list[str]:
        """Return the key of each message."""
        return [self.keys[index] for index in self.number_keys(np.array(seqs))]


def plan_producers(run: Run) -> list[ProducerTask]:
    """Return one task for each producer of the workload."""
    workload = run.scenario.workload
    rate = FIRST_RATE if workload.rate == MAX_RATE else workload.rate
    clients = workload.list_clients(run.topology, ClientRole.PRODUCER)
    return [
        ProducerTask(
            number=each.number,
            client=each.client,
            cluster=each.cluster,
            producer=each.name,
            label=each.label,
            # A key belongs to one producer of one cluster, because no system promises order across two clusters.
            keys=tuple(f"k{key}" for key in range(each.number, workload.keys, len(clients))),
            rate=rate / workload.producers,
            hot_key_share=workload.hot_key_share,
        )
        for each in clients
    ]


def make_schedule(
    run: Run, task: ProducerTask, start_at: float, rates: LoadRates | None, *, first: int = 0
) -> Schedule:
    """Return the schedule of a producer that began with message `first` at a Unix time.

    `rates` has the rates that were recorded so far.
    """
    changes = list_changes(rates, run.scenario.workload.producers, task.label)
    return Schedule(start_at, task.rate, changes, first=first)


class Attempt(NamedTuple):
    """An attempt to publish a message, with its result. Times are in µs."""

    seq: int
    payload_hash: int
    sent_at: int | None
    settled_at: int | None
    result: Settled


class Attempts:
    """The attempts of one producer to send messages.

    Three threads use the object: the sender, the messaging system's client, and the writer of the record. The client's
    thread takes Python's lock for each message, so it only notes the result. `_make_rows` makes rows column by column.
    """

    def __init__(self) -> None:
        # Of the attempts that were taken.
        self.counts = dict.fromkeys(AttemptOutcome, 0)
        # {seq: (payload hash, time of sending)}
        self._pending: dict[int, tuple[int, int]] = {}
        self._settled: deque[Attempt] = deque()
        self._lock = threading.Lock()

    @property
    def pending(self) -> int:
        """The number of attempts without a result."""
        return len(self._pending)

    def begin(self, seq: int, payload_hash: int, sent_at: int) -> None:
        """Note an attempt that is about to be sent."""
        self._pending[seq] = payload_hash, sent_at

    def settle(self, seq: int, result: Settled) -> None:
        """Note the result of an attempt. A result that comes after `give_up` is ignored."""
        at = clock.now_us()
        with self._lock:
            begun = self._pending.pop(seq, None)
            if begun is not None:
                self._settled.append(Attempt(seq, *begun, at, result))

    def give_up(self) -> None:
        """Give every attempt without a result the outcome `unknown`."""
        unknown = Settled(AttemptOutcome.UNKNOWN, error="not settled in time")
        with self._lock:
            self._settled += [Attempt(seq, *begun, None, unknown) for seq, begun in self._pending.items()]
            self._pending.clear()

    def skip(self, hashes: Iterable[tuple[int, int]], result: Settled) -> None:
        """Give messages that were never attempted a result. `hashes` has the seq and the payload hash of each."""
        self._settled += [Attempt(*message, None, None, result) for message in hashes]

    def take(self) -> list[Attempt]:
        """Return the attempts that got a result since the last call, and count their outcomes."""
        taken = [self._settled.popleft() for _ in range(len(self._settled))]
        for outcome, count in Counter(attempt.result.outcome for attempt in taken).items():
            self.counts[outcome] += count
        return taken


class ScheduledProducer:
    """Sends the messages of one producer on schedule, and writes the producer's record."""

    def __init__(
        self,
        run: Run,
        task: ProducerTask,
        *,
        epoch: int = 0,
        gone: threading.Event | None = None,
        stopping: threading.Event | None = None,
        superseded: threading.Event | None = None,
        beside: bool = False,
        reach: Callable[[ClientMoment, str], None] | None = None,
    ) -> None:
        """The event `gone` is set when the Spark task that started the producer has ended.

        When a fault sets `stopping`, the producer sends nothing more, waits for the answers, and ends. When a fault
        sets `superseded`, another process of the same name has connected, and goes on behind what this one has reserved
        by then. `beside` says that this is such a process, which may be refused. `reach` is called at each moment for
        which a fault may wait, with what the producer holds; None if no fault waits.
        """
        self.run, self.task, self.workload = run, task, run.scenario.workload
        self.attempts = Attempts()
        self._reach = reach
        self._first = 0
        # The next message.
        self.scheduled = 0
        self._epoch, self._beside = epoch, beside
        self._gone, self._stopping = gone or threading.Event(), stopping or threading.Event()
        self._superseded = superseded or threading.Event()
        self._record = RecordWriter(run, task.client, table="publishes", epoch=epoch)
        self._live = LiveStatus(run, task.client, totals=[str(outcome) for outcome in AttemptOutcome])
        self._shown_at = 0.0
        # Guards `_reserved`, which another thread raises.
        self._changed = threading.Condition()
        self._reserved = 0
        # Whether the reservation is raised no more.
        self._is_bounded = False
        self._start_at = 0.0
        self._schedule = Schedule(0.0, task.rate)
        self._seeks_rate = self.workload.rate == MAX_RATE
        self._follows_rates = self._seeks_rate or any(fault.kind == QUIET for fault in run.scenario.faults)
        self._ended = False
        self._keep_error: Exception | None = None
        self._asked_at = 0.0
        self._ends_at: float | None = None
        self._stopped_at: float | None = None
        self._early = False
        # Every message below this seq was due while `max_pending` attempts were pending.
        self._held_back = 0
        # In µs: when the producer was last outside the system's client, and the standstills (from, to) so far.
        self._seen_us = 0
        self._standstills: list[tuple[int, int]] = []
        # The thread that writes the record notes that the process stood still, and the sender that it did.
        self._standstills_lock = threading.Lock()
        self._times, self._wait = SenderTimes(clock.now_us()), ProcessorWait()
        # None until the rate is found.
        self._watch = None if self._seeks_rate else RateWatch(task.rate)
        self._overslept_s = 0.0
        # A message must not count as late because the producer itself was late.
        self._standstill_s = min(STANDSTILL_S, run.scenario.late_after_s)

    def publish(
        self, say_ready: Callable[[], None] = lambda: None, await_begin: Callable[[], float] = clock.now_s
    ) -> None:
        """Connect, send messages on schedule, wait for the results of all attempts, record the end, and disconnect.

        `say_ready` is called when the producer is connected. Then `await_begin` returns the Unix time at which the
        schedule begins. Errors are not raised, but recorded as the `problem` of the producer's end.
        """
        problem: BaseException | None = None
        keeper = threading.Thread(target=self._keep_record, name="record", daemon=True)
        opened: dict[str, Any] = {}
        try:
            opened["client"] = make_clients(self.run, self.task.cluster, self.workload.region)
            opened["producer"] = self._connect(opened["client"])
            say_ready()
            self._start_at = await_begin()
            # A message is one attempt, so a producer goes on behind all messages that its earlier processes may send.
            self._first = self.scheduled = self._reserved = find_next_seq(self.run, self.task.client, self._epoch)
            self._schedule = self._make_schedule(None)
            self._extend_reservation()
            keeper.start()
            if self.workload.client.on_restart is not None and not self._beside:
                self._resend(opened["producer"])
            self._send_all(opened["producer"].send)
        except BaseException as error:
            problem = error
        self.attempts.give_up()
        try:
            self._end_record(keeper)
        except Exception as error:
            problem = problem or error
        write_record(self.run, self._make_end(problem))
        close_in_time(_EARLY_SETTLE_S if self._early else _CLOSE_S, **dict(reversed(opened.items())))

    def _connect(self, clients: Clients) -> Producer:
        """Return a producer. A cluster may refuse it as long as it takes an earlier process for alive."""
        patience_s = _CONTEST_S if self._beside else _RECONNECT_S if self._epoch else 0
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return clients.producer(self.task.producer)
            except Exception as error:
                if time.monotonic() >= deadline or self._gone.wait(_RECONNECT_EVERY_S):
                    raise
                log.warning("%s is not connected yet: %s", self.task.producer, error)

    def _resend(self, producer: Producer) -> None:
        """Send each message again that earlier processes may have sent and that has no answer.

        A producer that continues leaves out the messages up to the last one that the system has stored.
        """
        stored = -1
        if self.workload.client.on_restart is OnRestart.CONTINUE:
            if not isinstance(producer, NumberedProducer):
                raise RunError("the system does not say which message of the producer it stored last")
            stored = producer.find_last_seq()
            log.info("the last message of %s that is stored is %d", self.task.producer, stored)
        for seq in list_open_seqs(self.run, self.task.client, self._epoch):
            if seq <= stored:
                continue
            while self.attempts.pending >= self.workload.client.max_pending:
                if self._find_end(now := clock.now_s()) is not None and now >= (self._ends_at or now):
                    return
                time.sleep(_TICK_S)
            content = make_payload(self.task.producer, seq, self.workload.size)
            self.attempts.begin(seq, hash_payload(content), clock.now_us())
            (key,) = self.task.list_keys(range(seq, seq + 1))
            producer.send(seq, key, content, partial(self.attempts.settle, seq))

    def _send_all(self, send: Callable[..., None]) -> None:
        limit = self.workload.client.max_pending
        # Seconds for which the system delayed the next message, in `send` or by a full `max_pending`.
        held_up_s = 0.0
        stood_still = False
        self._seen_us = clock.now_us()
        while True:
            now = self._find_standstill() / 1e6
            ends_at = self._find_end(now)
            due = self._count_due(now)
            # A cluster may leave a producer that it fenced without answers.
            is_short = self._early or self._is_bounded
            settle_s = _EARLY_SETTLE_S if is_short else self.run.scenario.settle_s
            gives_up_us = float("inf") if ends_at is None else (ends_at + settle_s) * 1e6
            activity = Activity.IDLE
            while self.scheduled < due:
                room = limit - self.attempts.pending
                if room <= 0:
                    # After a standstill, answers that came meanwhile are not counted yet.
                    if not stood_still:
                        self._held_back = due
                        held_up_s = float("inf")
                        activity = Activity.HELD_BACK
                    break
                # A client that was suspended must not catch up when the load is over.
                if self._seen_us >= gives_up_us:
                    break
                if self.scheduled >= self._reserved:
                    self._await_reservation(self.scheduled)
                    if self.scheduled >= self._reserved:
                        break
                count = min(_BURST, room, due - self.scheduled, self._reserved - self.scheduled)
                held_up_s = self._send_burst(send, count, held_up_s, gives_up_us)
            if ends_at is not None and now >= ends_at:
                is_all_sent = self._early or self.scheduled >= due
                if (is_all_sent and not self.attempts.pending) or now * 1e6 >= gives_up_us:
                    self._check_held_back(due)
                    return
            before_us = clock.now_us()
            self._times.enter(activity, before_us)
            time.sleep(_TICK_S)
            now_us = clock.now_us()
            stood_still = now_us - before_us > STANDSTILL_S * 1e6
            late_us = now_us - self._schedule.find_time(self.scheduled) * 1e6
            is_idle = activity is Activity.IDLE
            self._times.enter(Activity.PREPARING, now_us, is_late=is_idle and late_us > IN_TIME_S * 1e6)

    def _send_burst(self, send: Callable[..., None], count: int, held_up_s: float, gives_up_us: float) -> float:
        """Send the next `count` messages. Return the seconds for which the system has delayed the message after them.

        `held_up_s` is the same of the first message. No message is sent after `gives_up_us`.
        """
        name, size = self.task.producer, self.workload.size
        begin, settle = self.attempts.begin, self.attempts.settle
        first = self.scheduled
        seqs = range(first, first + count)
        contents = [make_payload(name, seq, size) for seq in seqs]
        keys = self.task.list_keys(seqs)
        sent_us = begun_us = self._find_standstill()
        due_at = self._schedule.find_time(first)
        late_s = begun_us / 1e6 - due_at
        if late_s < IN_TIME_S:
            held_up_s = 0.0
        self._times.enter(Activity.SENDING, begun_us, is_late=late_s > IN_TIME_S)
        for seq, key, content in zip(seqs, keys, contents, strict=True):
            begin(seq, hash_payload(content), sent_us)
            self.scheduled = seq + 1
            send(seq, key, content, partial(settle, seq))
            if self._reach is not None:
                self._reach_moments(first + count - seq - 1)
            sent_us = clock.now_us()
            if sent_us >= gives_up_us:
                break
        self._seen_us = sent_us
        self._times.enter(Activity.PREPARING, sent_us)
        if late_s - held_up_s > self._standstill_s:
            # The producer was too slow for a while, even without one long standstill.
            self._keep_standstill(due_at, sent_us / 1e6)
        # A delay inside the system's client is a delay by the system.
        return held_up_s + (sent_us - begun_us) / 1e6

    def _reach_moments(self, rest: int) -> None:
        """Call `reach` for the moments at which the producer is, with `rest` messages of its batch to send."""
        assert self._reach is not None
        holding = f"{self.attempts.pending:,} unacknowledged messages, with {rest:,} of a batch to send"
        if self.attempts.pending:
            self._reach(ClientMoment.HOLDS_UNACKNOWLEDGED, holding)
        if rest:
            self._reach(ClientMoment.IN_BATCH, holding)

    def _count_due(self, now: float) -> int:
        """Return how many messages were due until a Unix time, and until the schedule's end if it is known.

        Messages behind a reservation that is raised no more are due to another process.
        """
        due = self._schedule.count_due(now if self._ends_at is None else min(now, self._ends_at))
        return min(due, self._reserved) if self._is_bounded else due

    def _find_standstill(self) -> int:
        """Return the present time in µs. If the process stood still for too long, note this period as a standstill."""
        now_us = clock.now_us()
        if now_us - self._seen_us > self._standstill_s * 1e6:
            self._keep_standstill(self._seen_us / 1e6, now_us / 1e6)
        self._seen_us = now_us
        return now_us

    def _keep_standstill(self, begin: float, end: float) -> None:
        """Note a period, in Unix seconds, in which the producer itself was late. Periods that touch are merged."""
        begin_us, end_us = int(begin * 1e6), int(end * 1e6)
        with self._standstills_lock:
            while self._standstills and begin_us <= self._standstills[-1][1]:
                earlier_us, later_us = self._standstills.pop()
                begin_us, end_us = min(begin_us, earlier_us), max(end_us, later_us)
            self._standstills.append((begin_us, end_us))

    def _check_held_back(self, due: int) -> None:
        """Raise RunError if one of the first `due` messages was neither sent nor held back by `max_pending`.

        A producer that had to end early has another problem already, and is not checked.
        """
        sendable = due - max(self.scheduled, self._held_back)
        if sendable > 0 and not self._early:
            raise RunError(
                f"{sendable:,} messages were due and not sent, although fewer than max_pending had no answer; "
                "look whether the machine or the client stood still"
            )

    def _find_end(self, now: float) -> float | None:
        """Return the Unix time at which the schedule ends; None if the time is not known yet.

        The schedule ends at once if the timeline of faults failed, the Spark task is gone, or the phases' times were
        not recorded in time. If the thread that writes the record failed, its error is raised.
        """
        if self._early or now - self._asked_at <= _ASK_EVERY_S:
            return self._ends_at
        self._asked_at = now
        if self._keep_error is not None:
            raise self._keep_error
        if self._follows_rates:
            self._follow_rates()
        phases = read_record(self.run, PhaseTimes)
        if phases is not None:
            self._ends_at = phases.ends_at / 1e6
        elif now > self._start_at + _NO_PHASES_S:
            self._ends_at = self._ends_at or now
        if self._stopping.is_set():
            self._stopped_at = self._stopped_at or now
            self._ends_at = min(self._stopped_at, self._ends_at or now)
        if self._gone.is_set() or read_record(self.run, EarlyEnd) is not None:
            # `_EARLY_SETTLE_S` counts from now.
            self._early, self._ends_at = True, now
        return self._ends_at

    def _follow_rates(self) -> None:
        """Change to the rates that the timeline has recorded. A step is recorded before its time."""
        rates = read_record(self.run, LoadRates)
        if rates is None:
            return
        self._schedule = self._make_schedule(rates)
        if self._seeks_rate and rates.found is not None:
            self._seeks_rate, self._watch = False, RateWatch(self._schedule.rate)

    def _make_schedule(self, rates: LoadRates | None) -> Schedule:
        return make_schedule(self.run, self.task, self._start_at, rates, first=self._first)

    def _keep_record(self) -> None:
        try:
            sampled_us = clock.now_us()
            while not self._ended:
                before_us = clock.now_us()
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or self.scheduled >= self._reserved, KEEP_EVERY_S)
                now_us = clock.now_us()
                self._note_oversleeping(before_us, now_us)
                self._extend_reservation()
                self._write_rows()
                if now_us - sampled_us >= KEEP_EVERY_S * 1e6:
                    sampled_us = now_us
                    self._watch_rate()
        except Exception as error:
            # The sender must not send messages that cannot be recorded.
            self._keep_error = error
            with self._changed:
                self._changed.notify_all()

    def _note_oversleeping(self, before_us: int, now_us: int) -> None:
        """Note by how much this thread woke up too late. It waits from `before_us` on for `KEEP_EVERY_S` at most."""
        late_s = (now_us - before_us) / 1e6 - KEEP_EVERY_S
        if late_s > IN_TIME_S:
            self._overslept_s += late_s
        if late_s > self._standstill_s:
            # The whole process stood still, and so did the sender.
            self._keep_standstill(before_us / 1e6 + KEEP_EVERY_S, now_us / 1e6)

    def _watch_rate(self) -> None:
        """Take a sample of the load, and record the times in which the rate was missed if they changed.

        A load that has to find its rate misses some rates before, which is no result.
        """
        if self._watch is None:
            return
        now_us, pending = clock.now_us(), self.attempts.pending
        sample = sample_load(
            self._times,
            self._wait,
            now_us,
            due=self._count_due(now_us / 1e6) - self._first,
            acked=self.attempts.counts[AttemptOutcome.ACKED],
            pending=pending,
            overslept_s=self._overslept_s,
        )
        if not self._watch.add(sample):
            return
        write_record(
            self.run,
            MissedRates(
                process=f"{self.task.producer}-{self._epoch}",
                times=tuple(self._watch.times),
                omitted=self._watch.omitted,
                at=now_us,
            ),
        )
        missed = self._watch.now
        self._live.show(missed_rate=None if missed is None else [str(reason) for reason in missed.reasons])

    def _end_record(self, keeper: threading.Thread) -> None:
        """Write the remaining rows to the record. The rows of messages held back until the end come last.

        If another process goes on behind this one, the reserved messages that were not sent have rows too. Their
        outcome is `unknown`, because they were not due, and such rows without a time of sending count in no measured
        time.

        If the thread that writes the record failed, its error is raised.
        """
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if keeper.is_alive():
            keeper.join()
        self._write_rows()
        if self._keep_error is not None:
            raise self._keep_error
        name, size = self.task.producer, self.workload.size
        result, until = Settled(AttemptOutcome.NOT_SENT), self._held_back
        if self._is_bounded:
            result, until = Settled(AttemptOutcome.UNKNOWN, error="another process took over before"), self._reserved
        for first in range(self.scheduled, until, _ROWS):
            seqs = range(first, min(first + _ROWS, until))
            self.attempts.skip(_hash_messages(name, seqs, size), result)
            self.scheduled += len(seqs)
            self._write_rows()
        if self._stopping.is_set() and self._start_at:
            # The producer's next process goes on behind the last message of this one.
            end = Reservation(
                first=self._first, until=self.scheduled, is_last=self._is_bounded, start_at=self._start_at
            )
            self._record.reserve(end)

    def _extend_reservation(self) -> None:
        ahead, is_last = int(max(_RESERVED, 2 * self._schedule.rate)), self._superseded.is_set()
        if self._is_bounded or (self._reserved - self.scheduled > ahead // 2 and not is_last):
            return
        until = max(self._reserved, self.scheduled + ahead)
        self._record.reserve(Reservation(first=self._first, until=until, is_last=is_last, start_at=self._start_at))
        with self._changed:
            self._reserved, self._is_bounded = until, is_last
            self._changed.notify_all()

    def _await_reservation(self, seq: int) -> None:
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: seq < self._reserved or self._is_bounded or self._keep_error is not None)
        if self._keep_error is not None:
            raise self._keep_error

    def _write_rows(self) -> None:
        # Messages that become due later are not compared with the acks until now.
        due_us = clock.now_us()
        if attempts := self.attempts.take():
            self._record.append(_make_rows(self.run, self.task, self._epoch, self._schedule, attempts))
        if self._ended or self._seeks_rate or time.monotonic() - self._shown_at >= _SHOW_EVERY_S:
            self._shown_at = time.monotonic()
            counts: dict[str, Any] = {outcome.value: count for outcome, count in self.attempts.counts.items()}
            self._live.show(
                producer=self.task.producer,
                due=self._count_due(due_us / 1e6) - self._first,
                due_us=due_us,
                scheduled=self.scheduled - self._first,
                pending=self.attempts.pending,
                **counts,
            )

    def _make_end(self, problem: BaseException | None) -> ProducerEnd:
        counts = self.attempts.counts
        why = None if problem is None else f"{self.task.producer}: {type(problem).__name__}: {problem}"
        if why is None and self._early:
            why = f"{self.task.producer}: it was told to end before its time"
        return ProducerEnd(
            task=self.task.number,
            producer=self.task.producer,
            scheduled=self.scheduled - self._first,
            acked=counts[AttemptOutcome.ACKED],
            failed=counts[AttemptOutcome.FAILED],
            unknown=counts[AttemptOutcome.UNKNOWN],
            not_sent=counts[AttemptOutcome.NOT_SENT],
            epoch=self._epoch,
            segments=self._record.segments,
            standstills=tuple(self._standstills),
            problem=why,
            at=clock.now_us(),
        )


def complete_publishes(
    run: Run, task: ProducerTask, reader: RecordReader, segments: Iterable[Segment], has_ended: Callable[[], bool]
) -> Batches:
    """Yield a producer's recorded rows of `publishes`, then a row for each other message that it may have sent.

    These other messages have the outcome `unknown`. `has_ended` is called after the last segment of the record. If it
    returns True, the producer ended by itself, its record is complete, and no row is added.

    Raises RunError if the record names a message that the scenario's rate and times cannot reach.
    """
    scenario = run.scenario
    longest_s = 2 * (scenario.longest_load_s + scenario.settle_s) + _SPARE_S
    highest_rate = MOST_RATE if scenario.workload.rate == MAX_RATE else task.rate
    limit = min(
        find_next_seq(run, task.client, reader.epoch) + int(highest_rate * longest_s) + 10 * _RESERVED, _MOST_SEQS
    )
    seen = np.zeros(_ROWS, dtype=bool)
    for segment in segments:
        column = segment.rows.column("seq")
        seqs = column.fill_null(-1).to_numpy()
        if len(seqs) and not 0 <= int(seqs.min()) <= int(seqs.max()) < limit:
            raise RunError(f"the record of {task.client} is damaged: it names a message that it cannot have sent")
        if (most := int(seqs.max(initial=0))) >= len(seen):
            seen = np.concatenate([seen, np.zeros(max(len(seen), most + 1 - len(seen)), dtype=bool)])
        seen[seqs] = True
        yield segment.rows
    if has_ended() or (reservation := reader.read_reservation()) is None:
        return
    first, until = reservation.first, reservation.until
    if not 0 <= first <= until < limit:
        raise RunError(f"the reservation of {task.client} is damaged: it has {shorten(str(until))} messages")
    recorded = seen[first:until]
    missing = (np.flatnonzero(~recorded) + first).tolist() + list(range(max(first, len(seen)), until))
    unknown = Settled(AttemptOutcome.UNKNOWN, error="the client was ended before it recorded an outcome")
    schedule = make_schedule(run, task, reservation.start_at, read_record(run, LoadRates), first=first)
    for first in range(0, len(missing), _ROWS):
        hashes = _hash_messages(task.producer, missing[first : first + _ROWS], run.scenario.workload.size)
        attempts = [Attempt(*message, None, None, unknown) for message in hashes]
        yield _make_rows(run, task, reader.epoch, schedule, attempts)


def _hash_messages(producer: str, seqs: Iterable[int], size: int) -> Iterator[tuple[int, int]]:
    """Yield the seq and the payload hash of each message."""
    for seq in seqs:
        yield seq, hash_payload(make_payload(producer, seq, size))


def _make_rows(
    run: Run, task: ProducerTask, epoch: int, schedule: Schedule, attempts: Sequence[Attempt]
) -> pa.RecordBatch:
    """Return attempts as rows of `publishes`, made column by column."""
    seqs, hashes, sent_at, settled_at, results = zip(*attempts, strict=True)
    outcomes, errors, partitions, positions = zip(*results, strict=True)
    segments, offsets, indexes = zip(*(position or _NO_POSITION for position in positions), strict=True)
    numbers = np.array(seqs, dtype=np.int64)
    return join_columns(
        "publishes",
        {
            "seq": numbers,
            "key": pa.array(task.keys).take(pa.array(task.number_keys(numbers))),
            "payload_hash": hashes,
            "scheduled_at": schedule.compute_times_us(numbers),
            "sent_at": sent_at,
            "settled_at": settled_at,
            "outcome": outcomes,
            "error": errors,
            "partition": partitions,
            "segment": segments,
            "offset": offsets,
            "batch_index": indexes,
        },
        {
            "run_id": run.run_id,
            "cluster": task.cluster,
            "topic": name_topic(run),
            "producer": task.producer,
            # A task that Spark repeats has another epoch, because the messages of the first epoch are already sent.
            "epoch": epoch,
        },
    )


def main() -> None:
    run_client(
        plan_producers,
        lambda run, task, epoch, parent: ScheduledProducer(
            run,
            task,
            epoch=epoch,
            gone=parent.gone,
            stopping=parent.stopping,
            superseded=parent.superseded,
            beside=parent.beside,
            reach=parent.reach if awaits_moments(run, ClientRole.PRODUCER) else None,
        ).publish(parent.say_ready, parent.await_begin),
    )


if __name__ == "__main__":
    main()
