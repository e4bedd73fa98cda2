"""The life of a client in its Spark task: its processes one after the other, as faults end them and start them again.

A fault leaves a `ClientOrder`, which says what the client has to be. The task carries the order out and answers with
`ClientEpochs`. So a fault acts on clients of any machine of a Spark cluster, and judging reads who ended a process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from brokerproof import clock
from brokerproof.clients.client_process import ClientProcess
from brokerproof.clients.record import RecordReader, Segment, list_epochs
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import ClientRole
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    ClientOrder,
    ClientState,
    EarlyEnd,
    FaultsUndone,
    read_record,
    write_record,
)

# Seconds between two looks for new segments, and for orders too if a fault acts on clients of the role.
_LOOK_EVERY_S, _LOOK_FOR_ORDERS_EVERY_S = 0.25, 0.05
# After the timeline broke, a client has this many seconds to end by itself. Then it is killed.
_EARLY_END_S = 3.0
# A client that a fault stops has this many seconds to end, as a node has. Then it is killed.
_STOP_S = 30.0
# The longest wait for the moment that a fault names, and the time between two looks.
_MOMENT_S, _LOOK_FOR_MOMENT_EVERY_S = 20.0, 0.005
# A process that a fault started begins this many seconds after it was connected.
_BEGIN_S = 0.1


class ClientLife:
    """Runs one client: its first process, and the further ones that faults start."""

    def __init__(self, run: Run, role: ClientRole, number: int, *, module: str, is_overdue: Callable[[], bool]) -> None:
        """`number` counts the clients of its role, and `module` is the client's Python module.

        If `is_overdue` returns true, the client is killed and stays dead.
        """
        client = run.scenario.workload.list_clients(run.topology, role)[number]
        self._run, self._client, self._number = run, client.client, number
        self._module, self._is_overdue = module, is_overdue
        self._takes_orders = any(fault.targets.client is role for fault in run.scenario.faults)
        # If Spark repeats the task, earlier processes have left records too. They may still write.
        self.earlier = [RecordReader(run, self._client, epoch=each) for each in list_epochs(run, self._client)]
        self.readers = list(self.earlier)
        self._epochs: list[ClientEpoch] = []
        self._stands_by = client.standby
        self._state = ClientState.STOPPED if client.standby else ClientState.RUNNING
        # Orders to an earlier task were for its client.
        self._followed = order.number if (order := self._read_order()) else 0
        self._open: ClientOrder | None = None
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
        return self._epochs[-1].fault if self._epochs else None

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
        while not self._stands_by or self._await_start():
            self._stands_by = False
            epoch = self.epoch + 1
            self.readers.append(reader := RecordReader(self._run, self._client, epoch=epoch))
            self._epochs.append(ClientEpoch(epoch=epoch, started_at=clock.now_us()))
            with ClientProcess(self._module, self._run, self._client, self._number, epoch) as process:
                if agree is not None and len(self._epochs) == 1:
                    process.await_ready()
                    self._change_epoch(ready_at=clock.now_us())
                    process.begin(agree())
                self._answer("")
                yield reader, self._follow(process, reader)
                self.end = process.describe_end()
                self._note_end(process)
            if not self._await_start():
                break
        self._answer("", over=True)

    def _follow(self, process: ClientProcess, reader: RecordReader) -> Iterator[Segment]:
        while True:
            is_running = process.is_running()
            yield from reader.read_new() if is_running else reader.read_rest()
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
        if self._epochs[-1].ready_at is None and process.await_ready(0) and process.is_running():
            self._change_epoch(ready_at=clock.now_us())
            process.begin(clock.now_s() + _BEGIN_S)
            self._state = ClientState.RUNNING
            self._answer(f"process {process.pid} is connected")
        if time.monotonic() > self._stops_until_s:
            process.kill()
        elif (order := self._find_new_order()) is not None:
            self._carry_out(order, process)

    def _carry_out(self, order: ClientOrder, process: ClientProcess) -> None:
        held = ""
        if order.moment is not None:
            if not self._await_moment(process, order.moment):
                self._answer(f"it never met the moment `{order.moment}` in {_MOMENT_S:g} s", order)
                return
            held = f", holding {process.read_holding()}"
        match order.state:
            case ClientState.KILLED:
                self._change_epoch(fault=order.fault)
                process.kill()
                self._state, self._open = order.state, None
                self._answer(f"process {process.pid} {process.describe_end()}{held}", order)
            case ClientState.STOPPED:
                self._change_epoch(fault=order.fault)
                process.thaw()
                process.stop()
                # The answer follows its end.
                self._open, self._stops_until_s = order, time.monotonic() + _STOP_S
            case ClientState.PAUSED:
                process.freeze()
                self._state = order.state
                self._answer(f"process {process.pid} was frozen{held}", order)
            case ClientState.RUNNING:
                process.thaw()
                self._state = order.state
                self._answer(f"process {process.pid} goes on", order)

    def _await_moment(self, process: ClientProcess, moment: ClientMoment) -> bool:
        """Let the client freeze itself at the moment. Returns whether it did in time."""
        deadline = time.monotonic() + _MOMENT_S
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
        if self._open is not None:
            self._state = ClientState.STOPPED
            order, self._open = self._open, None
            self._answer(f"process {process.pid} {self.end}", order)

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

    def _read_order(self) -> ClientOrder | None:
        return read_record(self._run, ClientOrder, self._client) if self._takes_orders else None

    def _find_new_order(self) -> ClientOrder | None:
        order = self._read_order()
        return order if order is not None and order.number > self._followed and order != self._open else None

    def _change_epoch(self, **changes: object) -> None:
        self._epochs[-1] = self._epochs[-1].model_copy(update=changes)

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
                over=over,
                at=clock.now_us(),
            ),
        )
