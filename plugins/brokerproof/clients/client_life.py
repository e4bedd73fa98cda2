"""The life of a client in its Spark task: its processes one after the other, as faults end them and start them again.

A fault leaves a `ClientOrder`, which says what the client has to be. The task carries the order out and answers with
`ClientEpochs`. So a fault acts on clients of any machine of a Spark cluster, and judging reads who ended a process.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from brokerproof import clock
from brokerproof.clients.client_process import ClientProcess
from brokerproof.clients.record import RecordReader, Segment, list_epochs, read_end
from brokerproof.errors import RunError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import ClientRole
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    ClientOrder,
    ClientState,
    ConsumerEnd,
    EarlyEnd,
    FaultsUndone,
    ProducerEnd,
    read_record,
    write_record,
)

# Seconds between two looks for new segments, and for orders too if a fault acts on clients of the role.
_LOOK_EVERY_S, _LOOK_FOR_ORDERS_EVERY_S = 0.25, 0.05
# After the timeline broke, a client has this many seconds to end by itself. Then it is killed.
_EARLY_END_S = 3.0
# A client that a fault stops has this many seconds to end, as a node has. Then it is killed.
_STOP_S = 30.0
# The time between two looks whether the client is at the moment that a fault names.
_LOOK_FOR_MOMENT_EVERY_S = 0.005
# A process that a fault started begins this many seconds after it was connected.
_BEGIN_S = 0.1
# The longest wait until a second process of a producer's name is connected or refused.
_CONTEST_S = 60.0
# A producer whose name another process has taken raises its reservation no more within this time, or is killed.
_SUPERSEDE_S = 5.0
# It then goes on for this time, in which the cluster should refuse what it sends.
_OVERLAP_S = 1.0
# If Spark repeats the task, the earlier process must have recorded its end within this time.
_EARLIER_END_S = 15.0


@dataclass(kw_only=True)
class _Second:
    """A second process of a producer's name, which a fault began beside the first one. Times are monotonic seconds."""

    process: ClientProcess
    reader: RecordReader
    order: ClientOrder
    # What the first process held, as a part of the evidence.
    held: str
    # It must be connected or refused by this time, and then the first process must have made its last reservation.
    until_s: float
    connected_us: int | None = None
    has_begun: bool = False
    stops_first_at_s: float = float("inf")
    # The outcomes of the messages that the first process sent after the second one was connected.
    fates: Counter[str] = field(default_factory=Counter)

    def count_fates(self, rows: pa.RecordBatch) -> None:
        """Count the outcomes, or errors, of a segment's messages if they were sent after the connection."""
        if self.connected_us is not None:
            late = rows.filter(pc.greater(rows.column("sent_at").cast(pa.int64()), self.connected_us))
            self.fates.update(pc.coalesce(late.column("error"), late.column("outcome")).to_pylist())

    def describe_fates(self) -> str:
        found = ", ".join(f"{fate} {count:,}" for fate, count in sorted(self.fates.items())) or "none"
        return f"of what the earlier process sent after that: {found}"


