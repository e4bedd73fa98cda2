"""The clients of a run as targets of faults, with the methods of a runtime of nodes.

A client lives in its Spark task, perhaps on another machine. A fault leaves an order for the task, which carries it out
and answers (clients/client_life.py).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from brokerproof.clock import Clock
from brokerproof.errors import NodeError
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.workload import WorkloadClient
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from brokerproof.run.load_rate import find_rate
from brokerproof.run.records import (
    ClientEpochs,
    ClientOrder,
    ClientState,
    LoadRates,
    RateStep,
    read_record,
    write_record,
)
from brokerproof.runtimes.protocols import NodeSpec

# A task answers within this many seconds, beside the time that a moment, a start or an end in order may take.
_ANSWER_S = 20.0
_ENDED = frozenset({ClientState.STOPPED, ClientState.KILLED})
_RUNS = frozenset({ClientState.RUNNING, ClientState.FENCED})
# A second process starts and connects, and the first one ends, within this time.
_FENCE_S = 120.0
# Producers read the record of their rates four times a second.
_NOTICE_US = 1_000_000
# What evidence has of a producer's counts.
_SHOWN = ("due", "scheduled", "pending", "acked")
# Two faults that act on one client at a time take turns.
_turns = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class ClientRuntime:
    """Acts on clients, by their labels, for one fault."""

    run: Run
    fault: Fault
    # {label: client}
    clients: Mapping[str, WorkloadClient]
    clock: Clock

    def make_specs(self) -> dict[str, NodeSpec]:
        """Return the clients as the kinds of fault see their targets."""
        return {
            label: NodeSpec(
                name=label, role=client.role, region="", address="", command=(), health_source=f"the task of {label}"
            )
            for label, client in self.clients.items()
        }

    def kill(self, name: str) -> None:
        """End the client at once. Raises NodeError if its task does not answer in time or could not do it."""
        self._order(name, ClientState.KILLED, timeout_s=_ANSWER_S)

    def stop(self, name: str, *, grace_s: float) -> None:
        """Ask the client to end in order. Its task kills it after 30 s."""
        self._order(name, ClientState.STOPPED, timeout_s=grace_s + _ANSWER_S)

    def pause(self, name: str) -> None:
        """Freeze the client's process."""
        self._order(name, ClientState.PAUSED, timeout_s=_ANSWER_S)

    def resume(self, name: str) -> None:
        """Let a frozen client go on. A client that was ended meanwhile stays dead."""
        if self.is_paused(name):
            self._order(name, ClientState.RUNNING, timeout_s=_ANSWER_S, moment=False)

    def start(self, spec: NodeSpec) -> None:
        """Start another process of the client, and wait until it is connected."""
        self._order(spec.name, ClientState.RUNNING, timeout_s=self.clients[spec.name].start_s, moment=False)

    def fence(self, name: str) -> None:
        """Start a second process of the client beside the first one, and wait until it is refused or has taken over."""
        self._order(name, ClientState.FENCED, timeout_s=_FENCE_S)

    def evidence_of_fencing(self, name: str) -> str | None:
        return self._read(name).changed.get(self.fault.name)

    def fail_task(self, name: str) -> None:
        """Kill the client and make its Spark task fail, so that Spark repeats the tasks of all clients of its role."""
        self._order(name, ClientState.REPEATED, timeout_s=_ANSWER_S)

    def evidence_of_repetition(self, name: str) -> str | None:
        """Return evidence that another attempt of the client's Spark task has begun; None before that."""
        epochs = self._read(name).epochs
        ended = next((each for each in epochs if each.fault == self.fault.name), None)
        if ended is None or epochs[-1].attempt == ended.attempt:
            return None
        return (
            f"attempt {ended.attempt} of its Spark task ended with process {ended.epoch}, "
            f"and attempt {epochs[-1].attempt} began with process {epochs[-1].epoch}"
        )

    def set_rate(self, names: Collection[str], *, is_quiet: bool) -> None:
        """Let producers have nothing to send, or the load's rate, from the near future on.

        Raises NodeError if the load has not found its rate.
        """
        rate = 0 if is_quiet else find_rate(self.run)
        if rate is None:
            raise NodeError("the load has not found its rate")
        with _turns:
            rates = read_record(self.run, LoadRates)
            earlier, found = (rates.steps, rates.found) if rates else ((), None)
            now_us = self.clock.now_us()
            step = RateStep(at=now_us + _NOTICE_US, rate=rate, producers=tuple(sorted(names)))
            write_record(self.run, LoadRates(steps=(*earlier, step), found=found, at=now_us))

    def evidence_of_rate(self, names: Collection[str], *, is_quiet: bool) -> str | None:
        """Return evidence that producers have nothing to send, or that they have the load's rate; None until it is so.

        A producer that still has to send what was due before has something to send. One whose load has ended needs no
        rate.
        """
        rates = read_record(self.run, LoadRates)
        step = next(each for each in reversed(rates.steps) if set(names) <= set(each.producers)) if rates else None
        if step is None or (not step.rate) is not is_quiet or self.clock.now_us() < step.at:
            return None
        over = [] if is_quiet else [name for name in names if self._read(name).over]
        shown = {name: read_live_status(self.run, self.clients[name].client) for name in names if name not in over}
        if any(each.get("due_us", 0) <= step.at for each in shown.values()):
            return None
        if is_quiet and any(each["scheduled"] < each["due"] for each in shown.values()):
            return None
        counts = {name: {key: status[key] for key in _SHOWN} for name, status in shown.items()}
        return json.dumps(counts | dict.fromkeys(over, "its load has ended"))

    def is_alive(self, name: str) -> bool:
        return self._read(name).state not in _ENDED

    def is_paused(self, name: str) -> bool:
        return self._read(name).state is ClientState.PAUSED

    def evidence_of_death(self, spec: NodeSpec) -> str | None:
        answer = self._read(spec.name)
        return answer.changed.get(self.fault.name) or (answer.evidence or None if answer.state in _ENDED else None)

    def is_healthy(self, spec: NodeSpec) -> bool:
        """Return whether the client's last process is connected, or has ended by itself after it was.

        Raises NodeError if that can never be true, because the client's task is over.
        """
        answer = self._read(spec.name)
        lasting = next((each for each in reversed(answer.epochs) if each.fault is None), None)
        is_healthy = answer.state in _RUNS and lasting is not None and lasting.ready_at is not None
        if answer.over and not is_healthy:
            raise NodeError(f"{spec.name} was not healthy: its task has ended")
        return is_healthy

    def _read(self, name: str) -> ClientEpochs:
        answer = read_record(self.run, ClientEpochs, self.clients[name].client)
        if answer is None:
            raise NodeError(f"the task of {name} has not begun")
        return answer

    def _order(self, name: str, state: ClientState, *, timeout_s: float, moment: bool = True) -> None:
        target, awaited = self.clients[name], self.fault.targets.moment if moment else None
        client = target.client
        if awaited is not None and not self.is_alive(name):
            raise NodeError(f"{name} was never at the moment `{awaited}`, because its process does not run")
        with _turns:
            last = read_record(self.run, ClientOrder, client)
            order = ClientOrder(
                client=client,
                number=1 if last is None else last.number + 1,
                state=state,
                fault=self.fault.name,
                moment=awaited,
                at=self.clock.now_us(),
            )
            write_record(self.run, order)
        limit_s = timeout_s + (target.moment_s if awaited else 0)

        def is_answered() -> bool:
            answer = self._read(name)
            if answer.over:
                return True
            # A started process is connected later than its order is carried out.
            return answer.followed >= order.number and (state is not ClientState.RUNNING or answer.state is state)

        self.clock.wait_until(is_answered, timeout_s=limit_s, what=f"the task of {name}", every_s=0.05)
        answer = self._read(name)
        is_as_ordered = answer.state is state or (state in _ENDED and answer.state in _ENDED)
        # Another fault may have changed it again meanwhile.
        was_as_ordered = state is not ClientState.RUNNING and self.fault.name in answer.changed
        if not is_as_ordered and not was_as_ordered:
            raise NodeError(f"{name} was not {state}: {answer.evidence or 'its task has ended'}")