class ClientLife:
    """Runs one client: its first process, and the further ones that faults start."""

    def __init__(self, run: Run, role: ClientRole, number: int, *, module: str, is_overdue: Callable[[], bool]) -> None:
        """`number` counts the clients of its role, and `module` is the client's Python module.

        If `is_overdue` returns true, the client is killed and stays dead.
        """
        clients = run.scenario.workload.list_clients(run.topology, role)
        client = clients[number]
        self._run, self._role, self._client, self._number = run, role, client.client, number
        self._moment_s = client.moment_s
        self._module, self._is_overdue = module, is_overdue
        self._takes_orders = any(fault.targets.client is role for fault in run.scenario.faults)
        before = read_record(run, ClientEpochs, self._client) if self._takes_orders else None
        self._epochs = list(before.epochs) if before else []
        self._changed = dict(before.changed) if before else {}
        self._attempt = max((each.attempt + 1 for each in self._epochs), default=0)
        if self._epochs and (fault := self._find_repeating_fault(each.client for each in clients)):
            self._excuse_earlier_process(fault)
        # If Spark repeats the task, earlier processes have left records too. They may still write.
        self.earlier = [RecordReader(run, self._client, epoch=each) for each in list_epochs(run, self._client)]
        self.readers = list(self.earlier)
        # A client that a fault ended stays dead in a repeated task too.
        self._stands_by = before.state in (ClientState.STOPPED, ClientState.KILLED) if before else client.standby
        self._state = ClientState.STOPPED if self._stands_by else ClientState.RUNNING
        # Orders to an earlier task were for its client.
        self._followed = order.number if (order := self._read_order()) else 0
        self._open: ClientOrder | None = None
        self._second: _Second | None = None
        self._stops_until_s = float("inf")
        # How the last process ended, to complete the sentence "its process …".
        self.end = ""

    @property
    def epoch(self) -> int:
        """The number of the last process; -1 if there was none."""
        return self.readers[-1].epoch if self.readers else -1

    @property
    def ended_by(self) -> str | None:
        """The fault that ended the last process; None if no fault did."""
        return next((each.fault for each in self._epochs if each.epoch == self.epoch), None)

    @property
    def is_excused(self) -> bool:
        """Whether the client has no end of its own because of a fault, which ended it or never started it."""
        return self.ended_by is not None or not self._epochs

    def live(self, agree: Callable[[], float] | None = None) -> Iterator[tuple[RecordReader, Iterator[Segment]]]:
        """Yield each process's reader, and the segments (files) of its record until it has ended and all are read.

        `agree` is called when the first process is connected, and returns the Unix time at which it begins. Without
        it, the first process begins as soon as it is connected.
        """
        if self._stands_by:
            self._answer("")
            agree = None
        while not self._stands_by or self._await_start():
            self._stands_by = False
            process, reader = self._start()
            self.readers.append(reader)
            if agree is not None:
                process.await_ready()
                self._change_epoch(ready_at=clock.now_us())
                process.begin(agree())
                agree = None
            self._answer("")
            yield from self._live_through(process, reader)
            while (second := self._second) is not None:
                self._second = None
                self.readers.append(second.reader)
                yield from self._live_through(second.process, second.reader)
            if not self._await_start():
                break
        self._answer("", over=True)

    def _start(self, *, beside: bool = False) -> tuple[ClientProcess, RecordReader]:
        epoch = max(self.epoch, *(each.epoch for each in self._epochs), -1) + 1
        self._epochs.append(ClientEpoch(epoch=epoch, attempt=self._attempt, started_at=clock.now_us()))
        process = ClientProcess(self._module, self._run, self._client, self._number, epoch, beside=beside)
        return process, RecordReader(self._run, self._client, epoch=epoch)

    def _live_through(
        self, process: ClientProcess, reader: RecordReader
    ) -> Iterator[tuple[RecordReader, Iterator[Segment]]]:
        """Yield a process's reader and segments until it has ended. Another one may then run in `_second`."""
        try:
            with process:
                yield reader, self._follow(process, reader)
                self.end = process.describe_end()
                self._note_end(process)
        except BaseException:
            self._end_second()
            raise

    def _follow(self, process: ClientProcess, reader: RecordReader) -> Iterator[Segment]:
        while True:
            is_running = process.is_running()
            for segment in reader.read_new() if is_running else reader.read_rest():
                if self._second is not None:
                    self._second.count_fates(segment.rows)
                yield segment
            if not is_running:
                return
            if self._must_end():
                process.kill()
            elif self._takes_orders:
                self._look_after(process)
            time.sleep(_LOOK_FOR_ORDERS_EVERY_S if self._takes_orders else _LOOK_EVERY_S)

    def _must_end(self) -> bool:
        early = read_record(self._run, EarlyEnd)
        return self._is_overdue() or (early is not None and clock.now_us() > early.at + _EARLY_END_S * 1e6)

    def _look_after(self, process: ClientProcess) -> None:
        if self._find_epoch().ready_at is None and process.await_ready(0) and process.is_running():
            self._change_epoch(ready_at=clock.now_us())
            process.begin(clock.now_s() + _BEGIN_S)
            self._state = ClientState.RUNNING
            self._answer(f"process {process.pid} is connected")
        if time.monotonic() > self._stops_until_s:
            process.kill()
        elif self._second is not None:
            self._look_after_second(process, self._second)
        elif (order := self._find_new_order()) is not None:
            self._carry_out(order, process)

    def _carry_out(self, order: ClientOrder, process: ClientProcess) -> None:
        held = ""
        if order.moment is not None:
            if not self._await_moment(process, order.moment):
                self._answer(f"it never met the moment `{order.moment}` in {self._moment_s:g} s", order)
                return
            held = f", holding {process.read_holding()}"
        match order.state:
            case ClientState.KILLED:
                self._change_epoch(fault=order.fault)
                process.kill()
                self._open = None
                self._obey(order, f"process {process.pid} {process.describe_end()}{held}")
            case ClientState.STOPPED:
                self._change_epoch(fault=order.fault)
                process.thaw()
                process.stop()
                # The answer follows its end.
                self._open, self._stops_until_s = order, time.monotonic() + _STOP_S
            case ClientState.PAUSED:
                process.freeze()
                self._obey(order, f"process {process.pid} was frozen{held}")
            case ClientState.REPEATED:
                self._change_epoch(fault=order.fault)
                process.kill()
                self._change_epoch(ended_at=clock.now_us())
                self._obey(order, f"process {process.pid} {process.describe_end()}, and its task failed{held}")
                raise RunError(f"{order.fault} makes this task fail, so that Spark repeats it")
            case ClientState.FENCED:
                process.thaw()
                second, reader = self._start(beside=True)
                until_s = time.monotonic() + _CONTEST_S
                self._second = _Second(process=second, reader=reader, order=order, held=held, until_s=until_s)
            case ClientState.RUNNING:
                process.thaw()
                self._obey(order, f"process {process.pid} goes on")

    def _look_after_second(self, first: ClientProcess, second: _Second) -> None:
        """Bring a producer's second process to its first message, or note how it was refused."""
        is_overdue = time.monotonic() > second.until_s
        if second.has_begun:
            if time.monotonic() > second.stops_first_at_s:
                first.stop()
                second.stops_first_at_s = float("inf")
                self._stops_until_s = time.monotonic() + _STOP_S
        elif second.connected_us is None:
            is_connected = second.process.ask_connected()
            if is_connected:
                second.connected_us = clock.now_us()
                second.until_s = time.monotonic() + _SUPERSEDE_S
                self._change_epoch(second.reader.epoch, ready_at=second.connected_us)
                first.supersede()
            elif is_connected is False or is_overdue:
                self._note_refusal(second)
        elif (reserved := self.readers[-1].read_reservation()) is not None and reserved.is_last:
            self._take_over(second)
        elif is_overdue:
            first.kill()

    def _take_over(self, second: _Second) -> None:
        """Let the second process begin behind what the first one has reserved."""
        self._change_epoch(fault=second.order.fault)
        second.process.begin(clock.now_s() + _BEGIN_S)
        second.has_begun, second.stops_first_at_s = True, time.monotonic() + _BEGIN_S + _OVERLAP_S

    def _note_refusal(self, second: _Second) -> None:
        """Record that the cluster refused the second process. Without its words, the fault had no effect."""
        epoch = second.reader.epoch
        self._end_second()
        end = self._read_end(epoch)
        if end is not None and end.problem:
            self._obey(second.order, f"process {second.process.pid} was refused: {end.problem}{second.held}")
        else:
            self._answer(f"process {second.process.pid} was neither connected nor refused", second.order)

    def _end_second(self) -> None:
        if self._second is not None:
            with self._second.process as process:
                process.kill()
            self._change_epoch(self._second.reader.epoch, ended_at=clock.now_us(), fault=self._second.order.fault)
            self._second = None

    def _await_moment(self, process: ClientProcess, moment: ClientMoment) -> bool:
        """Let the client freeze itself at the moment. Returns whether it did in time."""
        deadline = time.monotonic() + self._moment_s
        process.await_moment(moment)
        while process.is_running() and not self._must_end() and time.monotonic() < deadline:
            if process.is_frozen():
                return True
            time.sleep(_LOOK_FOR_MOMENT_EVERY_S)
        process.give_up_moment()
        return False

    def _note_end(self, process: ClientProcess) -> None:
        self._stops_until_s = float("inf")
        self._change_epoch(ended_at=clock.now_us())
        if (second := self._second) is not None:
            if second.connected_us is None:
                self._end_second()
                self._answer(f"its process {self.end} before", second.order)
                return
            if not second.has_begun:
                self._take_over(second)
            what = f"process {second.process.pid} took over from process {process.pid}{second.held}"
            self._obey(second.order, f"{what}; {second.describe_fates()}")
        if self._open is not None:
            order, self._open = self._open, None
            self._obey(order, f"process {process.pid} {self.end}")

    def _await_start(self) -> bool:
        """Wait until a fault starts the client again. Returns False if none will."""
        while (self._stands_by or self.ended_by is not None) and not self._must_end():
            if (order := self._find_new_order()) is not None:
                if order.state is ClientState.RUNNING:
                    self._followed = order.number
                    return True
                self._answer(f"its process {self.end} before" if self.end else "it had not begun", order)
            if read_record(self._run, FaultsUndone) is not None or read_record(self._run, EarlyEnd) is not None:
                return False
            time.sleep(_LOOK_FOR_ORDERS_EVERY_S)
        return False

    def _find_repeating_fault(self, clients: Iterable[str]) -> str | None:
        """Return the fault that made Spark repeat the tasks of these clients; None if no fault did."""
        answers = (read_record(self._run, ClientEpochs, client) for client in clients)
        repeated = next((each for each in answers if each and each.state is ClientState.REPEATED), None)
        order = read_record(self._run, ClientOrder, repeated.client) if repeated else None
        return order.fault if order and order.state is ClientState.REPEATED else None

    def _excuse_earlier_process(self, fault: str) -> None:
        """Note that the fault ended the last process of the earlier task, once its own record proves its end.

        Spark kills the earlier tasks, and a client ends after its task. Without the proof, the process may still act,
        and the verdict is unknown.
        """
        last = self._epochs[-1]
        if last.ended_at is not None:
            return
        deadline = time.monotonic() + _EARLIER_END_S
        while (end := self._read_end(last.epoch)) is None and time.monotonic() < deadline:
            time.sleep(_LOOK_FOR_ORDERS_EVERY_S)
        if end is not None:
            self._epochs[-1] = last.model_copy(update={"ended_at": end.at, "fault": fault})

    def _read_end(self, epoch: int) -> ProducerEnd | ConsumerEnd | None:
        if self._role is ClientRole.PRODUCER:
            return read_end(self._run, ProducerEnd, self._number, epoch)
        return read_end(self._run, ConsumerEnd, self._number, epoch)

    def _read_order(self) -> ClientOrder | None:
        return read_record(self._run, ClientOrder, self._client) if self._takes_orders else None

    def _find_new_order(self) -> ClientOrder | None:
        order = self._read_order()
        return order if order is not None and order.number > self._followed and order != self._open else None

    def _find_epoch(self) -> ClientEpoch:
        """Return the life of the process that is followed now."""
        return next(each for each in self._epochs if each.epoch == self.epoch)

    def _change_epoch(self, number: int | None = None, **changes: object) -> None:
        """Change the life of a process, by default of the one that is followed now."""
        changed = self.epoch if number is None else number
        self._epochs = [each.model_copy(update=changes) if each.epoch == changed else each for each in self._epochs]

    def _obey(self, order: ClientOrder, evidence: str) -> None:
        """Note that the client is now what the order asked for."""
        self._state = order.state
        self._changed[order.fault] = evidence
        self._answer(evidence, order)

    def _answer(self, evidence: str, order: ClientOrder | None = None, *, over: bool = False) -> None:
        if not self._takes_orders:
            return
        if order is not None:
            self._followed = order.number
        write_record(
            self._run,
            ClientEpochs(
                client=self._client,
                epochs=tuple(self._epochs),
                followed=self._followed,
                state=self._state,
                evidence=evidence,
                changed=self._changed,
                over=over,
                at=clock.now_us(),
            ),
        )
